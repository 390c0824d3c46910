package local

import (
	"encoding/binary"
	"slices"

	"github.com/kymogram/kymogram/internal/model"
)

// memGroup collects rows of one shape: same axes, rule, source and columns.
type memGroup struct {
	shared rows
	extent extent
	series []uint32
	cols   []values
}

// steadyRows is from how many rows on a group is taken to go on to its flush.
const steadyRows = 64

// grow makes room for n more rows. A group that has grown before gets what it
// takes up to its flush at once: doubling would copy it three times and leave
// half of the room unused.
func (m *memGroup) grow(n, flushRows int) {
	rows := m.shared.len()
	if rows < steadyRows {
		return // append doubles
	}
	room := max(n, flushRows+n-rows)
	m.shared.time = ensure(m.shared.time, n, room)
	m.shared.seq = ensure(m.shared.seq, n, room)
	m.shared.ord = ensure(m.shared.ord, n, room)
	m.shared.src = ensure(m.shared.src, n, room)
	for a := range m.shared.axes {
		if m.shared.mask.has(a) {
			m.shared.axes[a] = ensure(m.shared.axes[a], n, room)
		}
	}
	for i := range m.cols {
		c := &m.cols[i]
		switch c.kind {
		case model.KindFloat:
			c.floats = ensure(c.floats, n, room)
		case model.KindInt:
			c.ints = ensure(c.ints, n, room)
		default:
			c.docs = ensure(c.docs, n, room)
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
func shapeOf(g *recordGroup, src uint32) string {
	b := make([]byte, 0, 8+4*len(g.series))
	b = binary.LittleEndian.AppendUint16(b, uint16(g.rows.mask))
	b = append(b, byte(g.rows.mode))
	b = binary.LittleEndian.AppendUint32(b, src)
	for i, s := range g.series {
		b = binary.LittleEndian.AppendUint32(b, s)
		b = append(b, byte(g.cols[i].kind))
	}
	return string(b)
}

// memView is a memGroup as it was when a read began.
type memView struct {
	shared rows
	ext    extent
	group  *memGroup
	cols   []values
}

func (m *memGroup) view() *memView {
	n := m.shared.len()
	v := &memView{shared: m.shared.slice(0, n), ext: m.extent, group: m, cols: make([]values, len(m.cols))}
	for i := range m.cols {
		v.cols[i] = m.cols[i].slice(0, n)
	}
	return v
}

// viewColumn is a view of one column alone.
func (m *memGroup) viewColumn(col int) chunk {
	n := m.shared.len()
	v := &memView{shared: m.shared.slice(0, n), ext: m.extent, group: m, cols: []values{m.cols[col].slice(0, n)}}
	return chunk{group: v}
}

func (v *memView) extent() *extent                { return &v.ext }
func (v *memView) rows() (*rows, error)           { return &v.shared, nil }
func (v *memView) values(col int) (values, error) { return v.cols[col], nil }
func (v *memView) summary(int) (aggregate, bool)  { return aggregate{}, false }
