package segment

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/kymogram/kymogram/internal/codec"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store/local/column"
	"github.com/kymogram/kymogram/server/internal/store/local/record"
)

// What a group and each of its columns take besides their values, once they are read.
const (
	loadedGroup = 2 << 10
	loadedValue = 256
)

// Bodies reads and joins what the inputs have of a run.
func (s *Section) Bodies(inputs []*File) error {
	for _, in := range inputs {
		at, ok := in.find(s.Run)
		if !ok {
			continue
		}
		sec, err := in.Section(in.Runs[at], true)
		if err != nil {
			return fmt.Errorf("compaction: %w", err)
		}
		s.Series = append(s.Series, sec.Series...)
		s.Starts = append(s.Starts, sec.Starts...)
		s.Groups = append(s.Groups, sec.Groups...)
	}
	s.Series = mergeBy(s.Series, nil, func(a, b record.Series) int { return cmp.Compare(a.ID, b.ID) }, func(a, b record.Series) bool { return a.ID == b.ID })
	sortGroups(s.Groups)
	return nil
}

// sortGroups brings those of the same series together, by rising time, so that a merge
// that has no room for all of them joins what belongs together.
func sortGroups(groups []Packed) {
	slices.SortStableFunc(groups, func(a, b Packed) int {
		series, time := a.first()
		another, later := b.first()
		return cmp.Or(cmp.Compare(series, another), cmp.Compare(time, later))
	})
}

// Merge copies full groups and joins small ones, neighbours that make a long one, and those
// that may say points again; of points that are said again it keeps the last. A group that
// cannot be read stops the merge: the damaged file stays as it is. It reads about room bytes
// before it writes.
func (w *Writer) Merge(ctx context.Context, groups []Packed, writers []model.WriterID, room int64) ([]Packed, error) {
	var out []Packed
	var parts []Part
	size, met, long := int64(0), meeting(groups), strands(groups)
	flush := func() error {
		if err := ctx.Err(); err != nil {
			return err
		}
		made, err := (&builder{writer: w, writers: writers, once: true}).groups(parts)
		out, parts, size = append(out, made...), nil, 0
		return err
	}
	for _, p := range groups {
		g := p.Whole()
		plain, err := g.plainBytes()
		if err != nil {
			return nil, err
		}
		strand := long[g]
		if g.segment.version >= copiedFrom && !met[g] && (plain >= fullGroupBytes || g.Ext.Rows >= fullGroupRows && strand == 0) {
			c, err := w.copyGroup(g)
			if err != nil {
				return nil, err
			}
			out = append(out, c.pack())
			continue
		}
		part, err := g.load()
		if err != nil {
			return nil, err
		}
		if part.strand = strand; met[g] { // what says points again may be of any length
			part.strand = 0
		}
		parts = append(parts, part)
		if size += plain + loadedGroup + loadedValue*int64(len(g.Cols)); size >= room {
			if err := flush(); err != nil {
				return nil, err
			}
		}
	}
	err := flush()
	return out, err
}

// strand is neighbouring groups of the same series, shape and source, none of them long.
type strand struct {
	groups []*Group
	rows   int
}

// strands numbers, from 1, the groups that are joined because together they make a long
// one: what a series takes in memory is by the group. Each comes after those of its
// strand in the order of sortGroups, with nothing of its series in between that is as
// long: else what is joined would lie across that.
func strands(groups []Packed) map[*Group]int {
	type kind struct {
		series, n, source uint32
		mask              column.AxisSet
		mode              model.Uniqueness
	}
	numbers, made := map[*Group]int{}, 0
	open := map[kind]*strand{}
	end := func(s *strand) {
		if s == nil || len(s.groups) < 2 || s.rows < longGroupRows {
			return
		}
		made++
		for _, g := range s.groups {
			numbers[g] = made
		}
	}
	for _, p := range groups {
		g, ok := p.(*Group)
		if !ok || len(g.Series) == 0 || len(g.Ext.Sources) != 1 {
			continue
		}
		k := kind{g.Series[0], uint32(len(g.Series)), g.Ext.Sources[0], g.Ext.Mask, g.Ext.Mode}
		s := open[k]
		if s != nil && g.Ext.Rows < longGroupRows && slices.Equal(s.groups[0].Series, g.Series) {
			s.groups, s.rows = append(s.groups, g), s.rows+g.Ext.Rows
			continue
		}
		end(s)
		delete(open, k)
		if g.Ext.Rows < longGroupRows {
			open[k] = &strand{[]*Group{g}, g.Ext.Rows}
		}
	}
	for _, s := range open {
		end(s)
	}
	return numbers
}

// meeting finds the groups that have a source and a range on every axis in common with
// another one of the same series: a client that sent its points twice makes them. They
// come as sortGroups orders them. Those of one row are joined anyhow.
func meeting(groups []Packed) map[*Group]bool {
	out := map[*Group]bool{}
	var open []*Group // of the series, those that may reach what comes
	for _, p := range groups {
		g, ok := p.(*Group)
		if !ok || len(g.Series) == 0 {
			continue
		}
		open = slices.DeleteFunc(open, func(o *Group) bool { return o.Series[0] != g.Series[0] || o.Ext.MaxTime < g.Ext.MinTime })
		for _, o := range open {
			if o.Ext.Mask == g.Ext.Mask && o.Ext.Mode == g.Ext.Mode && o.Ext.Meets(&g.Ext) && slices.ContainsFunc(o.Ext.Sources, func(s uint32) bool { return slices.Contains(g.Ext.Sources, s) }) {
				out[o], out[g] = true, true
			}
		}
		open = append(open, g)
	}
	return out
}

// plainBytes is about what the group's blocks take once they are read. Texts and equal
// numbers may shrink a thousandfold: they do not count as they lie in the file.
func (g *Group) plainBytes() (int64, error) {
	n := int64(g.shared.Len) + int64(g.blocks.Len)
	for i := range g.Cols {
		m := &g.Cols[i]
		if column.Numeric(m.Kind) {
			n += max(int64(m.ref.Len), 4*int64(g.Ext.Rows))
			continue
		}
		b, err := g.segment.read(m.ref)
		if err != nil {
			return 0, g.bad(m.ref, 1, err)
		}
		size, err := codec.PlainBytes(b, g.Ext.Rows)
		if err != nil {
			return 0, g.bad(m.ref, 1, err)
		}
		n += int64(size)
	}
	return n, nil
}

// load reads a whole group.
func (g *Group) load() (Part, error) {
	r, err := g.Rows()
	if err != nil {
		return Part{}, err
	}
	p := Part{Rows: r, Series: g.Series}
	for i := range g.Cols {
		v, err := g.Values(i)
		if err != nil {
			return Part{}, err
		}
		p.Columns = append(p.Columns, v)
	}
	return p, nil
}

// WithoutSegments copies what is left: views hold the old list.
func WithoutSegments(chunks []column.Chunk, old []*File) []column.Chunk {
	gone := func(c column.Chunk) bool { return slices.Contains(old, c.Group.(Packed).file()) }
	if !slices.ContainsFunc(chunks, gone) {
		return chunks
	}
	return slices.DeleteFunc(slices.Clone(chunks), gone)
}
