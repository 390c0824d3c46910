package local

import (
	"encoding/binary"
)

// memGroup collects rows of one shape: same axes, rule, source and columns.
type memGroup struct {
	shared rows
	extent extent
	series []uint32
	cols   []values
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
