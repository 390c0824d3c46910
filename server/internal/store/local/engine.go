package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wal"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/local/curve"
	"github.com/kymogram/kymogram/server/internal/store/local/record"
	"github.com/kymogram/kymogram/server/internal/store/local/segment"
)

var _ store.Engine = (*Engine)(nil)

// Version is the format of the data folder that this engine writes.
const Version = 2

// Config is what a user sets. The zero value of all but Dir works.
type Config struct {
	Dir string
	// SeriesPerRunLimit refuses records that would make more series; 1,000,000.
	SeriesPerRunLimit int
	// A run is flushed when it holds FlushRows rows (1024) or FlushBytes (8 MiB) in
	// memory, or rows older than FlushAge (10 min), or the largest ones when all
	// runs together pass MemoryBytes (256 MiB). A write waits for a flush while all
	// runs hold a quarter more than MemoryBytes, or its own eight times FlushBytes,
	// each with what is being flushed.
	FlushRows   int
	FlushBytes  int
	FlushAge    time.Duration
	MemoryBytes int
	// WALSegmentBytes is the size of a log file; 64 MiB.
	WALSegmentBytes int64
	// CompactFiles merges segments when so many of one size class are there; 8.
	CompactFiles int

	// FS, Now and Logger default to the operating system, the clock and silence.
	FS     wal.FS
	Now    func() time.Time
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	c.SeriesPerRunLimit = orDefault(c.SeriesPerRunLimit, 1_000_000)
	c.FlushRows = orDefault(c.FlushRows, 1024)
	c.FlushBytes = orDefault(c.FlushBytes, 8<<20)
	c.FlushAge = orDefault(c.FlushAge, 10*time.Minute)
	c.MemoryBytes = orDefault(c.MemoryBytes, 256<<20)
	c.WALSegmentBytes = orDefault(c.WALSegmentBytes, 64<<20)
	c.CompactFiles = orDefault(c.CompactFiles, 8)
	if c.FS == nil {
		c.FS = wal.OS{}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func orDefault[T ~int | ~int64](v, def T) T {
	if v <= 0 {
		return def
	}
	return v
}

// Engine is the embedded engine. Its methods may be called concurrently.
type Engine struct {
	cfg  Config
	lock io.Closer
	log  record.Log

	mu          sync.RWMutex // guards runs and owners
	runs        map[model.RunID]*run
	owners      map[model.WriterID]*run // of writers with marks
	meta        metaQueue
	lostRecords uint64 // of the log, at start
	closing     sync.Once
	closeErr    error
	work        chan struct{} // a hint that a flush is due
	dueBytes    atomic.Int64  // in memory, of the runs that are due

	dirty   dirtyRuns
	deleted atomic.Uint64 // counts deletions, for what is dead in segments

	setting  curve.Setting // of views
	files    *segment.Files
	encoders sync.Pool // of *fieldWriter

	memory atomic.Int64 // bytes of all runs that no segment has
	// One flush and one compaction at a time, a flush also beside a compaction, which
	// may take long; who takes both takes merging first.
	merging, flushing sync.Mutex
	mergeDesk         *segment.Desk
	flushDesk         *segment.Desk

	damage *segment.DamageList
}

// Open opens the folder, made when missing, and replays its log. The folder is
// locked until Close.
func Open(ctx context.Context, cfg Config) (*Engine, error) {
	cfg = cfg.withDefaults()
	if cfg.Dir == "" {
		return nil, model.Errorf(model.CodeInvalid, "the store needs a folder")
	}
	e := &Engine{cfg: cfg, runs: map[model.RunID]*run{}, owners: map[model.WriterID]*run{}, work: make(chan struct{}, 1), mergeDesk: segment.NewDesk(), flushDesk: segment.NewDesk(), damage: segment.NewDamageList(cfg.Logger)}
	e.setting = curve.Setting{Limits: curve.DefaultLimits(), Damaged: e.damage.Report}
	e.files = segment.NewFiles(cfg.FS, filepath.Join(cfg.Dir, "segments"), cfg.Logger, e.damage)
	if err := e.claim(); err != nil {
		return nil, err
	}
	if err := e.recover(ctx); err != nil {
		return nil, errors.Join(err, e.lock.Close())
	}
	return e, nil
}

// claim locks the folder and checks its version.
func (e *Engine) claim() error {
	if err := e.cfg.FS.MkdirAll(e.cfg.Dir); err != nil {
		return fmt.Errorf("make data folder: %w", err)
	}
	lock, err := e.cfg.FS.Lock(filepath.Join(e.cfg.Dir, "LOCK"))
	if errors.Is(err, wal.ErrLocked) {
		return model.Errorf(model.CodeUnavailable, "the data folder %s is in use by another process", e.cfg.Dir).WithHint("stop the other server, or give this one another --data folder")
	}
	if err != nil {
		return fmt.Errorf("lock data folder: %w", err)
	}
	e.lock = lock
	if err := e.checkVersion(); err != nil {
		return errors.Join(err, lock.Close())
	}
	return nil
}

func (e *Engine) checkVersion() error {
	name := filepath.Join(e.cfg.Dir, "VERSION")
	f, err := e.cfg.FS.Open(name, true)
	if err != nil {
		return fmt.Errorf("open %s: %w", name, err)
	}
	defer f.Close()
	raw := make([]byte, 64)
	n, err := f.ReadAt(raw, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read %s: %w", name, err)
	}
	text := strings.TrimSpace(strings.Trim(string(raw[:n]), "\x00"))
	if text == "" { // new, or a first start that a crash cut short
		return e.writeVersion()
	}
	version, err := strconv.Atoi(text)
	if err != nil {
		return model.Errorf(model.CodeInvalid, "%s does not hold a version but %q", name, text).WithHint("is %s a data folder of Kymogram?", e.cfg.Dir)
	}
	if version > Version {
		return model.Errorf(model.CodeInvalid, "the data folder %s has version %d and this binary reads up to %d", e.cfg.Dir, version, Version).WithHint("use a newer kymogram; nothing was changed")
	}
	if version < Version {
		return e.migrate(version)
	}
	return nil
}

func (e *Engine) run(id model.RunID) *run {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.runs[id]
}

// ensure finds or makes a run.
func (e *Engine) ensure(id model.RunID) *run {
	if r := e.run(id); r != nil {
		return r
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	r := e.runs[id]
	if r == nil {
		r = newRun(id)
		e.runs[id] = r
	}
	return r
}

// own binds a writer to its run; false when it belongs to another.
func (e *Engine) own(w model.WriterID, r *run) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if old := e.owners[w]; old != nil {
		return old == r
	}
	e.owners[w] = r
	return true
}

func (e *Engine) owner(w model.WriterID) *run {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.owners[w]
}

// Stats implements [store.Engine].
func (e *Engine) Stats() store.Stats {
	log := e.log.State()
	out := store.Stats{WALBytes: log.Bytes, DiskBytes: log.Bytes, Quarantined: e.damage.Count(), LostRecords: e.lostRecords, Poisoned: log.Poisoned || e.files.Stuck() != nil, DiskFull: log.DiskFull}
	for _, s := range e.files.Live() {
		out.DiskBytes += s.Size
	}
	for _, r := range e.allRuns() {
		r.mu.RLock()
		if !r.deleted {
			out.Runs++
			out.Series += r.seriesCount()
			out.Points += r.stored
		}
		r.mu.RUnlock()
	}
	return out
}

// seriesCount is from the index where the body is not loaded.
func (r *run) seriesCount() uint64 {
	if r.loaded {
		return uint64(len(r.byKey))
	}
	return uint64(r.made)
}

func (e *Engine) allRuns() []*run {
	e.mu.RLock()
	defer e.mu.RUnlock()
	out := make([]*run, 0, len(e.runs))
	for _, r := range e.runs {
		out = append(out, r)
	}
	return out
}

// Run implements [store.Engine]: it flushes runs that are due, keeps the log
// short and merges segments. A failure is logged and tried again: the points
// are in the log.
func (e *Engine) Run(ctx context.Context) error {
	tick := time.NewTicker(maintainEvery)
	defer tick.Stop()
	e.catchUp(ctx)
	var merges sync.WaitGroup
	defer merges.Wait()
	merges.Go(func() { e.mergeAlways(ctx) })
	for swept := e.cfg.Now(); ; {
		if now := e.cfg.Now(); now.Sub(swept) >= forgetEvery {
			e.forget(now)
			swept = now
		}
		select {
		case <-ctx.Done():
			return nil
		case <-e.work:
		case <-tick.C:
		}
		if err := e.maintain(ctx); err != nil && ctx.Err() == nil {
			e.cfg.Logger.Warn("flush failed; tried again later", "err", err)
		}
	}
}

// mergeAlways compacts until the context ends.
func (e *Engine) mergeAlways(ctx context.Context) {
	tick := time.NewTicker(maintainEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := e.Compact(ctx, false); err != nil && ctx.Err() == nil {
			e.cfg.Logger.Warn("compaction failed; tried again later", "err", err)
		}
	}
}

const (
	maintainEvery = time.Second
	forgetEvery   = time.Minute
)

func (e *Engine) maintain(ctx context.Context) error {
	runs := e.due()
	if log := e.log.State(); log.Bytes > maxLogSegments*e.cfg.WALSegmentBytes {
		runs = append(runs, e.pinning(log.Second)...)
	}
	if err := e.flush(ctx, runs); err != nil {
		return err
	}
	return e.releaseLog()
}

// pinning lists the runs that need a log file whose successor starts at lsn.
func (e *Engine) pinning(lsn uint64) (out []*run) {
	e.dirty.each(func(r *run) {
		if r.firstLSN > 0 && r.firstLSN < lsn {
			out = append(out, r)
		}
	})
	return out
}

// maxLogSegments bounds the log and with it the time of a start.
const maxLogSegments = 4

// Close implements [store.Engine].
func (e *Engine) Close() error {
	e.closing.Do(func() {
		// What cannot be flushed is in the log; an empty one makes the next start fast.
		err := e.Flush(context.Background())
		if err == nil {
			err = e.log.Rotate()
		}
		if err == nil {
			err = e.releaseLog()
		}
		if err != nil {
			e.cfg.Logger.Warn("flush at close failed; the log has the points", "err", err)
		}
		e.merging.Lock()
		defer e.merging.Unlock()
		e.flushing.Lock()
		defer e.flushing.Unlock()
		errs := []error{e.log.Close()}
		for _, s := range e.files.Live() {
			errs = append(errs, s.Close())
		}
		e.closeErr = errors.Join(append(errs, e.lock.Close())...)
	})
	return e.closeErr
}
