package state

import (
	"encoding/binary"
	"slices"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store/local/column"
	"github.com/kymogram/kymogram/server/internal/store/local/record"
)

// memGroup collects rows of one shape: same axes, rule, source and columns.
type memGroup struct {
	shared column.Rows
	extent column.Extent
	series []uint32
	cols   []column.Values
}

// steadyRows is from how many rows on a group is taken to go on to its flush.
const steadyRows = 64

// grow makes room for n more rows. A group that has grown before gets what it
// takes up to its flush at once: doubling would copy it three times and leave
// half of the room unused.
func (m *memGroup) grow(n, flushRows int) {
	rows := m.shared.Len()
	if rows < steadyRows {
		return // append doubles
	}
	room := max(n, flushRows+n-rows)
	m.shared.Time = ensure(m.shared.Time, n, room)
	m.shared.Seq = ensure(m.shared.Seq, n, room)
	m.shared.Arrival = ensure(m.shared.Arrival, n, room)
	m.shared.Source = ensure(m.shared.Source, n, room)
	for a := range m.shared.Axes {
		if m.shared.Mask.Has(a) {
			m.shared.Axes[a] = ensure(m.shared.Axes[a], n, room)
		}
	}
	for i := range m.cols {
		c := &m.cols[i]
		switch c.Kind {
		case model.KindFloat:
			c.Floats = ensure(c.Floats, n, room)
		case model.KindInt:
			c.Ints = ensure(c.Ints, n, room)
		default:
			c.Docs = ensure(c.Docs, n, room)
		}
	}
}

// ensure gives a slice more room where it has none for n values.
func ensure[T any](s []T, n, room int) []T {
	if cap(s)-len(s) >= n {
		return s
	}
	return slices.Grow(s, room)
}

// shapeOf is the key under which groups of one shape meet.
func shapeOf(g *record.Group, src uint32) string {
	b := make([]byte, 0, 8+4*len(g.Series))
	b = binary.LittleEndian.AppendUint16(b, uint16(g.Rows.Mask))
	b = append(b, byte(g.Rows.Mode))
	b = binary.LittleEndian.AppendUint32(b, src)
	for i, s := range g.Series {
		b = binary.LittleEndian.AppendUint32(b, s)
		b = append(b, byte(g.Columns[i].Kind))
	}
	return string(b)
}

// memView is a memGroup as it was when a read began.
type memView struct {
	shared column.Rows
	ext    column.Extent
	group  *memGroup
	cols   []column.Values
}

func (m *memGroup) view() *memView {
	n := m.shared.Len()
	v := &memView{shared: m.shared.Slice(0, n), ext: m.extent, group: m, cols: make([]column.Values, len(m.cols))}
	for i := range m.cols {
		v.cols[i] = m.cols[i].Slice(0, n)
	}
	return v
}

// viewColumn is a view of one column alone.
func (m *memGroup) viewColumn(col int) column.Chunk {
	n := m.shared.Len()
	v := &memView{shared: m.shared.Slice(0, n), ext: m.extent, group: m, cols: []column.Values{m.cols[col].Slice(0, n)}}
	return column.Chunk{Group: v}
}

// Extent is that of the rows when the read began.
func (v *memView) Extent() *column.Extent { return &v.ext }

// Rows are those when the read began.
func (v *memView) Rows() (*column.Rows, error) { return &v.shared, nil }

// Values are those when the read began.
func (v *memView) Values(col int) (column.Values, error) { return v.cols[col], nil }

// Summary is none: memory keeps no summaries.
func (v *memView) Summary(int) (column.Aggregate, bool) { return column.Aggregate{}, false }
