package segment

import (
	"encoding/binary"
	"hash/maphash"
	"slices"
	"sort"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store/local/column"
)

// Part is rows with columns on their way into a segment.
type Part struct {
	Rows    *column.Rows
	Series  []uint32
	Columns []column.Values
	strand  int // parts of another one get groups of their own
	// Alone: no other part of the flush has one of the series.
	Alone bool
	other bool // of a segment that stays: it is compared, and not written
}

// Groups joins parts into the fewest groups and writes them.
func (w *Writer) Groups(parts []Part, writers []model.WriterID) ([]Packed, error) {
	return (&builder{writer: w, writers: writers}).groups(parts)
}

// manyRows is from where on the rows of a writer get groups of their own: their
// keys then rise, and the group's summary can be used as it is.
const manyRows = 64

// class is parts with the same rows: their columns share them.
type class struct {
	rows   *column.Rows
	at     map[uint32]column.Values // by series
	source int64                    // -1 for several or few rows
	strand int
	alone  bool
	other  bool
}

// builder joins parts into the fewest groups: series that have the same rows
// share a group, rows of one shape are joined and sorted.
type builder struct {
	writer  *Writer
	writers []model.WriterID // of the sources
	once    bool             // a point that is said again is kept once
	again   int              // points that were left out so
	classes []*class
}

func (b *builder) groups(parts []Part) ([]Packed, error) {
	b.add(parts)
	return b.write()
}

func (b *builder) add(parts []Part) {
	seed := maphash.MakeSeed()
	byHash := map[uint64][]*class{}
	for _, p := range parts {
		sum := hashRows(seed, p.Rows)
		c := b.sameRows(byHash[sum], p)
		if c == nil {
			c = &class{rows: p.Rows, at: map[uint32]column.Values{}, source: soleSource(p.Rows), strand: p.strand, alone: true, other: p.other}
			if p.strand > 0 { // else few rows would be a group that lies across the others
				c.source = int64(p.Rows.Source[0])
			}
			byHash[sum] = append(byHash[sum], c)
			b.classes = append(b.classes, c)
		}
		c.alone = c.alone && p.Alone
		for i, id := range p.Series {
			c.at[id] = p.Columns[i]
		}
	}
}

func soleSource(r *column.Rows) int64 {
	if r.Len() < manyRows || slices.ContainsFunc(r.Source, func(s uint32) bool { return s != r.Source[0] }) {
		return -1
	}
	return int64(r.Source[0])
}

// sameRows finds a class with the rows of p and none of its series.
func (b *builder) sameRows(list []*class, p Part) *class {
	for _, c := range list {
		fresh := !slices.ContainsFunc(p.Series, func(id uint32) bool { _, taken := c.at[id]; return taken })
		if fresh && c.strand == p.strand && c.other == p.other && equalRows(c.rows, p.Rows) {
			return c
		}
	}
	return nil
}

func hashRows(seed maphash.Seed, r *column.Rows) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	b := make([]byte, 0, 8*(2+2*r.Len()))
	b = binary.LittleEndian.AppendUint64(b, uint64(r.Mask)<<8|uint64(r.Mode))
	for i := range r.Len() {
		b = binary.LittleEndian.AppendUint64(b, uint64(r.Time[i]))
		b = binary.LittleEndian.AppendUint64(b, uint64(r.Arrival[i]))
	}
	_, _ = h.Write(b)
	return h.Sum64()
}

func equalRows(a, b *column.Rows) bool {
	if a.Mask != b.Mask || a.Mode != b.Mode || !slices.Equal(a.Time, b.Time) || !slices.Equal(a.Arrival, b.Arrival) || !slices.Equal(a.Seq, b.Seq) || !slices.Equal(a.Source, b.Source) {
		return false
	}
	for axis := range column.NumAxes {
		if !slices.Equal(a.Axes[axis], b.Axes[axis]) {
			return false
		}
	}
	return true
}

// bundle is series that are in the same classes.
type bundle struct {
	series  []uint32
	classes []*class
	ends    []int // of the classes, in rows one behind the other
}

