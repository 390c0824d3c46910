package state

import (
	"encoding/binary"
	"hash/maphash"
	"slices"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store/local/column"
	"github.com/kymogram/kymogram/server/internal/store/local/record"
)

// memGroup collects rows of one shape: same axes, rule, source and columns. A small
// one keeps them as the log has them, since slices for each axis and column would
// take ten times as much; one that grows keeps them in those.
type memGroup struct {
	source uint32
	rows   int32  // while packed
	packed []byte // record groups, one behind the other
	table  *memTable
	shape  uint32 // hash of what its rows have in common
	stored bool   // a segment has it
}

// memTable is the rows of a group in columns.
type memTable struct {
	shared column.Rows
	extent column.Extent
	series []uint32
	cols   []column.Values
	docs   int // bytes of documents
}

const (
	packedRows    = 16
	packedColumns = 64      // each view of a packed group reads all of it
	packedBytes   = 4 << 10 // and copies its texts
	// steadyRows is from how many rows on a group is taken to go on to its flush.
	steadyRows = 64
	// fullRows is how many rows are enough: more go into another group of the shape, since
	// a larger one would be copied again and again as it grows.
	fullRows = 8 << 10
)

// add appends rows and returns by how many bytes the group has grown.
func (m *memGroup) add(g *record.Group, limits *Limits, writers []model.WriterID) int {
	before := m.cost()
	if m.table == nil && int(m.rows)+g.Rows.Len() <= packedRows && len(g.Columns) <= packedColumns && len(m.packed)+8*int(g.Points())+documents(g) <= packedBytes {
		m.rows += int32(g.Rows.Len())
		m.packed = record.AppendGroup(m.packed, g)
		return m.cost() - before
	}
	if m.table == nil {
		m.table = m.unpack(writers)
		m.packed, m.rows = nil, 0
	}
	if m.table == nil {
		m.table = newMemTable(g)
	}
	m.table.grow(g.Rows.Len(), limits)
	m.table.append(g, writers)
	return m.cost() - before
}

// documents is the bytes of the texts and documents of a group.
func documents(g *record.Group) (n int) {
	for i := range g.Columns {
		for _, doc := range g.Columns[i].Docs {
			n += len(doc)
		}
	}
	return n
}

// count is the number of rows.
func (m *memGroup) count() int {
	if m.table == nil {
		return int(m.rows)
	}
	return m.table.shared.Len()
}

// Bytes of what a group is made of, as the allocator gives them.
const (
	groupBytes  = 112 // of a group with its places in the run
	tableBytes  = 760
	columnBytes = 96
)

// cost is the memory of the group.
func (m *memGroup) cost() int {
	if m.table == nil {
		if m.rows == 0 {
			return 0
		}
		return groupBytes + cap(m.packed)
	}
	t := m.table
	row := 28 + 8*len(t.cols) // time, sequence, arrival and source, and the values
	for a := range column.NumAxes {
		if t.shared.Mask.Has(a) {
			row += 8
		}
	}
	for i := range t.cols {
		if !column.Numeric(t.cols[i].Kind) {
			row += 16
		}
	}
	return groupBytes + tableBytes + columnBytes*len(t.cols) + row*cap(t.shared.Time) + t.docs
}

// unpack reads the packed rows; nil when there are none.
func (m *memGroup) unpack(writers []model.WriterID) *memTable {
	var t *memTable
	for d := (record.Decoder{Rest: m.packed}); len(d.Rest) > 0; {
		g := d.Group()
		g.Rows.Source = slices.Repeat([]uint32{m.source}, g.Rows.Len())
		if t == nil {
			t = newMemTable(&g)
		}
		t.append(&g, writers)
	}
	return t
}

func newMemTable(g *record.Group) *memTable {
	t := &memTable{shared: column.Rows{Mask: g.Rows.Mask, Mode: g.Rows.Mode}, series: slices.Clone(g.Series), cols: make([]column.Values, len(g.Columns))}
	t.extent = column.Extent{Mask: g.Rows.Mask, Mode: g.Rows.Mode, Distinct: true}
	for i := range g.Columns {
		t.cols[i].Kind = g.Columns[i].Kind
	}
	return t
}

func (t *memTable) append(g *record.Group, writers []model.WriterID) {
	from := t.shared.Len()
	t.shared.Add(&g.Rows, nil)
	for i := range g.Columns {
		t.appendColumn(i, &g.Columns[i])
	}
	t.extent.Extend(&t.shared, from, writers)
}

// appendColumn copies a column's values.
func (t *memTable) appendColumn(col int, v *column.Values) {
	if column.Numeric(v.Kind) {
		t.cols[col].Add(v, nil)
		return
	}
	for _, doc := range v.Docs {
		t.cols[col].Docs = append(t.cols[col].Docs, append([]byte{}, doc...))
		t.docs += len(doc) + 8
	}
}

