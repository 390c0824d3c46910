package state

import (
	"context"
	"slices"

	"github.com/kymogram/kymogram/server/internal/store/local/curve"
	"github.com/kymogram/kymogram/server/internal/store/local/record"
	"github.com/kymogram/kymogram/server/internal/store/local/segment"
)

// Frozen is what one flush takes from a run.
type Frozen struct {
	run     *Run
	section *segment.Section
	groups  []*memGroup
	shared  map[*memGroup]bool // those with a series that another one has, too
	lineage *curve.Lineage
	starts  []record.Start
}

// Freeze takes what a run holds in memory and no segment has. Readers go on
// with it until thaw. Records that the run has not caught up with stay in the log.
func (r *Run) Freeze() *Frozen {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.firstLSN == 0 {
		return nil
	}
	if len(r.late) > 0 {
		r.loadParts(false)
		r.catchUp(2 * r.table.limits.FlushBytes)
	}
	upTo, next := r.LastLSN, uint64(0)
	if len(r.late) > 0 {
		next = r.late[0].lsn
		upTo = next - 1
	}
	r.gather()
	f := &Frozen{run: r, groups: r.mem, lineage: r.lines(), starts: r.freshStarts}
	f.section = &segment.Section{Head: segment.Head{Entry: segment.Entry{Run: r.ID, Flushed: upTo}, Deleted: r.deleted, NextOrd: r.nextOrd, Made: r.made, Attempts: slices.Clone(r.attempts)}, Starts: r.freshStarts}
	r.fillSection(f)
	r.frozenFirst, r.firstLSN = r.firstLSN, next
	r.table.dueBytes.Add(-int64(r.dueBytes))
	r.dueBytes = 0
	r.frozenBytes = r.memBytes - r.lateBytes
	r.mem, r.loose, r.shapes, r.memRows, r.memBytes, r.freshStarts = nil, nil, nil, 0, r.lateBytes, nil
	return f
}

// fillSection adds the writers and sources that changed or are named by the
// rows, and the definitions of their series.
func (r *Run) fillSection(f *Frozen) {
	used := map[uint32]bool{}
	for _, m := range f.groups {
		used[m.source] = true
	}
	wanted := map[uint32]bool{}
	for i, s := range r.sources {
		if used[uint32(i)] {
			f.section.Sources = append(f.section.Sources, segment.PlacedSource{Place: uint32(i), Source: s})
			wanted[s.Writer] = true
		}
	}
	for i := range r.writers {
		if w := r.writers[i]; !w.ID.IsZero() && (wanted[uint32(i)] || w.LSN > r.flushed) {
			w.Skipped = slices.Clone(w.Skipped)
			f.section.Writers = append(f.section.Writers, segment.PlacedWriter{Place: uint32(i), Writer: w})
		}
	}
	for _, s := range r.series {
		if s != nil && s.live != nil && len(s.live.mem) > 0 {
			f.section.Series = append(f.section.Series, record.Series{ID: s.ID, Kind: s.Kind, Text: s.Text})
			f.noteShared(s.live.mem)
		}
	}
}

// noteShared notes the groups of a series that has several: its rows arrived now for one
// group, now for another.
func (f *Frozen) noteShared(list []memRef) {
	if len(list) < 2 {
		return
	}
	if f.shared == nil {
		f.shared = map[*memGroup]bool{}
	}
	for _, ref := range list {
		f.shared[ref.group] = true
	}
}

// writeAtOnce is about how much memory the groups take that are written together:
// what is joined and sorted is several times as large as what is packed.
const writeAtOnce = 8 << 20