// bundles groups series by the classes of one shape and source that they have.
func (b *builder) bundles() []bundle {
	type kind struct {
		shape  column.Shape
		source int64
		strand int
	}
	kinds := map[kind]int{}
	members := map[uint32]map[int][]int{} // series → kind → classes
	var order []uint32
	for n, c := range b.classes {
		k := kind{column.Shape{Mask: c.rows.Mask, Mode: c.rows.Mode}, c.source, c.strand}
		if _, ok := kinds[k]; !ok {
			kinds[k] = len(kinds)
		}
		for id := range c.at {
			if members[id] == nil {
				members[id] = map[int][]int{}
				order = append(order, id)
			}
			members[id][kinds[k]] = append(members[id][kinds[k]], n)
		}
	}
	slices.Sort(order)
	at := map[string]int{}
	var out []bundle
	for _, id := range order {
		for k := range len(kinds) {
			if list := members[id][k]; list != nil {
				out = b.join(out, at, id, list)
			}
		}
	}
	return out
}

func (b *builder) join(out []bundle, at map[string]int, id uint32, list []int) []bundle {
	key := make([]byte, 0, 4*len(list))
	for _, n := range list {
		key = binary.LittleEndian.AppendUint32(key, uint32(n))
	}
	i, ok := at[string(key)]
	if !ok {
		i = len(out)
		at[string(key)] = i
		bu := bundle{}
		for _, n := range list {
			bu.classes = append(bu.classes, b.classes[n])
		}
		out = append(out, bu)
	}
	out[i].series = append(out[i].series, id)
	return out
}

// write puts every bundle into groups of at most maxGroupRows rows, and of about
// fullGroupBytes of texts and documents: a read takes a whole column.
func (b *builder) write() ([]Packed, error) {
	var out []Packed
	for _, bu := range b.bundles() {
		groups, err := b.writeBundle(&bu)
		if err != nil {
			return nil, err
		}
		out = append(out, groups...)
	}
	return out, nil
}

func (b *builder) writeBundle(bu *bundle) ([]Packed, error) {
	joined := bu.classes[0].rows
	if len(bu.classes) > 1 {
		joined = bu.joined()
	}
	order, n := sortedRows(joined), joined.Len()
	if b.once {
		order, n = bu.withoutRepeats(joined, order)
		order, n = bu.own(order, n)
		b.again += (bu.rows() - n) * len(bu.series)
	} else if order != nil && len(bu.classes) == 1 && bu.classes[0].alone {
		joined = arrivedAtOnce(joined, order)
	}
	var out []Packed
	pieces := max((n+maxGroupRows-1)/maxGroupRows, min(n, bu.documents()/fullGroupBytes))
	for i := range pieces {
		lo, hi := n*i/pieces, n*(i+1)/pieces
		part := joined.Slice(lo, hi)
		if order != nil {
			part = column.Rows{Mask: joined.Mask, Mode: joined.Mode}
			part.Add(joined, order[lo:hi])
		}
		g, err := b.writer.group(&part, bu.series, bu.columns(order, lo, hi), b.writers)
		if err != nil {
			return nil, err
		}
		out = append(out, g.pack())
	}
	return out, nil
}

// joined is the rows of all classes, one behind the other.
func (bu *bundle) joined() *column.Rows {
	out, n := &column.Rows{Mask: bu.classes[0].rows.Mask, Mode: bu.classes[0].rows.Mode}, 0
	for _, c := range bu.classes {
		n += c.rows.Len()
	}
	out.Grow(n)
	for _, c := range bu.classes {
		out.Add(c.rows, nil)
	}
	return out
}

// arrivedAtOnce gives the rows of a flush the least of their arrival numbers: which of them
// came first costs more than their times do, when these are in no order. No other row of
// their series arrived between them, so each stays behind the rows of earlier flushes and
// before those of later ones. Rows of one time keep theirs, which say what replaces what.
// Rows of other rules than by time stay as they are.
func arrivedAtOnce(rows *column.Rows, order []int32) *column.Rows {
	if rows.Mode != model.UniqueTime && rows.Mask != 0 {
		return rows
	}
	out := *rows
	out.Arrival = slices.Repeat([]int64{slices.Min(rows.Arrival)}, rows.Len())
	for i := 1; i < len(order); i++ {
		if a, b := order[i-1], order[i]; rows.Time[a] == rows.Time[b] {
			out.Arrival[a], out.Arrival[b] = rows.Arrival[a], rows.Arrival[b]
		}
	}
	return &out
}

