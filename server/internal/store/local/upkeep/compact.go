package upkeep

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store/local/record"
	"github.com/kymogram/kymogram/server/internal/store/local/segment"
	"github.com/kymogram/kymogram/server/internal/store/local/state"
)

// Compact merges segments while that pays and frees deleted runs. With all set it merges
// every segment, into the fewest that the rules of a merge allow.
func (k *Keeper) Compact(ctx context.Context, all bool) error {
	k.merging.Lock()
	defer k.merging.Unlock()
	if err := k.files.Stuck(); err != nil {
		return record.Refusing(err)
	}
	if all {
		return k.mergeAll(ctx)
	}
	for {
		if err := k.leaveOutRepeats(ctx, false); err != nil {
			return err
		}
		inputs := k.next(k.settled())
		if len(inputs) == 0 {
			return nil
		}
		if _, err := k.merge(ctx, inputs, nil); err != nil && !k.files.SetAside(err, inputs) {
			return err
		}
	}
}

// mergeAll merges one batch of segments after the other, then leaves out what is in two.
func (k *Keeper) mergeAll(ctx context.Context) error {
	for batch := range k.batches(k.settled()) {
		for len(batch) > 0 {
			_, err := k.merge(ctx, batch, nil)
			if err == nil {
				break
			}
			if !k.files.SetAside(err, batch) {
				return err
			}
			batch = slices.DeleteFunc(batch, func(s *segment.File) bool { return s.Keep.Load() })
		}
	}
	return k.leaveOutRepeats(ctx, true)
}

// settled are the segments that can be merged.
func (k *Keeper) settled() []*segment.File {
	k.flushing.Lock() // else a segment might be merged before its runs read from it
	defer k.flushing.Unlock()
	return slices.DeleteFunc(k.files.Live(), func(s *segment.File) bool { return s.Keep.Load() })
}

// merge writes the inputs into one new segment, which names them as replaced,
// and drops them. It leaves out what the others, which stay as they are, say again.
func (k *Keeper) merge(ctx context.Context, inputs, others []*segment.File) (*segment.File, error) {
	heads, err := heads(inputs)
	if err != nil {
		return nil, err
	}
	w, err := k.files.Create(k.mergeDesk)
	if err != nil {
		return nil, err
	}
	if err := k.rewrite(ctx, w, heads, inputs, others); err != nil {
		w.Abandon()
		return nil, err
	}
	for _, s := range inputs {
		w.Freed += k.dead(s)
		w.Rewrites = max(w.Rewrites, s.Rewrites)
	}
	if len(inputs) > 1 || w.Rewrites == 0 { // else it only leaves out what is deleted
		w.Rewrites++
	}
	ids := k.files.ReplacedBy(inputs)
	out, err := w.Finish(ids)
	if err != nil {
		w.Abandon()
		return nil, err
	}
	for _, sec := range w.Done {
		k.table.Run(sec.Run).Replace(inputs, out, sec.Groups)
	}
	k.files.Replace(inputs, out)
	return out, k.files.Retire(ids)
}

// heads reads and joins what the inputs say of runs, by rising id. An input
// whose index is damaged is not merged, so that nothing of it is lost.
func heads(inputs []*segment.File) ([]*segment.Head, error) {
	byRun := map[model.RunID]*segment.Head{}
	for _, in := range inputs {
		s := in.Again() // readers use the directory of the other
		list, err := s.ReadDirectory()
		if err != nil {
			return nil, fmt.Errorf("compaction: %w", s.Bad(segment.Ref{}, err))
		}
		for i := range list {
			h := &list[i]
			if err := s.Complete(h); err != nil {
				return nil, fmt.Errorf("compaction: %w", err)
			}
			if old := byRun[h.Run]; old != nil {
				old.Merge(h)
			} else {
				byRun[h.Run] = h
			}
		}
	}
	out := slices.Collect(maps.Values(byRun))
	slices.SortFunc(out, func(a, b *segment.Head) int { return slices.Compare(a.Run[:], b.Run[:]) })
	return out, nil
}

func (k *Keeper) rewrite(ctx context.Context, w *segment.Writer, heads []*segment.Head, inputs, others []*segment.File) error {
	for _, h := range heads {
		if err := ctx.Err(); err != nil {
			return err
		}
		sec, r := &segment.Section{Head: *h}, k.table.Run(h.Run)
		gone, err := k.deletedForGood(ctx, r)
		if err != nil {
			return err
		}
		if gone {
			sec.Attempts = nil
		} else if err := sec.Bodies(inputs, others); err != nil {
			return err
		} else if sec.Groups, err = w.Merge(ctx, sec.Groups, sec.Others, r.WritersOfSources(), k.options.MergeBytes); err != nil {
			return err
		}
		if err := w.Section(sec); err != nil {
			return err
		}
	}
	return nil
}

// deletedForGood reports whether a run's deletion is on disk.
func (k *Keeper) deletedForGood(ctx context.Context, r *state.Run) (bool, error) {
	lsn, deleted := r.DeletedBy()
	if !deleted {
		return false, nil
	}
	return true, k.log.Wait(ctx, lsn)
}
