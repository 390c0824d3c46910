package segment

import (
	"math/bits"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store/local/column"
)

// single is a group of one row and one column, in a sixth of the memory: its extent
// and its summary follow from the row. Each use makes the group from it.
type single struct {
	segment    *File
	shared     Ref
	value      Ref
	time       int64
	seq        uint64
	arrival    int64
	bits       uint64 // of the value, of a number
	axes       [singleAxes]int64
	source, id uint32
	mask       column.AxisSet
	mode       model.Uniqueness
	kind       model.Kind
	distinct   bool
}

const singleAxes = 2

// Packed is a group in the least memory.
type Packed interface {
	column.Group
	// Whole is the group; what is done to it may be lost.
	Whole() *Group

	first() (series uint32, time int64) // the least of each
	file() *File
	place(s *File)
}

// Whole is the group itself.
func (g *Group) Whole() *Group { return g }

func (g *Group) first() (series uint32, time int64) {
	if len(g.Series) == 0 { // of a damaged index
		return 0, g.Ext.MinTime
	}
	return g.Series[0], g.Ext.MinTime
}

func (s *single) first() (series uint32, time int64) { return s.id, s.time }

func (g *Group) file() *File   { return g.segment }
func (g *Group) place(s *File) { g.segment = s }

func (s *single) file() *File   { return s.segment }
func (s *single) place(f *File) { s.segment = f }

// pack is the group in the least memory.
func (g *Group) pack() Packed {
	e := &g.Ext
	if e.Rows != 1 || len(g.Cols) != 1 || g.blocks.Len > 0 || bits.OnesCount16(uint16(e.Mask)) > singleAxes {
		return g
	}
	c := &g.Cols[0]
	s := &single{
		segment: g.segment, shared: g.shared, value: c.ref, time: e.LastTime, seq: e.LastSeq, arrival: e.LastArrival, bits: c.sum.Last,
		source: e.LastSource, id: g.Series[0], mask: e.Mask, mode: e.Mode, kind: c.Kind, distinct: e.Distinct,
	}
	n := 0
	for a := range column.NumAxes {
		if e.Mask.Has(a) {
			s.axes[n] = e.Lo[a]
			n++
		}
	}
	return s
}

// Whole is what pack was given.
func (s *single) Whole() *Group {
	e := column.Extent{
		Rows: 1, Mask: s.mask, Mode: s.mode, MinTime: s.time, MaxTime: s.time, Sources: []uint32{s.source}, Distinct: s.distinct,
		LastTime: s.time, LastSource: s.source, LastSeq: s.seq, LastArrival: s.arrival,
	}
	n := 0
	for a := range column.NumAxes {
		if s.mask.Has(a) {
			e.Lo[a], e.Hi[a] = s.axes[n], s.axes[n]
			n++
		}
	}
	g := &Group{segment: s.segment, Ext: e, shared: s.shared, Series: []uint32{s.id}, Cols: []ColumnMeta{{Kind: s.kind, ref: s.value}}}
	if column.Numeric(s.kind) {
		v := column.Values{Kind: s.kind}
		number := column.NumberOf(s.kind, s.bits)
		if s.kind == model.KindInt {
			v.Ints = []int64{number.Int}
		} else {
			v.Floats = []float64{number.Float}
		}
		sum := column.Summarise(&v, 0, 1)
		sum.First, sum.Last = s.bits, s.bits
		g.Cols[0].sum = sum
	}
	return g
}

// Extent follows from the row.
func (s *single) Extent() *column.Extent { return &s.Whole().Ext }

// Rows reads what the column needs.
func (s *single) Rows() (*column.Rows, error) { return s.Whole().Rows() }

// Values reads the column.
func (s *single) Values(col int) (column.Values, error) { return s.Whole().Values(col) }

// Summary follows from the value.
func (s *single) Summary(col int) (column.Aggregate, bool) { return s.Whole().Summary(col) }

// Xs reads an axis.
func (s *single) Xs(axis int) ([]int64, error) { return s.Whole().Xs(axis) }

// BlockSums are none.
func (s *single) BlockSums(col, axis int) ([]column.Block, error) {
	return s.Whole().BlockSums(col, axis)
}

// Cost is the memory that a column of a group takes with it, as the allocator gives it.
func Cost(p Packed) int {
	const one, group, column = 112, 432, 128
	if g, ok := p.(*Group); ok {
		return group/max(1, len(g.Cols)) + column
	}
	return one
}
