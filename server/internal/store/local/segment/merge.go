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

// Bodies reads and joins what the inputs have of a run, and which groups the others have.
func (s *Section) Bodies(inputs, others []*File) error {
	for _, in := range inputs {
		sec, err := in.sectionOf(s.Run)
		if err != nil {
			return err
		}
		s.Series = append(s.Series, sec.Series...)
		s.Starts = append(s.Starts, sec.Starts...)
		s.Groups = append(s.Groups, sec.Groups...)
	}
	s.Series = mergeBy(s.Series, nil, func(a, b record.Series) int { return cmp.Compare(a.ID, b.ID) }, func(a, b record.Series) bool { return a.ID == b.ID })
	sortGroups(s.Groups)
	for _, o := range others {
		sec, err := o.sectionOf(s.Run)
		if err != nil {
			return err
		}
		s.Others = append(s.Others, sec.Groups...)
	}
	return nil
}

// sectionOf is what the segment says of a run, which may be nothing.
func (s *File) sectionOf(run model.RunID) (*Section, error) {
	at, ok := s.find(run)
	if !ok {
		return &Section{}, nil
	}
	sec, err := s.Section(s.Runs[at], true)
	if err != nil {
		return nil, fmt.Errorf("compaction: %w", err)
	}
	return sec, nil
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
// that may say points again. Of points that are said again, also by the others, it keeps the
// last. A group that cannot be read stops the merge: the damaged file stays as it is. It
// reads about room bytes before it writes.
func (w *Writer) Merge(ctx context.Context, groups, others []Packed, writers []model.WriterID, room int64) ([]Packed, error) {
	m := &merger{writer: w, writers: writers, long: strands(groups)}
	m.met, m.stays = meeting(groups, others)
	for _, p := range m.with(groups, others) {
		g := p.Whole()
		size, err := g.plainBytes()
		if err != nil {
			return nil, err
		}
		if m.copies(g, size) {
			c, err := w.copyGroup(g)
			if err != nil {
				return nil, err
			}
			m.out = append(m.out, c.pack())
			continue
		}
		if err := m.take(g); err != nil {
			return nil, err
		}
		if m.size += size + loadedGroup + loadedValue*int64(len(g.Cols)); m.size >= room {
			if err := m.flush(ctx); err != nil {
				return nil, err
			}
		}
	}
	err := m.flush(ctx)
	return m.out, err
}

// merger joins groups of a run.
type merger struct {
	writer  *Writer
	writers []model.WriterID
	met     map[*Group]uint32 // those that may say what others say, see meeting
	long    map[*Group]int    // those of strands
	stays   map[*Group]bool   // those of segments that stay
	out     []Packed

	parts  []Part
	size   int64  // about, of the parts in memory
	bytes  int64  // of the parts in their files
	points uint64 // the same
}

// with adds those of the others that may say points again. What may say the same comes
// together, by rising time.
func (m *merger) with(groups, others []Packed) []Packed {
	if len(m.met) == 0 {
		return groups
	}
	groups = slices.Clone(groups)
	for _, p := range others {
		if g, ok := p.(*Group); ok && m.meets(g) {
			groups = append(groups, p)
		}
	}
	slices.SortStableFunc(groups, func(a, b Packed) int {
		series, time := m.place(a)
		another, later := m.place(b)
		return cmp.Or(cmp.Compare(series, another), cmp.Compare(time, later))
	})
	return groups
}

func (m *merger) place(p Packed) (series uint32, time int64) {
	series, time = p.first()
	if g, ok := p.(*Group); ok {
		if least, met := m.met[g]; met {
			series = least
		}
	}
	return series, time
}

func (m *merger) meets(g *Group) bool {
	_, met := m.met[g]
	return met
}

// copies reports whether a group of so many bytes stays as it is.
func (m *merger) copies(g *Group, size int64) bool {
	return g.segment.version >= copiedFrom && !m.meets(g) && (size >= fullGroupBytes || g.Ext.Rows >= fullGroupRows && m.long[g] == 0)
}

// take reads a group; another's is only there to say what is said again.
func (m *merger) take(g *Group) error {
	part, err := g.load()
	if err != nil {
		return err
	}
	if part.strand = m.long[g]; m.meets(g) { // what says points again may be of any length
		part.strand = 0
	}
	if part.other = m.stays[g]; !part.other {
		m.bytes, m.points = m.bytes+g.Bytes(), m.points+g.Points()
	}
	m.parts = append(m.parts, part)
	return nil
}

func (m *merger) flush(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	b := &builder{writer: m.writer, writers: m.writers, once: true}
	made, err := b.groups(m.parts)
	m.writer.Freed += int64(float64(m.bytes) * float64(b.again) / float64(max(1, m.points)))
	m.out, m.parts, m.size, m.bytes, m.points = append(m.out, made...), nil, 0, 0, 0
	return err
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
