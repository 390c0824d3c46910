package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/bits"
	"path/filepath"
	"slices"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store/local/column"
	"github.com/kymogram/kymogram/server/internal/store/local/record"
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
	e.merging.Lock()
	defer e.merging.Unlock()
	if err := e.poisoned(); err != nil {
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
	e.flushing.Lock() // else a segment might be merged before its runs read from it
	live := slices.DeleteFunc(e.liveSegments(), func(s *segment) bool { return s.keep.Load() })
	e.flushing.Unlock()
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

// dead counts the bytes of deleted runs in a segment, anew after a deletion.
func (e *Engine) dead(s *segment) int64 {
	now := e.deleted.Load() + 1
	if s.deadAt == now {
		return s.dead
	}
	s.dead, s.deadAt = 0, now
	for i := range s.runs {
		if r := e.run(s.runs[i].run); r != nil && s.runs[i].bytes > 0 && r.isDeleted() {
			s.dead += s.runs[i].bytes
		}
	}
	return s.dead
}

func (r *run) isDeleted() bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.deleted
}

// merge writes the inputs into one new segment, which names them as replaced,
// and drops them.
func (e *Engine) merge(ctx context.Context, inputs []*segment) error {
	heads, err := e.heads(inputs)
	if err != nil {
		return err
	}
	w, err := e.newSegmentWriter(&e.mergeDesk)
	if err != nil {
		return err
	}
	if err := e.rewrite(ctx, w, heads, inputs); err != nil {
		w.abandon()
		return err
	}
	ids := slices.Clone(e.gone)
	for _, s := range inputs {
		ids = append(ids, s.id)
	}
	out, err := w.finish(ids)
	if err != nil {
		w.abandon()
		return err
	}
	for _, sec := range w.done {
		e.run(sec.run).replace(inputs, out, sec.groups)
	}
	e.replaceSegments(inputs, out)
	e.gone = ids
	return e.removeSegments()
}

// heads reads and joins what the inputs say of runs, by rising id. An input
// whose index is damaged is not merged, so that nothing of it is lost.
func (e *Engine) heads(inputs []*segment) ([]*head, error) {
	byRun := map[model.RunID]*head{}
	for _, in := range inputs {
		s := &segment{id: in.id, engine: e, file: in.file} // readers use the directory of the other
		list, err := s.readDirectory()
		if err != nil {
			return nil, fmt.Errorf("compaction: %w", s.bad(blockRef{}, err))
		}
		for i := range list {
			h := &list[i]
			if err := s.complete(h); err != nil {
				return nil, fmt.Errorf("compaction: %w", err)
			}
			if old := byRun[h.run]; old != nil {
				old.merge(h)
			} else {
				byRun[h.run] = h
			}
		}
	}
	out := slices.Collect(maps.Values(byRun))
	slices.SortFunc(out, func(a, b *head) int { return slices.Compare(a.run[:], b.run[:]) })
	return out, nil
}

// bodies reads and joins what the inputs have of a run.
func (s *section) bodies(inputs []*segment) error {
	for _, in := range inputs {
		at, ok := in.find(s.run)
		if !ok {
			continue
		}
		sec, err := in.section(in.runs[at])
		if err != nil {
			return fmt.Errorf("compaction: %w", err)
		}
		s.series = append(s.series, sec.series...)
		s.starts = append(s.starts, sec.starts...)
		s.groups = append(s.groups, sec.groups...)
	}
	s.series = mergeBy(s.series, nil, func(a, b record.Series) int { return cmp.Compare(a.ID, b.ID) }, func(a, b record.Series) bool { return a.ID == b.ID })
	slices.SortStableFunc(s.groups, func(a, b *segmentGroup) int { return cmp.Compare(a.segment.id, b.segment.id) })
	return nil
}

func (e *Engine) rewrite(ctx context.Context, w *segmentWriter, heads []*head, inputs []*segment) error {
	for _, h := range heads {
		if err := ctx.Err(); err != nil {
			return err
		}
		sec, r := &section{head: *h}, e.run(h.run)
		gone, err := e.deletedForGood(ctx, r)
		if err != nil {
			return err
		}
		if gone {
			sec.attempts = nil
		} else if err := sec.bodies(inputs); err != nil {
			return err
		} else if sec.groups, err = e.mergeGroups(w, r, sec.groups); err != nil {
			return err
		}
		if err := w.section(sec); err != nil {
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
		if g.segment.version == segmentVersion && (g.ext.Rows >= fullGroupRows || g.bytes() >= fullGroupBytes) {
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
	r, err := g.Rows()
	if err != nil {
		return part{}, err
	}
	p := part{rows: r, series: g.series}
	for i := range g.cols {
		v, err := g.Values(i)
		if err != nil {
			return part{}, err
		}
		p.cols = append(p.cols, v)
	}
	return p, nil
}

// replace swaps the groups that readers find, where they are loaded, and where
// they are found.
func (r *run) replace(old []*segment, s *segment, merged []*segmentGroup) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.relocate(old, s.located(r.id))
	if r.deleted || !r.loaded {
		return
	}
	for _, s := range r.series {
		if s != nil {
			s.chunks = withoutSegments(s.chunks, old)
			s.layout++
		}
	}
	for _, g := range merged {
		r.attach(g)
	}
}

// withoutSegments copies what is left: views hold the old list.
func withoutSegments(chunks []column.Chunk, old []*segment) []column.Chunk {
	gone := func(c column.Chunk) bool {
		g, ok := c.Group.(*segmentGroup)
		return ok && slices.Contains(old, g.segment)
	}
	if !slices.ContainsFunc(chunks, gone) {
		return chunks
	}
	return slices.DeleteFunc(slices.Clone(chunks), gone)
}

func (e *Engine) replaceSegments(old []*segment, s *segment) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.segments = slices.DeleteFunc(slices.Clone(e.segments), func(x *segment) bool { return slices.Contains(old, x) })
	e.segments = append(e.segments, s)
}

// removeSegments unlinks what was replaced; reads that began before still hold
// the files open, and the garbage collector closes them. Until the folder is
// synced they may come back after a crash, so the next merge names them, too.
func (e *Engine) removeSegments() (failed error) {
	for _, id := range e.gone {
		err := e.cfg.FS.Remove(filepath.Join(e.segmentDir(), segmentName(id)))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = errors.Join(failed, fmt.Errorf("remove replaced segment: %w", err))
		}
	}
	if failed == nil {
		failed = e.cfg.FS.SyncDir(e.segmentDir())
	}
	if failed == nil {
		e.gone = nil
	}
	return failed
}
