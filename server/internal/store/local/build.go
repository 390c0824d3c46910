package local

import (
	"encoding/binary"
	"hash/maphash"
	"slices"
)

// part is rows with columns on their way into a segment.
type part struct {
	rows   *rows
	series []uint32
	cols   []values
}

// manyRows is from where on the rows of a writer get groups of their own: their
// keys then rise, and the group's summary can be used as it is.
const manyRows = 64

// class is parts with the same rows: their columns share them.
type class struct {
	rows   *rows
	at     map[uint32]values // by series
	source int64             // -1 for several or few rows
}

// builder joins parts into the fewest groups: series that have the same rows
// share a group, rows of one shape are joined and sorted.
type builder struct {
	writer  *segmentWriter
	lineage *lineage
	classes []*class
}

func (b *builder) add(parts []part) {
	seed := maphash.MakeSeed()
	byHash := map[uint64][]*class{}
	for _, p := range parts {
		sum := hashRows(seed, p.rows)
		c := b.sameRows(byHash[sum], p)
		if c == nil {
			c = &class{rows: p.rows, at: map[uint32]values{}, source: soleSource(p.rows)}
			byHash[sum] = append(byHash[sum], c)
			b.classes = append(b.classes, c)
		}
		for i, id := range p.series {
			c.at[id] = p.cols[i]
		}
	}
}

func soleSource(r *rows) int64 {
	if r.len() < manyRows || slices.ContainsFunc(r.src, func(s uint32) bool { return s != r.src[0] }) {
		return -1
	}
	return int64(r.src[0])
}

// sameRows finds a class with the rows of p and none of its series.
func (b *builder) sameRows(list []*class, p part) *class {
	for _, c := range list {
		fresh := !slices.ContainsFunc(p.series, func(id uint32) bool { _, taken := c.at[id]; return taken })
		if fresh && equalRows(c.rows, p.rows) {
			return c
		}
	}
	return nil
}

func hashRows(seed maphash.Seed, r *rows) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	b := make([]byte, 0, 8*(2+2*r.len()))
	b = binary.LittleEndian.AppendUint64(b, uint64(r.mask)<<8|uint64(r.mode))
	for i := range r.len() {
		b = binary.LittleEndian.AppendUint64(b, uint64(r.time[i]))
		b = binary.LittleEndian.AppendUint64(b, uint64(r.ord[i]))
	}
	_, _ = h.Write(b)
	return h.Sum64()
}

func equalRows(a, b *rows) bool {
	if a.mask != b.mask || a.mode != b.mode || !slices.Equal(a.time, b.time) || !slices.Equal(a.ord, b.ord) || !slices.Equal(a.seq, b.seq) || !slices.Equal(a.src, b.src) {
		return false
	}
	for axis := range numAxes {
		if !slices.Equal(a.axes[axis], b.axes[axis]) {
			return false
		}
	}
	return true
}

// bundle is series that are in the same classes.
type bundle struct {
	series  []uint32
	classes []*class
}

// bundles groups series by the classes of one shape and source that they have.
func (b *builder) bundles() []bundle {
	type kind struct {
		shape  shape
		source int64
	}
	kinds := map[kind]int{}
	members := map[uint32]map[int][]int{} // series → kind → classes
	var order []uint32
	for n, c := range b.classes {
		k := kind{shape{c.rows.mask, c.rows.mode}, c.source}
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

// write puts every bundle into groups of at most maxGroupRows rows.
func (b *builder) write() ([]*segmentGroup, error) {
	var out []*segmentGroup
	for _, bu := range b.bundles() {
		groups, err := b.writeBundle(&bu)
		if err != nil {
			return nil, err
		}
		out = append(out, groups...)
	}
	return out, nil
}

func (b *builder) writeBundle(bu *bundle) ([]*segmentGroup, error) {
	joined := bu.classes[0].rows
	if len(bu.classes) > 1 {
		joined = &rows{mask: joined.mask, mode: joined.mode}
		for _, c := range bu.classes {
			joined.add(c.rows, nil)
		}
	}
	order := sortedRows(joined)
	var out []*segmentGroup
	pieces := (joined.len() + maxGroupRows - 1) / maxGroupRows
	for i := range pieces {
		lo, hi := joined.len()*i/pieces, joined.len()*(i+1)/pieces
		part := joined.slice(lo, hi)
		if order != nil {
			part = rows{mask: joined.mask, mode: joined.mode}
			part.add(joined, order[lo:hi])
		}
		g, err := b.writer.group(&part, bu.series, bu.columns(order, lo, hi), b.lineage)
		if err != nil {
			return nil, err
		}
		out = append(out, g)
	}
	return out, nil
}

// columns are the values of the rows lo to hi of an order, of the rows as they
// are when it is nil.
func (bu *bundle) columns(order []int32, lo, hi int) []values {
	out := make([]values, len(bu.series))
	for i, id := range bu.series {
		joined := values{kind: bu.classes[0].at[id].kind}
		if len(bu.classes) == 1 {
			joined = bu.classes[0].at[id]
		} else {
			for _, c := range bu.classes {
				v := c.at[id]
				joined.add(&v, nil)
			}
		}
		if order == nil {
			out[i] = joined.slice(lo, hi)
			continue
		}
		out[i].kind = joined.kind
		out[i].add(&joined, order[lo:hi])
	}
	return out
}

// sortedRows is the order in which rows are stored, nil when they are in it.
func sortedRows(r *rows) []int32 {
	for i := 1; i < r.len(); i++ {
		if r.compareStored(i-1, i) > 0 {
			order := upTo(0, r.len())
			slices.SortStableFunc(order, func(a, b int32) int { return r.compareStored(int(a), int(b)) })
			return order
		}
	}
	return nil
}
