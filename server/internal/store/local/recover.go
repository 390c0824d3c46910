package local

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wal"
	"github.com/kymogram/kymogram/server/internal/store/local/record"
	"github.com/kymogram/kymogram/server/internal/store/local/segment"
)

// recover reads the segments' indexes and the log behind them.
func (e *Engine) recover(ctx context.Context) error {
	live, lost, err := e.files.Load()
	if err != nil {
		return err
	}
	next := e.adoptSegments(live)
	opts := wal.Options{SegmentBytes: e.cfg.WALSegmentBytes, NextLSN: next, Logger: e.cfg.Logger}
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
		e.damage.Report(model.RunID{}, "log range", errors.New("checksum or length is wrong"), "file", d.File, "offset", d.Offset, "bytes", d.Bytes, "records", d.Records)
		e.lostRecords += d.Records
	}
	e.mourn(lost)
	e.adopt()
	return nil
}

// adopt finds the run of each writer that has a mark.
func (e *Engine) adopt() {
	for _, r := range e.runs {
		for i := range r.writers {
			if r.writers[i].Mark > 0 {
				e.owners[r.writers[i].ID] = r
			}
		}
	}
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
		return e.replayTo(d, id, lsn, func(r *run) error { e.applyAttempt(r, a, lsn); return nil })
	case record.TypeWriter:
		id, place, w, attempt, logger := model.RunID(d.ID()), uint32(d.Uint()), model.WriterID(d.ID()), uint32(d.Uint()), d.Optional()
		return e.replayTo(d, id, lsn, func(r *run) error { return e.applyWriter(r, place, w, attempt, logger, lsn) })
	case record.TypeDelete:
		return e.replayTo(d, d.ID(), lsn, func(r *run) error { e.applyDelete(r, lsn); return nil })
	case record.TypeReleased:
		e.meta.release(d.Uint())
		return d.Err
	default:
		return fmt.Errorf("unknown record type %d", t)
	}
}

// replayBatch takes in what a start needs of a batch: the mark, the updates and
// counts. Its series and rows wait for the first use of the run (body.go).
func (e *Engine) replayBatch(lsn uint64, payload []byte) error {
	d := &record.Decoder{Rest: payload}
	first := uint64(0)
	if record.Type(d.U8()) == record.TypeBatch {
		first = d.Uint()
	}
	rec, made, points, err := record.SkimBatch(d)
	if err != nil {
		return err
	}
	rec.First = first
	if len(rec.Doc) > 0 {
		e.meta.add(metaOf(rec, lsn))
	}
	return e.replayTo(d, rec.Run, lsn, func(r *run) error {
		if err := e.applyHead(r, rec, lsn); err != nil || r.deleted {
			return err
		}
		if made > 0 {
			if int(made) > int(r.made)+maxGap {
				return fmt.Errorf("record %d names series %d of %d", lsn, made-1, r.made)
			}
			r.made = max(r.made, made)
		}
		e.keepLate(r, lateRecord{lsn, slices.Clone(payload)}, points)
		return nil
	})
}

func (e *Engine) keepLate(r *run, l lateRecord, points uint64) {
	r.late, r.loaded = append(r.late, l), false
	r.stored += points
	e.grow(r, len(l.payload))
}

// replayTo applies a record unless the run's segments hold it already.
func (e *Engine) replayTo(d *record.Decoder, id model.RunID, lsn uint64, apply func(*run) error) error {
	if d.Err != nil {
		return d.Err
	}
	r := e.ensure(id)
	if lsn <= r.flushed {
		return nil
	}
	e.dirty.add(r)
	return apply(r)
}

// adoptSegments takes in the state of all runs and where their bodies lie, and
// returns the first LSN that no segment covers.
func (e *Engine) adoptSegments(live []segment.Opened) (nextLSN uint64) {
	nextLSN = 1
	for _, s := range live {
		for i := range s.Heads {
			nextLSN = max(nextLSN, e.adoptHead(s.File, i, &s.Heads[i]))
		}
	}
	for _, r := range e.runs {
		if r.deleted {
			r.wipe()
			e.deleted.Add(1)
		}
	}
	return nextLSN
}

func (e *Engine) adoptHead(s *segment.File, at int, h *segment.Head) (nextLSN uint64) {
	if err := s.Complete(h); err != nil {
		s.Keep.Store(true)
		e.damage.Report(h.Run, "segment index", s.Lose(err, h.Points, h.MinTime, h.MaxTime))
		return 0
	}
	r := e.ensure(h.Run)
	if !r.absorb(h) {
		s.Keep.Store(true)
		e.damage.Report(h.Run, "segment index", fmt.Errorf("segment %s contradicts another: %w", segment.Name(s.ID), segment.ErrDamaged))
	}
	r.parts = append(r.parts, segment.Place{Segment: s, At: at})
	return h.Flushed + 1
}

// mourn tells the ledgers of the runs of segments without a readable directory
// what those had of them. What an entry says is not served, since no checksum
// holds it; it is believed where it points to an index whose checksum does.
func (e *Engine) mourn(damaged []uint64) {
	for _, id := range damaged {
		name := segment.Name(id)
		lost, err := e.files.LostWith(id, e.firstOrd)
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

// firstOrd is the arrival number of the first row that the log still has of a
// run: from there on nothing is lost.
func (e *Engine) firstOrd(id model.RunID) int64 {
	least := int64(math.MaxInt64)
	r := e.runs[id]
	if r == nil {
		return least
	}
	for _, l := range r.late {
		rec, err := record.DecodeBatch(l.payload)
		if err != nil {
			continue
		}
		for i := range rec.Groups {
			least = min(least, slices.Min(rec.Groups[i].Rows.Arrival))
		}
	}
	return least
}
