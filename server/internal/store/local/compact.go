package local

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"slices"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store/local/record"
	"github.com/kymogram/kymogram/server/internal/store/local/segment"
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
func (e *Engine) Compact(ctx context.Context, all bool) error {
	e.merging.Lock()
	defer e.merging.Unlock()
	if err := e.files.Stuck(); err != nil {
		return record.Refusing(err)
	}
	for {
		inputs := e.candidates(all)
		if len(inputs) == 0 {
			return nil
		}
		err := e.merge(ctx, inputs)
		if err != nil && !e.setAside(err, inputs) {
			return err
		}
		if err == nil && all {
			return nil
		}
	}
}

// setAside keeps a damaged segment out of later merges; false when the error is
// another one.
func (e *Engine) setAside(err error, inputs []*segment.File) bool {
	var at *segment.BlockError
	if !errors.As(err, &at) {
		return false
	}
	for _, s := range inputs {
		if s.ID == at.Segment {
			s.Keep.Store(true)
			e.damage.Report(model.RunID{}, "segment", err)
			return true
		}
	}
	return false
}

// candidates are segments to merge next.
func (e *Engine) candidates(all bool) []*segment.File {
	e.flushing.Lock() // else a segment might be merged before its runs read from it
	live := slices.DeleteFunc(e.files.Live(), func(s *segment.File) bool { return s.Keep.Load() })
	e.flushing.Unlock()
	if all {
		return live
	}
	classes := map[int][]*segment.File{}
	for _, s := range live {
		if s.DeadBytes(e.deleted.Load(), e.isDeleted)*deadShare > s.Size {
			return []*segment.File{s}
		}
		c := sizeClass(s.Size)
		classes[c] = append(classes[c], s)
		if len(classes[c]) >= e.cfg.CompactFiles {
			return classes[c]
		}
	}
	return nil
}

// isDeleted is false for a run that is not known.
func (e *Engine) isDeleted(id model.RunID) bool {
	r := e.run(id)
	return r != nil && r.isDeleted()
}

// writersOfSources are the writers of the run's sources.
func (r *run) writersOfSources() []model.WriterID {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.lines().Writers
}

func (r *run) isDeleted() bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.deleted
}

// merge writes the inputs into one new segment, which names them as replaced,
// and drops them.
func (e *Engine) merge(ctx context.Context, inputs []*segment.File) error {
	heads, err := e.heads(inputs)
	if err != nil {
		return err
	}
	w, err := e.files.Create(e.mergeDesk)
	if err != nil {
		return err
	}
	if err := e.rewrite(ctx, w, heads, inputs); err != nil {
		w.Abandon()
		return err
	}
	ids := e.files.ReplacedBy(inputs)
	out, err := w.Finish(ids)
	if err != nil {
		w.Abandon()
		return err
	}
	for _, sec := range w.Done {
		e.run(sec.Run).replace(inputs, out, sec.Groups)
	}
	e.files.Replace(inputs, out)
	return e.files.Retire(ids)
}

// heads reads and joins what the inputs say of runs, by rising id. An input
// whose index is damaged is not merged, so that nothing of it is lost.
func (e *Engine) heads(inputs []*segment.File) ([]*segment.Head, error) {
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

func (e *Engine) rewrite(ctx context.Context, w *segment.Writer, heads []*segment.Head, inputs []*segment.File) error {
	for _, h := range heads {
		if err := ctx.Err(); err != nil {
			return err
		}
		sec, r := &segment.Section{Head: *h}, e.run(h.Run)
		gone, err := e.deletedForGood(ctx, r)
		if err != nil {
			return err
		}
		if gone {
			sec.Attempts = nil
		} else if err := sec.Bodies(inputs); err != nil {
			return err
		} else if sec.Groups, err = w.Merge(sec.Groups, r.writersOfSources()); err != nil {
			return err
		}
		if err := w.Section(sec); err != nil {
			return err
		}
	}
	return nil
}

// deletedForGood reports whether a run's deletion is on disk.
func (e *Engine) deletedForGood(ctx context.Context, r *run) (bool, error) {
	r.mu.RLock()
	deleted, lsn := r.deleted, r.lastLSN
	r.mu.RUnlock()
	if !deleted {
		return false, nil
	}
	return true, e.log.Wait(ctx, lsn)
}

// replace swaps the groups that readers find, where they are loaded, and where
// they are found.
func (r *run) replace(old []*segment.File, s *segment.File, merged []*segment.Group) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.relocate(old, s.Located(r.id))
	if r.deleted || !r.loaded {
		return
	}
	for _, s := range r.series {
		if s != nil {
			s.chunks = segment.WithoutSegments(s.chunks, old)
			s.layout++
		}
	}
	for _, g := range merged {
		r.attach(g)
	}
}
