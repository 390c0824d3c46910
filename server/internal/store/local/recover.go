package local

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wal"
	"github.com/kymogram/kymogram/server/internal/store/local/record"
	"github.com/kymogram/kymogram/server/internal/store/local/segment"
	"github.com/kymogram/kymogram/server/internal/store/local/state"
)

// recover reads the segments' indexes and the log behind them.
func (e *Engine) recover(ctx context.Context) error {
	live, lost, err := e.files.Load()
	if err != nil {
		return err
	}
	next := e.table.Load(live)
	opts := wal.Options{SegmentBytes: e.cfg.WALSegmentBytes, NextLSN: next, Tips: places(filepath.Join(e.cfg.Dir, "wal"), e.cfg.Marks), Logger: e.cfg.Logger}
	log, damage, err := wal.Open(e.cfg.FS, filepath.Join(e.cfg.Dir, "wal"), opts, func(lsn uint64, payload []byte) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := e.replay(lsn, payload); err != nil {
			e.damage.Report(model.RunID{}, "log record", err, "lsn", lsn)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("open the log: %w", err)
	}
	e.log = record.Log{Log: log}
	for _, d := range damage {
		if d.Torn {
			e.cfg.Logger.Info("a record that was never acknowledged is cut from the log", "file", d.File, "offset", d.Offset, "bytes", d.Bytes)
			continue
		}
		why := errors.New("checksum or length is wrong")
		if d.Bytes == 0 {
			why = errors.New("the log ends before its last sync")
		}
		e.damage.Report(model.RunID{}, "log range", why, "file", d.File, "offset", d.Offset, "bytes", d.Bytes, "records", d.Records)
		e.lostRecords += d.Records
	}
	e.mourn(lost)
	e.table.Adopt()
	return nil
}

// replay takes a record of the log into memory.
func (e *Engine) replay(lsn uint64, payload []byte) error {
	d := &record.Decoder{Rest: payload}
	switch t := record.Type(d.U8()); t {
	case record.TypeBatch1, record.TypeBatch:
		return e.replayBatch(lsn, payload)
	case record.TypeAttempt:
		id := model.RunID(d.ID())
		a := d.AttemptBody()
		return e.replayTo(d, id, lsn, func(r *state.Run) error { r.ApplyAttempt(a, lsn); return nil })
	case record.TypeWriter:
		id, place, w, attempt, logger := model.RunID(d.ID()), uint32(d.Uint()), model.WriterID(d.ID()), uint32(d.Uint()), d.Optional()
		return e.replayTo(d, id, lsn, func(r *state.Run) error { return r.ApplyWriter(place, w, attempt, logger, lsn) })
	case record.TypeDelete:
		return e.replayTo(d, d.ID(), lsn, func(r *state.Run) error { r.ApplyDelete(lsn); return nil })
	case record.TypeReleased:
		e.meta.release(d.Uint())
		return d.Err
	default:
		return fmt.Errorf("unknown record type %d", t)
	}
}

// mourn tells the ledgers of the runs of segments without a readable directory
// what those had of them. What an entry says is not served, since no checksum
// holds it; it is believed where it points to an index whose checksum does.
func (e *Engine) mourn(damaged []uint64) {
	for _, id := range damaged {
		name := segment.Name(id)
		lost, err := e.files.LostWith(id, e.table.FirstOrd)
		if err != nil {
			e.cfg.Logger.Warn("look for the runs of a damaged segment", "file", name, "err", err)
		}
		points := uint64(0)
		for run, d := range lost {
			points += d.Points
			e.damage.Lost(run, d)
		}
		e.cfg.Logger.Error("ledgers tell of the points in a damaged segment, as far as its directory can be read", "file", name, "runs", len(lost), "points", points)
	}
}

// replayBatch takes in what a start needs of a batch: the mark, the updates and
// counts. Its series and rows wait for the first use of the run.
func (e *Engine) replayBatch(lsn uint64, payload []byte) error {
	d := &record.Decoder{Rest: payload}
	first := uint64(0)
	if record.Type(d.U8()) == record.TypeBatch {
		first = d.Uint()
	}
	rec, outline, err := record.SkimBatch(d)
	if err != nil {
		return err
	}
	rec.First = first
	if len(rec.Doc) > 0 {
		e.meta.add(metaOf(rec, lsn))
	}
	return e.table.ReplayBatch(rec, lsn, outline, payload)
}

// replayTo applies a small record.
func (e *Engine) replayTo(d *record.Decoder, id model.RunID, lsn uint64, apply func(*state.Run) error) error {
	if d.Err != nil {
		return d.Err
	}
	return e.table.ReplayTo(id, lsn, apply)
}
