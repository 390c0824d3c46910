package state

import (
	"slices"

	"github.com/kymogram/kymogram/server/internal/store/local/curve"
	"github.com/kymogram/kymogram/server/internal/store/local/record"
	"github.com/kymogram/kymogram/server/internal/store/local/segment"
)

// Frozen is what one flush takes from a run.
type Frozen struct {
	run     *Run
	section *segment.Section
	views   []*memView
	groups  []*memGroup
	lineage *curve.Lineage
	starts  []record.Start
}

// Freeze takes what a run holds in memory and no segment has. Readers go on
// with it until thaw.
func (r *Run) Freeze() *Frozen {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.firstLSN == 0 {
		return nil
	}
	if len(r.late) > 0 {
		r.load()
	}
	f := &Frozen{run: r, groups: r.mem, lineage: r.lines(), starts: r.freshStarts}
	f.section = &segment.Section{Head: segment.Head{Entry: segment.Entry{Run: r.ID, Flushed: r.LastLSN}, Deleted: r.deleted, NextOrd: r.nextOrd, Made: r.made, Attempts: slices.Clone(r.attempts)}, Starts: r.freshStarts}
	for _, m := range r.mem {
		f.views = append(f.views, m.view())
	}
	r.fillSection(f)
	r.frozenFirst, r.firstLSN = r.firstLSN, 0
	r.table.dueBytes.Add(-int64(r.dueBytes))
	r.dueBytes = 0
	r.frozenMem, r.frozenBytes = r.mem, r.memBytes
	r.mem, r.memAt, r.memRows, r.memBytes, r.freshStarts = nil, nil, 0, 0, nil
	return f
}

// fillSection adds the writers and sources that changed or are named by the
// rows, and the definitions of their series.
func (r *Run) fillSection(f *Frozen) {
	used, named := map[uint32]bool{}, map[uint32]bool{}
	for _, m := range f.groups {
		for _, s := range m.extent.Sources {
			used[s] = true
		}
		for _, id := range m.series {
			named[id] = true
		}
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
		if s != nil && named[s.ID] {
			f.section.Series = append(f.section.Series, record.Series{ID: s.ID, Kind: s.Kind, Text: s.Text})
		}
	}
}

// Write puts the groups and the section into a segment.
func (f *Frozen) Write(w *segment.Writer) error {
	var parts []segment.Part
	for _, v := range f.views {
		parts = append(parts, segment.Part{Rows: &v.shared, Series: v.group.series, Columns: v.cols})
	}
	groups, err := w.Groups(parts, f.lineage.Writers)
	if err != nil {
		return err
	}
	f.section.Groups = groups
	return w.Section(f.section)
}

// Thaw makes the groups of a finished flush readable in place of the memory.
func (f *Frozen) Thaw(s *segment.File) {
	r := f.run
	r.mu.Lock()
	defer r.mu.Unlock()
	r.flushed = max(r.flushed, f.section.Flushed)
	r.table.memory.Add(-int64(r.frozenBytes))
	r.frozenFirst, r.frozenMem, r.frozenBytes = 0, nil, 0
	r.relocate(nil, s.Located(r.ID))
	if r.deleted {
		return
	}
	gone := map[*memGroup]bool{}
	for _, m := range f.groups {
		gone[m] = true
	}
	for _, m := range f.groups {
		for _, id := range m.series {
			s := r.series[id]
			s.mem = slices.DeleteFunc(s.mem, func(ref memRef) bool { return gone[ref.group] })
			if len(s.mem) == 0 {
				s.mem = nil
			}
		}
	}
	for _, g := range f.section.Groups {
		r.attach(g)
	}
}

// Refreeze undoes freeze after a flush that failed.
func (f *Frozen) Refreeze() {
	r := f.run
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.deleted {
		r.mem = append(slices.Clone(f.groups), r.mem...)
		r.memBytes += r.frozenBytes
		r.memRows = r.table.limits.FlushRows // due again
		r.freshStarts = append(slices.Clone(f.starts), r.freshStarts...)
	}
	r.firstLSN, r.frozenFirst, r.frozenMem, r.frozenBytes = r.frozenFirst, 0, nil, 0
}

// Replace swaps the groups that readers find, where they are loaded, and where
// they are found.
func (r *Run) Replace(old []*segment.File, s *segment.File, merged []*segment.Group) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.relocate(old, s.Located(r.ID))
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

// UpTo is the last record that is in it.
func (f *Frozen) UpTo() uint64 { return f.section.Flushed }

// Compare orders by run.
func (f *Frozen) Compare(o *Frozen) int { return slices.Compare(f.run.ID[:], o.run.ID[:]) }