// grow makes room for n more rows. A group that has grown before gets what it
// takes up to its flush at once: doubling would copy it three times and leave
// half of the room unused. One that is past its flush, which may take its time, doubles.
func (t *memTable) grow(n int, limits *Limits) {
	rows := t.shared.Len()
	if rows < steadyRows {
		return // append doubles
	}
	room := max(n, min(limits.FlushRows, limits.FlushBytes/(8*(len(t.cols)+4)))+n-rows, min(rows, fullRows-rows))
	t.shared.Time = ensure(t.shared.Time, n, room)
	t.shared.Seq = ensure(t.shared.Seq, n, room)
	t.shared.Arrival = ensure(t.shared.Arrival, n, room)
	t.shared.Source = ensure(t.shared.Source, n, room)
	for a := range t.shared.Axes {
		if t.shared.Mask.Has(a) {
			t.shared.Axes[a] = ensure(t.shared.Axes[a], n, room)
		}
	}
	for i := range t.cols {
		c := &t.cols[i]
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

// shapeRoom is for the shapes of most groups.
const shapeRoom = 512

// shapeOf is what groups that are one have in common.
func shapeOf(b []byte, g *record.Group, src uint32) []byte {
	b = binary.LittleEndian.AppendUint16(b, uint16(g.Rows.Mask))
	b = append(b, byte(g.Rows.Mode))
	b = binary.LittleEndian.AppendUint32(b, src)
	for i, s := range g.Series {
		b = binary.LittleEndian.AppendUint32(b, s)
		b = append(b, byte(g.Columns[i].Kind))
	}
	return b
}

// takes reports whether rows of a record are of the group's shape.
func (m *memGroup) takes(g *record.Group, src uint32) bool {
	if m.source != src {
		return false
	}
	if t := m.table; t != nil {
		return alike(g, &t.shared, t.series, t.cols)
	}
	own := (&record.Decoder{Rest: m.packed}).Group()
	return alike(g, &own.Rows, own.Series, own.Columns)
}

func alike(g *record.Group, rows *column.Rows, series []uint32, cols []column.Values) bool {
	return g.Rows.Mask == rows.Mask && g.Rows.Mode == rows.Mode && slices.Equal(g.Series, series) &&
		slices.EqualFunc(g.Columns, cols, func(a, b column.Values) bool { return a.Kind == b.Kind })
}

// shapes finds the groups of a run by the hash of their shape: most runs of many
// shapes have groups that are smaller than the shape itself. Of two with one hash, the
// later one is found, and the other takes no more rows. Few need no map.
type shapes map[uint32]*memGroup

const fewGroups = 8

func (r *Run) groupLike(g *record.Group, src uint32) (*memGroup, uint32) {
	var room [shapeRoom]byte
	sum := uint32(maphash.Bytes(r.table.seed, shapeOf(room[:0], g, src)))
	m := r.shapes[sum]
	if r.shapes == nil {
		for i := len(r.mem) - 1; i >= 0 && m == nil; i-- {
			if r.mem[i].shape == sum {
				m = r.mem[i]
			}
		}
	}
	if m != nil && m.count() < fullRows && m.takes(g, src) {
		return m, sum
	}
	return nil, sum
}

// addGroup lets a group be found by its shape.
func (r *Run) addGroup(m *memGroup) {
	r.mem = append(r.mem, m)
	if r.shapes == nil {
		r.indexGroups()
	} else {
		r.shapes[m.shape] = m
	}
}

func (r *Run) indexGroups() {
	if len(r.mem) <= fewGroups {
		return
	}
	r.shapes = make(shapes, len(r.mem))
	for _, m := range r.mem {
		r.shapes[m.shape] = m
	}
}

// memView is a memGroup as it was when a read began.
type memView struct {
	shared column.Rows
	ext    column.Extent
	series []uint32
	cols   []column.Values
}

// view of all columns.
func (m *memGroup) view(writers []model.WriterID) *memView {
	t := m.table
	if t == nil {
		t = m.unpack(writers)
	}
	n := t.shared.Len()
	v := &memView{shared: t.shared.Slice(0, n), ext: t.extent, series: t.series, cols: make([]column.Values, len(t.cols))}
	for i := range t.cols {
		v.cols[i] = t.cols[i].Slice(0, n)
	}
	return v
}

// viewColumn is a view of one column alone.
func (m *memGroup) viewColumn(col int, writers []model.WriterID) column.Chunk {
	t := m.table
	if t == nil {
		t = m.unpack(writers)
	}
	n := t.shared.Len()
	return column.Chunk{Group: &memView{shared: t.shared.Slice(0, n), ext: t.extent, cols: []column.Values{t.cols[col].Slice(0, n)}}}
}

// Extent is that of the rows when the read began.
func (v *memView) Extent() *column.Extent { return &v.ext }

// Rows are those when the read began.
func (v *memView) Rows() (*column.Rows, error) { return &v.shared, nil }

// Values are those when the read began.
func (v *memView) Values(col int) (column.Values, error) { return v.cols[col], nil }

// Summary is none: memory keeps no summaries.
func (v *memView) Summary(int) (column.Aggregate, bool) { return column.Aggregate{}, false }
