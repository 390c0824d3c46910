package upkeep

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kymogram/kymogram/server/internal/store/local/record"
	"github.com/kymogram/kymogram/server/internal/store/local/segment"
	"github.com/kymogram/kymogram/server/internal/store/local/state"
)

// Options are what the engine's configuration says of upkeep.
type Options struct {
	LogFileBytes int64 // of a file of the log
	CompactFiles int   // so many flushed segments are merged
	SegmentBytes int64 // of the largest segment that a merge makes
	MergeBytes   int64 // that a merge reads before it writes
	Now          func() time.Time
	Logger       *slog.Logger
}

// Keeper moves points from memory to segments, merges segments and keeps the log
// short.
type Keeper struct {
	options Options
	table   *state.Table
	files   *segment.Files
	log     record.Log
	pending func() uint64 // the oldest record whose updates are not confirmed, 0 for none
	work    chan struct{} // a hint that a flush is due
	refused atomic.Uint64
	// shortUntil is when memory is tried to be made free again, Unix ns.
	shortUntil atomic.Int64

	// One flush and one compaction at a time, a flush also beside a compaction, which
	// may take long; who takes both takes merging first.
	merging, flushing sync.Mutex
	mergeDesk         *segment.Desk
	flushDesk         *segment.Desk
	repeats           repeats // of who holds merging
}

// New is a keeper; it does nothing by itself until Run.
func New(options Options, t *state.Table, files *segment.Files, log record.Log, pending func() uint64) *Keeper {
	return &Keeper{options: options, table: t, files: files, log: log, pending: pending, work: make(chan struct{}, 1), mergeDesk: segment.NewDesk(), flushDesk: segment.NewDesk()}
}

// Run flushes runs that are due, keeps the log
// short and merges segments. A failure is logged and tried again: the points
// are in the log.
func (k *Keeper) Run(ctx context.Context) error {
	tick := time.NewTicker(maintainEvery)
	defer tick.Stop()
	k.table.CatchUp(ctx)
	var merges sync.WaitGroup
	defer merges.Wait()
	merges.Go(func() { k.mergeAlways(ctx) })
	for swept := k.options.Now(); ; {
		if now := k.options.Now(); now.Sub(swept) >= forgetEvery {
			k.table.Forget(now)
			swept = now
		}
		select {
		case <-ctx.Done():
			return nil
		case <-k.work:
		case <-tick.C:
		}
		if err := k.maintain(ctx); err != nil && ctx.Err() == nil {
			k.options.Logger.Warn("flush failed; tried again later", "err", err)
		}
	}
}

// mergeAlways compacts until the context ends.
func (k *Keeper) mergeAlways(ctx context.Context) {
	tick := time.NewTicker(maintainEvery)
	defer tick.Stop()
	for failed, pause := 0, 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if pause--; pause > 0 {
			continue
		}
		if err := k.Compact(ctx, false); err != nil && ctx.Err() == nil {
			k.options.Logger.Warn("compaction failed; tried again later", "err", err)
			failed = min(max(1, 2*failed), longestPause)
			pause = failed
		} else {
			failed = 0
		}
	}
}

const (
	maintainEvery = time.Second
	forgetEvery   = time.Minute
	// longestPause is in ticks: a merge that fills a disk takes the log's room as well, and
	// is not tried again at once.
	longestPause = 256
)

func (k *Keeper) maintain(ctx context.Context) error {
	runs := k.table.Due()
	if log := k.log.State(); log.Bytes > maxLogSegments*k.options.LogFileBytes {
		runs = append(runs, k.table.Pinning(log.Second)...)
	}
	if err := k.flush(ctx, runs); err != nil {
		return err
	}
	if k.table.Short() {
		k.table.Relieve(nil)
	}
	return k.releaseLog()
}

// maxLogSegments bounds the log and with it the time of a start.
const maxLogSegments = 4

// flushBatch is how many bytes of due runs make a flush worth its file, its syncs
// and the merges that follow; fewer wait for the next tick of Run.
const flushBatch = 4 << 20

// Hint wakes the background work when a flush is worth it; the tick of Run sees to
// the rest, to age and to the sum over all runs.
func (k *Keeper) Hint() {
	if !k.table.Full(flushBatch) {
		return
	}
	select {
	case k.work <- struct{}{}:
	default:
	}
}

// closeFlush is how long a stop may flush.
const closeFlush = 2 * time.Second

// Close flushes what it can and closes the log and the segments.
func (k *Keeper) Close() error {
	// What is not flushed is in the log; an empty one makes the next start fast.
	ctx, stop := context.WithTimeout(context.Background(), closeFlush)
	defer stop()
	err := k.Flush(ctx)
	if err == nil {
		err = k.log.Rotate()
	}
	if err == nil {
		err = k.releaseLog()
	}
	if err != nil {
		k.options.Logger.Warn("flush at close failed; the log has the points", "err", err)
	}
	k.merging.Lock()
	defer k.merging.Unlock()
	k.flushing.Lock()
	defer k.flushing.Unlock()
	errs := []error{k.log.Close()}
	for _, s := range k.files.Live() {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}
