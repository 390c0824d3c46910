package upkeep

import (
	"context"
	"fmt"
	"maps"
	"math/bits"
	"slices"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store/local/record"
	"github.com/kymogram/kymogram/server/internal/store/local/segment"
	"github.com/kymogram/kymogram/server/internal/store/local/state"
)

// Segments are merged by size class: a class is a factor of eight, the first
// ends at firstClassBytes.
const (
	firstClassBytes = 1 << 20
	deadShare       = 5 // a segment is rewritten when 1/deadShare of it is of deleted runs
)

func sizeClass(size int64) int {
	return (bits.Len64(uint64(size)/firstClassBytes) + 2) / 3
}

// Compact merges segments until no class is full and frees deleted runs. With
// all set it merges every segment into one.
func (k *Keeper) Compact(ctx context.Context, all bool) error {
	k.merging.Lock()
	defer k.merging.Unlock()
	if err := k.files.Stuck(); err != nil {
		return record.Refusing(err)
	}
	for {
		inputs := k.candidates(all)
		if len(inputs) == 0 {
			return nil
		}
		err := k.merge(ctx, inputs)
		if err != nil && !k.files.SetAside(err, inputs) {
			return err
		}
		if err == nil && all {
			return nil
		}
	}
}

// candidates are segments to merge next.
func (k *Keeper) candidates(all bool) []*segment.File {
	k.flushing.Lock() // else a segment might be merged before its runs read from it
	live := slices.DeleteFunc(k.files.Live(), func(s *segment.File) bool { return s.Keep.Load() })
	k.flushing.Unlock()
	if all {
		return live
	}
	classes := map[int][]*segment.File{}
	for _, s := range live {
		if s.DeadBytes(k.table.Deletions(), k.table.IsDeleted)*deadShare > s.Size {
			return []*segment.File{s}
		}
		c := sizeClass(s.Size)
		classes[c] = append(classes[c], s)
		if len(classes[c]) >= k.options.CompactFiles {
			return classes[c]
		}
	}
	return nil
}

// merge writes the inputs into one new segment, which names them as replaced,
// and drops them.
func (k *Keeper) merge(ctx context.Context, inputs []*segment.File) error {
	heads, err := heads(inputs)
	if err != nil {
		return err
	}
	w, err := k.files.Create(k.mergeDesk)
	if err != nil {
		return err
	}
	if err := k.rewrite(ctx, w, heads, inputs); err != nil {
		w.Abandon()
		return err
	}
	ids := k.files.ReplacedBy(inputs)
	out, err := w.Finish(ids)
	if err != nil {
		w.Abandon()
		return err
	}
	for _, sec := range w.Done {
		k.table.Run(sec.Run).Replace(inputs, out, sec.Groups)
	}
	k.files.Replace(inputs, out)
	return k.files.Retire(ids)
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

func (k *Keeper) rewrite(ctx context.Context, w *segment.Writer, heads []*segment.Head, inputs []*segment.File) error {
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
		} else if err := sec.Bodies(inputs); err != nil {
			return err
		} else if sec.Groups, err = w.Merge(ctx, sec.Groups, r.WritersOfSources(), k.options.MergeBytes); err != nil {
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
