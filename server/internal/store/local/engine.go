package local

import (
	"context"
	"errors"
	"io"
	"iter"
	"path/filepath"
	"sync"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/local/curve"
	"github.com/kymogram/kymogram/server/internal/store/local/decision"
	"github.com/kymogram/kymogram/server/internal/store/local/record"
	"github.com/kymogram/kymogram/server/internal/store/local/segment"
	"github.com/kymogram/kymogram/server/internal/store/local/state"
	"github.com/kymogram/kymogram/server/internal/store/local/upkeep"
)

var _ store.Engine = (*Engine)(nil)

// Engine is the embedded engine. Its methods may be called concurrently.
type Engine struct {
	cfg  Config
	lock io.Closer
	log  record.Log

	table       *state.Table
	files       *segment.Files
	keeper      *upkeep.Keeper
	damage      *segment.DamageList
	meta        metaQueue
	desks       sync.Pool // of *desk
	lostRecords uint64    // of the log, at start
	closing     sync.Once
	closeErr    error
}

// Open opens the folder, made when missing, and replays its log. The folder is
// locked until Close.
func Open(ctx context.Context, cfg Config) (*Engine, error) {
	cfg = cfg.withDefaults()
	if cfg.Dir == "" {
		return nil, model.Errorf(model.CodeInvalid, "the store needs a folder")
	}
	damage := segment.NewDamageList(cfg.Logger)
	e := &Engine{cfg: cfg, damage: damage, files: segment.NewFiles(cfg.FS, places(filepath.Join(cfg.Dir, "segments"), cfg.Marks), cfg.Logger, damage)}
	e.table = state.NewTable(state.Limits{FlushRows: cfg.FlushRows, FlushBytes: cfg.FlushBytes, FlushAge: cfg.FlushAge, MemoryBytes: cfg.MemoryBytes}, cfg.Now, damage)
	e.table.Setting.Limits.Page = cfg.PageBytes
	if err := e.claim(); err != nil {
		return nil, err
	}
	if err := e.recover(ctx); err != nil {
		return nil, errors.Join(err, e.lock.Close())
	}
	e.keeper = upkeep.New(upkeep.Options{LogFileBytes: cfg.WALSegmentBytes, CompactFiles: cfg.CompactFiles, SegmentBytes: cfg.SegmentBytes, MergeBytes: mergeBytes(cfg.MemoryBytes), Now: cfg.Now, Logger: cfg.Logger}, e.table, e.files, e.log, e.meta.oldest)
	if err := e.keeper.CatchUp(ctx); err != nil { // the log has it all; a write or a read tries again
		cfg.Logger.Warn("flush at start failed; tried again later", "err", err)
	}
	return e, nil
}

// Append implements [store.Writer].
func (e *Engine) Append(ctx context.Context, b *model.Batch) (model.Ack, error) {
	if err := decision.Check(b); err != nil {
		return model.Ack{}, err
	}
	r := e.table.Run(b.Run)
	if r == nil {
		return model.Ack{}, unknownAttempt(b.Run, b.Attempt)
	}
	if b.First > 0 && !e.table.Own(b.Writer, r) {
		return model.Ack{}, model.Errorf(model.CodeConflict, "writer %s belongs to another run", b.Writer)
	}
	if err := e.keeper.Room(ctx, r); err != nil {
		return model.Ack{}, err
	}
	ack, lsn, err := e.append(r, b)
	if lsn > 0 {
		if werr := e.log.Wait(ctx, lsn); werr != nil {
			return model.Ack{}, werr
		}
	}
	e.keeper.Hint()
	return ack, err
}

// append decides, writes and applies a batch; lsn is what the answer waits for. The
// run's lock is held for all of it, so a run has one order; it is not held while the
// disk syncs, so batches of one run share an fsync, too.
func (e *Engine) append(r *state.Run, b *model.Batch) (ack model.Ack, lsn uint64, err error) {
	r.Hold()
	defer r.Unlock()
	if b.First > 0 {
		mark, seen := r.MarkOf(b.Writer)
		ack.Mark = mark
		if b.Last <= mark {
			return ack, seen, nil
		}
		if b.First != mark+1 {
			return ack, seen, model.Errorf(model.CodeGap, "the next sequence of writer %s is %d, not %d", b.Writer, mark+1, b.First)
		}
	}
	if !r.Gone() && !r.HasAttempt(b.Attempt) {
		return ack, 0, unknownAttempt(b.Run, b.Attempt)
	}
	d := e.desk()
	defer e.putDesk(d)
	rec, refused, err := d.Of(held{r}, b, e.cfg.SeriesPerRunLimit)
	if err != nil {
		return ack, 0, err
	}
	if err := d.enc.Batch(rec); err != nil {
		return ack, 0, err
	}
	lsn, err = e.commit(r, &d.enc, func(lsn uint64) error { return r.Apply(rec, lsn) })
	if err != nil {
		return ack, 0, err
	}
	r.CountDue()
	if len(rec.Doc) > 0 {
		e.meta.add(metaOf(rec, lsn))
	}
	return model.Ack{Mark: b.Last, Stored: rec.Points(), Refused: refused, LSN: lsn}, lsn, nil
}

// commit writes a record while the run is locked and applies it, so that the
// order in the log is the order in memory. It is durable when the log says so: e.log.Wait.
func (e *Engine) commit(r *state.Run, enc *record.Encoder, apply func(lsn uint64) error) (uint64, error) {
	if err := e.files.Stuck(); err != nil {
		return 0, record.Refusing(err)
	}
	r.ExpectRecord()
	lsn, err := e.log.Append(enc)
	if err != nil {
		return 0, err
	}
	return lsn, apply(lsn)
}

// Scan implements [store.Reader].
func (e *Engine) Scan(ctx context.Context, q store.ScanRequest) (*store.Rows, error) {
	return curve.Scan(ctx, e.table, q)
}

// Across implements [store.Selector].
func (e *Engine) Across(ctx context.Context, q store.AcrossRequest) iter.Seq2[*store.Rows, error] {
	return curve.Across(ctx, e.table.Touching, q)
}

// Buckets implements [store.Reader].
func (e *Engine) Buckets(ctx context.Context, q store.BucketsRequest) ([]store.Bucket, error) {
	return curve.Buckets(ctx, e.table, q)
}

// Curve implements [store.Reader].
func (e *Engine) Curve(ctx context.Context, q store.CurveRequest) (store.Series, error) {
	return curve.Describe(ctx, e.table, q)
}

// Run implements [store.Engine].
func (e *Engine) Run(ctx context.Context) error { return e.keeper.Run(ctx) }

// Flush writes what runs hold in memory into a segment.
func (e *Engine) Flush(ctx context.Context) error { return e.keeper.Flush(ctx) }

// Compact merges segments while that pays and frees deleted runs. With all set it merges
// every segment, into the fewest that the rules of a merge allow.
func (e *Engine) Compact(ctx context.Context, all bool) error { return e.keeper.Compact(ctx, all) }

// Close implements [store.Engine].
func (e *Engine) Close() error {
	e.closing.Do(func() { e.closeErr = errors.Join(e.keeper.Close(), e.lock.Close()) })
	return e.closeErr
}
