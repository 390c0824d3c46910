package state

import (
	"context"
	"slices"
	"sync"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/local/curve"
)

// Stats answers [store.Reader.RunStats]: the times are those of all stored points.
func (t *Table) Stats(ctx context.Context, run model.RunID) (store.RunStats, error) {
	r, order, err := t.ordered(run)
	if err != nil {
		return t.statsOfLost(run, err)
	}
	counts, err := t.totals.of(ctx, r, order)
	if err != nil {
		return store.RunStats{}, err
	}
	out := t.ledger(run)
	out.Series, out.Stored, out.Superseded = counts.Series, counts.Stored, counts.Superseded
	out.MinTimeNs, out.MaxTimeNs = counts.MinTimeNs, counts.MaxTimeNs
	for _, d := range t.damage.Of(run) { // after the reads above, which may find some
		out.Damaged = append(out.Damaged, d.Damage)
		if d.Indexed {
			out.Stored -= min(out.Stored, d.Points)
		}
	}
	return out, nil
}

// statsOfLost are those of a run of which only damage is left.
func (t *Table) statsOfLost(run model.RunID, err error) (out store.RunStats, _ error) {
	if r := t.Run(run); r != nil {
		r.mu.RLock()
		defer r.mu.RUnlock()
		if r.deleted {
			return out, err
		}
	}
	for _, d := range t.damage.Of(run) {
		out.Damaged, err = append(out.Damaged, d.Damage), nil
	}
	return out, err
}

// ledger sums what the run's writers lost and were refused.
func (t *Table) ledger(id model.RunID) store.RunStats {
	var out store.RunStats
	r := t.Run(id)
	r.mu.RLock()
	defer r.mu.RUnlock()
	for i := range r.writers {
		out.Refused += r.writers[i].Refused
		out.Skipped = append(out.Skipped, r.writers[i].Skipped...)
	}
	return out
}

const (
	// manySeries are worth keeping their totals: to count them takes milliseconds.
	manySeries = 1_000
	// keptTotals is of how many runs they are kept.
	keptTotals = 1_024
)

// totals keeps what the series of long runs sum up to, while nothing is added to them.
type totals struct {
	mu   sync.Mutex
	runs map[model.RunID]total
}

type total struct {
	lsn, epoch, points uint64
	store.RunStats
}

func (k *totals) of(ctx context.Context, r *Run, order []uint32) (total, error) {
	r.share()
	out := total{lsn: r.LastLSN, epoch: r.epoch, points: r.stored}
	r.mu.RUnlock()
	if old, ok := k.find(r.ID); ok && old.lsn == out.lsn && old.epoch == out.epoch && old.points == out.points && int(old.Series) == len(order) {
		return old, nil
	}
	for part := range slices.Chunk(order, lookedAtOnce) {
		if err := ctx.Err(); err != nil {
			return out, model.Errorf(model.CodeTimeout, "the read was stopped: %v", err)
		}
		if err := out.add(r, part); err != nil {
			return out, err
		}
	}
	if len(order) >= manySeries {
		k.keep(r.ID, &out)
	}
	return out, nil
}

func (k *totals) find(run model.RunID) (total, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	found, ok := k.runs[run]
	return found, ok
}

func (k *totals) keep(run model.RunID, t *total) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.runs == nil || len(k.runs) >= keptTotals {
		k.runs = map[model.RunID]total{}
	}
	k.runs[run] = *t
}

// add counts some of a run's series.
func (t *total) add(r *Run, part []uint32) error {
	views, err := r.viewsOf(part)
	if err != nil {
		return err
	}
	for _, v := range views {
		t.series(v.End())
	}
	return nil
}

func (r *Run) viewsOf(part []uint32) ([]*curve.View, error) {
	r.share()
	defer r.mu.RUnlock()
	if r.deleted {
		return nil, notFound(r.ID)
	}
	return r.Views(part), nil
}

func (t *total) series(end *curve.End) {
	if end.Stored > 0 {
		if t.Stored == 0 {
			t.MinTimeNs, t.MaxTimeNs = end.MinStored, end.MaxStored
		}
		t.MinTimeNs, t.MaxTimeNs = min(t.MinTimeNs, end.MinStored), max(t.MaxTimeNs, end.MaxStored)
	}
	t.Series++
	t.Stored += end.Stored
	t.Superseded += end.Stored - end.Count
}
