package upkeep

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wal"
	"github.com/kymogram/kymogram/server/internal/store/local/record"
	"github.com/kymogram/kymogram/server/internal/store/local/segment"
	"github.com/kymogram/kymogram/server/internal/store/local/state"
)

// Flush writes what runs hold in memory into a segment. It is what Run does
// when a run is due; tests and backups call it for all.
func (k *Keeper) Flush(ctx context.Context) error {
	return k.flush(ctx, k.table.Unflushed())
}

func (k *Keeper) flush(ctx context.Context, runs []*state.Run) error {
	k.flushing.Lock()
	defer k.flushing.Unlock()
	return k.flushLocked(ctx, runs)
}

// Room waits, by a flush of its own if need be, until memory may take more of a run.
// It refuses where none can be made free.
func (k *Keeper) Room(ctx context.Context, r *state.Run) error {
	if !r.Full() {
		return nil
	}
	if k.table.Short() && k.options.Now().UnixNano() < k.shortUntil.Load() {
		return k.refuse(r.ID)
	}
	k.flushing.Lock()
	defer k.flushing.Unlock()
	if !r.Full() {
		return nil
	}
	err := k.flushLocked(ctx, k.table.Due())
	if err == nil && k.table.Short() {
		err = k.relieve(ctx, r)
	}
	if wal.IsDiskFull(err) {
		err = fmt.Errorf("%w: %w", wal.ErrDiskFull, err)
	}
	if err != nil {
		return record.Refusing(err)
	}
	if k.table.Short() {
		k.shortUntil.Store(k.options.Now().Add(shortFor).UnixNano())
		return k.refuse(r.ID)
	}
	return nil
}

// shortFor is how long nothing is tried again where nothing could be made free: a
// refusal must cost less than what is refused.
const shortFor = time.Second

func (k *Keeper) refuse(run model.RunID) error {
	k.refused.Add(1)
	return model.Errorf(model.CodeUnavailable, "the store has no memory left for run %s", run).
		WithHint("writers keep their points and send them again; give the server more memory, see memory.limit_mib")
}

// NewRun refuses a run, or another writer of one, where what is kept of those there
// are takes most of the memory.
func (k *Keeper) NewRun(run model.RunID) error {
	if !k.table.Crowded() {
		return nil
	}
	return k.refuse(run)
}

// relieve forgets what is loaded, of all runs but one. Only what is flushed can be.
func (k *Keeper) relieve(ctx context.Context, keep *state.Run) error {
	k.table.Relieve(keep)
	if !k.table.Short() {
		return nil
	}
	if err := k.flushLocked(ctx, k.table.Unflushed()); err != nil {
		return err
	}
	k.table.Relieve(keep)
	return nil
}

// CatchUp takes in what the log had at start of more runs than memory has room for,
// and flushes as it goes: a start needs no more memory than the writes did.
func (k *Keeper) CatchUp(ctx context.Context) error {
	k.flushing.Lock()
	defer k.flushing.Unlock()
	for _, r := range k.table.Late() {
		if !r.Full() {
			continue
		}
		if err := k.flushLocked(ctx, []*state.Run{r}); err != nil {
			return err
		}
	}
	return nil
}

// Refused counts the writes that were refused because memory is short.
func (k *Keeper) Refused() uint64 { return k.refused.Load() }

func (k *Keeper) flushLocked(ctx context.Context, runs []*state.Run) error {
	if err := k.files.Stuck(); err != nil {
		return record.Refusing(err)
	}
	var parts []*state.Frozen
	upTo := uint64(0)
	for _, r := range runs {
		if f := r.Freeze(); f != nil {
			parts = append(parts, f)
			upTo = max(upTo, f.UpTo())
		}
	}
	if len(parts) == 0 {
		return nil
	}
	slices.SortFunc(parts, (*state.Frozen).Compare)
	seg, err := k.writeFrozen(ctx, parts, upTo)
	if err != nil {
		for _, f := range parts {
			f.Refreeze()
		}
		return err
	}
	var behind []*state.Run
	for _, f := range parts {
		f.Thaw(seg)
		if r, ok := f.Behind(); ok {
			behind = append(behind, r)
		}
	}
	if len(behind) > 0 {
		return k.flushLocked(ctx, behind)
	}
	return k.releaseLog()
}

func (k *Keeper) writeFrozen(ctx context.Context, parts []*state.Frozen, upTo uint64) (*segment.File, error) {
	// A segment may not hold what a crash would take from the log: the record's
	// updates are only there.
	if err := k.log.Wait(ctx, upTo); err != nil {
		return nil, err
	}
	w, err := k.files.Create(k.flushDesk)
	if err != nil {
		return nil, err
	}
	for _, f := range parts {
		if err := f.Write(ctx, w); err != nil {
			w.Abandon()
			return nil, err
		}
	}
	seg, err := w.Finish(nil)
	if err != nil {
		w.Abandon()
		return nil, err
	}
	k.files.Add(seg)
	return seg, nil
}

// releaseLog drops the log files whose records are all in segments and whose
// updates are all confirmed.
func (k *Keeper) releaseLog() error {
	least := k.table.Oldest(k.log.State().Written + 1)
	if lsn := k.pending(); lsn > 0 {
		least = min(least, lsn)
	}
	if err := k.log.Release(least); err != nil {
		return fmt.Errorf("drop old log files: %w", err)
	}
	return nil
}
