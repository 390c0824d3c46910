package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/bits"
	"path/filepath"
	"slices"

	"github.com/kymogram/kymogram/internal/model"
)

// Segments are merged by size class: a class is a factor of eight, the first
// ends at firstClassBytes.
const (
	firstClassBytes = 1 << 20
	deadShare       = 5 // a segment is rewritten when 1/deadShare of it is of deleted runs
	mergeBytes      = 16 << 20
)

func sizeClass(size int64) int {
	return (bits.Len64(uint64(size)/firstClassBytes) + 2) / 3
}

// Compact merges segments until no class is full and frees deleted runs. With
// all set it merges every segment into one.
func (e *Engine) Compact(ctx context.Context, all bool) error {
	e.maint.Lock()
	defer e.maint.Unlock()
	if err := e.poisoned(); err != nil {
		return refusing(err)
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
func (e *Engine) setAside(err error, inputs []*segment) bool {
	var at *blockError
	if !errors.As(err, &at) {
		return false
	}
	for _, s := range inputs {
		if s.id == at.segment {
			s.keep.Store(true)
			e.quarantine("segment", err)
			return true
		}
	}
	return false
}

// candidates are segments to merge next.
func (e *Engine) candidates(all bool) []*segment {
	live := slices.DeleteFunc(e.liveSegments(), func(s *segment) bool { return s.keep.Load() })
	if all {
		return live
	}
	classes := map[int][]*segment{}
	for _, s := range live {
		if e.dead(s)*deadShare > s.size {
			return []*segment{s}
		}
		c := sizeClass(s.size)
		classes[c] = append(classes[c], s)
		if len(classes[c]) >= e.cfg.CompactFiles {
			return classes[c]
		}
	}
	return nil
}

// dead counts the bytes of deleted runs in a segment.
func (e *Engine) dead(s *segment) (n int64) {
	for id, size := range s.bytes {
		if r := e.run(id); r != nil && r.isDeleted() {
			n += size
		}
	}
	return n
}

func (r *run) isDeleted() bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.deleted
}

// swap is a run's groups before and after a merge.
type swap struct {
	run      *run
	old, new []*segmentGroup
}

// merge writes the inputs into one new segment, which names them as replaced,
// and drops them.
func (e *Engine) merge(ctx context.Context, inputs []*segment) error {
	sections, err := e.sections(inputs)
	if err != nil {
		return err
	}
	w, err := e.newSegmentWriter()
	if err != nil {
		return err
	}
	swaps, err := e.rewrite(ctx, w, sections)
	if err != nil {
		w.abandon()
		return err
	}
	ids := make([]uint64, len(inputs))
	for i, s := range inputs {
		ids[i] = s.id
	}
	out, err := w.finish(ids)
	if err != nil {
		w.abandon()
		return err
	}
	for _, s := range swaps {
		s.run.replace(s.old, s.new)
	}
	e.replaceSegments(inputs, out)
	return e.removeSegments(inputs)
}

// sections reads and joins what the inputs say, run by run. An input whose index
// is damaged is not merged, so that nothing of it is lost.
func (e *Engine) sections(inputs []*segment) ([]*section, error) {
	byRun := map[model.RunID]*section{}
	for _, s := range inputs {
		for _, ref := range s.runs {
			sec, err := s.section(ref)
			if err != nil {
				return nil, fmt.Errorf("compaction: %w", err)
			}
			if old := byRun[ref.run]; old != nil {
				old.merge(sec)
			} else {
				sec.groups = nil
				byRun[ref.run] = sec
			}
		}
	}
	out := make([]*section, 0, len(byRun))
	for _, sec := range byRun {
		out = append(out, sec)
	}
	slices.SortFunc(out, func(a, b *section) int { return slices.Compare(a.run[:], b.run[:]) })
	for _, sec := range out {
		sec.groups = e.groupsOf(sec.run, inputs)
	}
	return out, nil
}

// groupsOf are a run's groups in some segments, as readers hold them.
func (e *Engine) groupsOf(id model.RunID, inputs []*segment) []*segmentGroup {
	r := e.run(id)
	r.mu.RLock()
	defer r.mu.RUnlock()
	seen := map[*segmentGroup]bool{}
	var out []*segmentGroup
	for _, s := range r.series {
		if s == nil {
			continue
		}
		for _, c := range s.chunks {
			g, ok := c.group.(*segmentGroup)
			if ok && !seen[g] && slices.Contains(inputs, g.segment) {
				seen[g] = true
				out = append(out, g)
			}
		}
	}
	slices.SortFunc(out, func(a, b *segmentGroup) int {
		return cmp.Or(cmp.Compare(a.segment.id, b.segment.id), cmp.Compare(a.shared.off, b.shared.off))
	})
	return out
}

func (e *Engine) rewrite(ctx context.Context, w *segmentWriter, sections []*section) ([]swap, error) {
	var swaps []swap
	for _, sec := range sections {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		r := e.run(sec.run)
		s := swap{run: r, old: sec.groups}
		gone, err := e.deletedForGood(ctx, r)
		if err != nil {
			return nil, err
		}
		sec.groups = nil
		if gone {
			sec.series, sec.starts, sec.attempts = nil, nil, nil
		} else if sec.groups, err = e.mergeGroups(w, r, s.old); err != nil {
			return nil, err
		}
		s.new = sec.groups
		if err := w.section(sec); err != nil {
			return nil, err
		}
		swaps = append(swaps, s)
	}
	return swaps, nil
}

// deletedForGood reports whether a run's deletion is on disk.
func (e *Engine) deletedForGood(ctx context.Context, r *run) (bool, error) {
	r.mu.RLock()
	deleted, lsn := r.deleted, r.lastLSN
	r.mu.RUnlock()
	if !deleted {
		return false, nil
	}
	return true, e.wait(ctx, lsn)
}

// mergeGroups copies full groups and joins small ones. A group that cannot be
// read stops the merge: the damaged file stays as it is.
func (e *Engine) mergeGroups(w *segmentWriter, r *run, groups []*segmentGroup) ([]*segmentGroup, error) {
	var out []*segmentGroup
	r.mu.RLock()
	lines := r.lines()
	r.mu.RUnlock()
	b := &builder{writer: w, lineage: lines}
	var parts []part
	size := int64(0)
	flush := func() error {
		b.classes = nil
		b.add(parts)
		made, err := b.write()
		out, parts, size = append(out, made...), nil, 0
		return err
	}
	for _, g := range groups {
		if g.ext.n >= fullGroupRows || g.bytes() >= fullGroupBytes {
			c, err := w.copyGroup(g)
			if err != nil {
				return nil, err
			}
			out = append(out, c)
			continue
		}
		p, err := g.load()
		if err != nil {
			return nil, err
		}
		parts = append(parts, p)
		if size += g.bytes(); size >= mergeBytes {
			if err := flush(); err != nil {
				return nil, err
			}
		}
	}
	err := flush()
	return out, err
}

// load reads a whole group.
func (g *segmentGroup) load() (part, error) {
	r, err := g.rows()
	if err != nil {
		return part{}, err
	}
	p := part{rows: r, series: g.series}
	for i := range g.cols {
		v, err := g.values(i)
		if err != nil {
			return part{}, err
		}
		p.cols = append(p.cols, v)
	}
	return p, nil
}

// replace swaps the groups that readers find.
func (r *run) replace(old, merged []*segmentGroup) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.deleted {
		return
	}
	gone := map[rowGroup]bool{}
	touched := map[uint32]bool{}
	for _, g := range old {
		gone[g] = true
		for _, id := range g.series {
			touched[id] = true
		}
	}
	for id := range touched {
		s := r.series[id]
		// A copy: views hold the old slice.
		s.chunks = slices.DeleteFunc(slices.Clone(s.chunks), func(c chunk) bool { return gone[c.group] })
	}
	for _, g := range merged {
		r.attach(g)
	}
}

func (e *Engine) replaceSegments(old []*segment, s *segment) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.segments = slices.DeleteFunc(slices.Clone(e.segments), func(x *segment) bool { return slices.Contains(old, x) })
	e.segments = append(e.segments, s)
}

// removeSegments unlinks files; reads that began before still hold them open,
// and the garbage collector closes them.
func (e *Engine) removeSegments(old []*segment) error {
	for _, s := range old {
		if err := e.cfg.FS.Remove(filepath.Join(e.segmentDir(), segmentName(s.id))); err != nil {
			return fmt.Errorf("remove replaced segment: %w", err)
		}
	}
	return e.cfg.FS.SyncDir(e.segmentDir())
}