// rows is how many the bundle has of its own.
func (bu *bundle) rows() (n int) {
	for _, c := range bu.classes {
		if !c.other {
			n += c.rows.Len()
		}
	}
	return n
}

// own leaves out of an order of n rows those of other segments.
func (bu *bundle) own(order []int32, n int) ([]int32, int) {
	if !slices.ContainsFunc(bu.classes, func(c *class) bool { return c.other }) {
		return order, n
	}
	out := make([]int32, 0, n)
	for i := range n {
		if c, _ := bu.classOf(at(order, i)); !c.other {
			out = append(out, int32(at(order, i)))
		}
	}
	return out, len(out)
}

// withoutRepeats leaves out of an order, nil for the rows as they are, each row that the
// next one says again with the same values; n is how many are left.
func (bu *bundle) withoutRepeats(rows *column.Rows, order []int32) (left []int32, n int) {
	n = rows.Len()
	for i := range n {
		again := i+1 < n && rows.Repeats(at(order, i), at(order, i+1)) && bu.equalValues(at(order, i), at(order, i+1))
		switch {
		case again && left == nil:
			left = column.UpTo(0, i)
			for k := range left {
				left[k] = int32(at(order, k))
			}
		case !again && left != nil:
			left = append(left, int32(at(order, i)))
		}
	}
	if left == nil {
		return order, n
	}
	return left, len(left)
}

// equalValues compares two of the joined rows in every column, to the bit.
func (bu *bundle) equalValues(i, j int) bool {
	c, i := bu.classOf(i)
	d, j := bu.classOf(j)
	return !slices.ContainsFunc(bu.series, func(id uint32) bool {
		v, w := c.at[id], d.at[id]
		return !column.EqualAt(&v, i, &w, j)
	})
}

// classOf finds one of the joined rows.
func (bu *bundle) classOf(row int) (*class, int) {
	if bu.ends == nil {
		end := 0
		for _, c := range bu.classes {
			end += c.rows.Len()
			bu.ends = append(bu.ends, end)
		}
	}
	i := sort.SearchInts(bu.ends, row+1)
	return bu.classes[i], row - bu.ends[i] + bu.classes[i].rows.Len()
}

// documents is the bytes of the column that has most of texts or documents.
func (bu *bundle) documents() (most int) {
	for _, id := range bu.series {
		n := 0
		for _, c := range bu.classes {
			v := c.at[id]
			for _, doc := range v.Docs {
				n += len(doc)
			}
		}
		most = max(most, n)
	}
	return most
}

// columns are the values of the rows lo to hi of an order, of the rows as they
// are when it is nil.
func (bu *bundle) columns(order []int32, lo, hi int) []column.Values {
	out, stretches := make([]column.Values, len(bu.series)), bu.stretches(order, lo, hi)
	for i, id := range bu.series {
		out[i].Kind = bu.classes[0].at[id].Kind
		for _, s := range stretches {
			values := s.of.at[id]
			if values = values.Slice(s.lo, s.hi); len(stretches) == 1 {
				out[i] = values
			} else {
				out[i].Add(&values, nil)
			}
		}
	}
	return out
}

// stretch is rows of a class that lie one behind the other.
type stretch struct {
	of     *class
	lo, hi int
}

func (bu *bundle) stretches(order []int32, lo, hi int) (out []stretch) {
	for i := lo; i < hi; {
		c, row := bu.classOf(at(order, i))
		rows := 1
		if order == nil { // then the rest of the class follows
			rows = min(hi-i, c.rows.Len()-row)
		}
		if n := len(out); n > 0 && out[n-1].of == c && out[n-1].hi == row {
			out[n-1].hi += rows
		} else {
			out = append(out, stretch{c, row, row + rows})
		}
		i += rows
	}
	return out
}

// at is a place of an order, nil for the rows as they are.
func at(order []int32, i int) int {
	if order == nil {
		return i
	}
	return int(order[i])
}

// sortedRows is the order in which rows are stored, nil when they are in it.
func sortedRows(r *column.Rows) []int32 {
	for i := 1; i < r.Len(); i++ {
		if r.CompareStored(i-1, i) > 0 {
			order := column.UpTo(0, r.Len())
			slices.SortStableFunc(order, func(a, b int32) int { return r.CompareStored(int(a), int(b)) })
			return order
		}
	}
	return nil
}