// Write puts the groups and the section into a segment.
func (f *Frozen) Write(ctx context.Context, w *segment.Writer) error {
	var parts []segment.Part
	size := 0
	for i, m := range f.groups {
		v := m.view(f.lineage.Writers)
		parts = append(parts, segment.Part{Rows: &v.shared, Series: v.series, Columns: v.cols, Alone: !f.shared[m]})
		size += m.viewCost()
		if size < writeAtOnce && i < len(f.groups)-1 {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		groups, err := w.Groups(parts, f.lineage.Writers)
		if err != nil {
			return err
		}
		f.section.Groups = append(f.section.Groups, groups...)
		parts, size = nil, 0
	}
	return w.Section(f.section)
}

// viewCost is about what a flush needs to write the group.
func (m *memGroup) viewCost() int { return 3*tableBytes + m.cost() }

// Thaw makes the groups of a finished flush readable in place of the memory.
func (f *Frozen) Thaw(s *segment.File) {
	r := f.run
	r.mu.Lock()
	defer r.mu.Unlock()
	r.flushed = max(r.flushed, f.section.Flushed)
	r.table.memory.Add(-int64(r.frozenBytes))
	r.frozenFirst, r.frozenBytes = 0, 0
	r.settle()
	r.relocate(nil, s.Located(r.ID))
	if r.deleted || !r.loaded {
		r.sleep()
		return
	}
	for _, m := range f.groups {
		m.stored = true
	}
	for _, s := range r.series {
		if s != nil && s.live != nil {
			s.thaw(r.grouped)
		}
	}
	if !r.grouped {
		return
	}
	for _, g := range f.section.Groups {
		r.attach(g)
	}
	r.countGroups()
}

// thaw drops what is in a segment now.
func (s *Series) thaw(grouped bool) {
	left := s.live.mem[:0]
	for _, ref := range s.live.mem {
		if !ref.group.stored {
			left = append(left, ref)
		} else if ref.group.table == nil {
			s.live.DropEnd() // made for rows to come; few have come
		}
	}
	s.stored = s.stored || len(left) < len(s.live.mem)
	clear(s.live.mem[len(left):])
	if s.live.mem = left; len(left) > 0 {
		return
	}
	if s.live.mem = nil; !grouped {
		s.live = nil
	}
}

// Refreeze undoes freeze after a flush that failed.
func (f *Frozen) Refreeze() {
	r := f.run
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.deleted {
		r.mem, r.shapes = append(slices.Clone(f.groups), r.mem...), nil
		r.indexGroups()
		r.memBytes += r.frozenBytes
		r.memRows = r.table.limits.FlushRows // due again
		r.freshStarts = append(slices.Clone(f.starts), r.freshStarts...)
	}
	r.firstLSN, r.frozenFirst, r.frozenBytes = r.frozenFirst, 0, 0
}

// Replace swaps the groups that readers find, where they are loaded, and where
// they are found.
func (r *Run) Replace(old []*segment.File, s *segment.File, merged []segment.Packed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.flushedPoints()
	r.relocate(old, s.Located(r.ID))
	if said := before - r.flushedPoints(); said > 0 { // again, and are kept once now
		r.stored -= min(r.stored, said)
		r.recount()
	}
	if r.deleted || !r.grouped {
		return
	}
	for _, s := range r.series {
		if s != nil && s.live != nil {
			s.live.chunks = segment.WithoutSegments(s.live.chunks, old)
			s.live.layout++
		}
	}
	for _, g := range merged {
		r.attach(g)
	}
	r.countGroups()
}

// flushedPoints is how many points segments have of the run.
func (r *Run) flushedPoints() (n uint64) {
	for _, p := range r.parts {
		n += p.Ref().Points
	}
	return n
}

// recount makes void what reads counted.
func (r *Run) recount() {
	for _, s := range r.series {
		if s != nil && s.live != nil {
			s.live.version++
		}
	}
}

// Behind reports whether the run holds records of the log that no flush has taken yet.
func (f *Frozen) Behind() (*Run, bool) {
	f.run.mu.RLock()
	defer f.run.mu.RUnlock()
	return f.run, len(f.run.late) > 0
}

// UpTo is the last record that is in it.
func (f *Frozen) UpTo() uint64 { return f.section.Flushed }

// Compare orders by run.
func (f *Frozen) Compare(o *Frozen) int { return slices.Compare(f.run.ID[:], o.run.ID[:]) }
