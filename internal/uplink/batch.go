package uplink

import (
	"encoding/binary"
	"math"

	kymogramv1 "github.com/kymogram/kymogram/gen/kymogram/v1"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/spool"
	"github.com/kymogram/kymogram/internal/wire"
)

// builder turns consecutive records into one batch by column. Records with the
// same series and the same shape of axes share a row group, wherever they lie in
// the batch: rows carry their sequence, so their order is free.
type builder struct {
	protocol uint32
	defined  map[uint32]bool // series that the stream knows

	batch   *kymogramv1.Batch
	updates []model.Update
	size    int // estimate of the encoded bytes
	tally   spool.Tally
	closes  bool
	// definitions holds for a batch of definitions alone.
	definitions bool
	singles     map[uint64]*kymogramv1.RowGroup
	blocks      map[string]*kymogramv1.RowGroup
	key         []byte
}

func newBuilder(protocol uint32) *builder {
	return &builder{protocol: protocol, defined: map[uint32]bool{}}
}

// reset begins the next batch.
func (b *builder) reset() {
	b.batch, b.updates, b.size, b.tally, b.closes, b.definitions = nil, nil, 0, spool.Tally{}, false, false
}

func (b *builder) empty() bool { return b.batch == nil }

// cover makes the batch reach from first to last.
func (b *builder) cover(first, last uint64) {
	if b.batch == nil {
		b.batch = &kymogramv1.Batch{First: first}
		b.singles, b.blocks = map[uint64]*kymogramv1.RowGroup{}, map[string]*kymogramv1.RowGroup{}
	}
	b.batch.Last = last
}

func (b *builder) skip(s model.Skipped) {
	b.cover(orFirst(b.batch, s.First), s.Last)
	if n := len(b.batch.Skipped); n > 0 {
		if last := b.batch.Skipped[n-1]; last.Last+1 == s.First && last.Reason == s.Reason {
			last.Last, last.Points = s.Last, last.Points+s.Points
			return
		}
	}
	b.batch.Skipped = append(b.batch.Skipped, &kymogramv1.Skipped{First: s.First, Last: s.Last, Reason: s.Reason, Points: s.Points})
	b.size += 32
}

// add takes a record whose series the tail knows.
func (b *builder) add(r *spool.Record, series map[uint32]spool.Definition) {
	b.cover(orFirst(b.batch, r.Seq), r.Seq)
	b.tally.Add(r.Tally())
	switch r.Type {
	case spool.TypePoint, spool.TypeDocument:
		b.define(r.Series, series)
		b.addSingle(r)
	case spool.TypeBlock:
		for _, id := range r.Block.Series {
			b.define(id, series)
		}
		b.addBlock(r)
	case spool.TypeUpdate:
		b.addUpdates(r)
	}
}

func orFirst(batch *kymogramv1.Batch, seq uint64) uint64 {
	if batch != nil {
		return batch.First
	}
	return seq
}

func (b *builder) addUpdates(r *spool.Record) {
	for _, u := range r.Updates {
		u.Seq = r.Seq
		b.updates = append(b.updates, u)
		b.closes = b.closes || u.Op == model.OpClose
		b.size += 64 + len(u.Path) + len(u.Text) + len(u.Env) + sizeOf(u.Tags)
		if u.Value != nil {
			b.size += len(u.Value.Str) + sizeOf(u.Value.Set)
		}
	}
}

// sizeOf is what texts take in a message.
func sizeOf(texts []string) int {
	size := 0
	for _, text := range texts {
		size += 8 + len(text)
	}
	return size
}

func (b *builder) define(id uint32, series map[uint32]spool.Definition) {
	if b.defined[id] {
		return
	}
	d := series[id]
	b.defined[id] = true
	b.batch.Series = append(b.batch.Series, &kymogramv1.SeriesDefinition{Id: id, Metric: d.Metric, Scale: d.Scale, Labels: d.Labels, Kind: uint32(d.Kind), UniqueTime: d.UniqueTime})
	b.size += definitionSize(&d)
}

// definitionSize is what a definition takes in a message.
func definitionSize(d *spool.Definition) int {
	size := 16 + len(d.Metric) + len(d.Scale)
	for k, v := range d.Labels {
		size += 8 + len(k) + len(v)
	}
	return size
}

// undefined are the series of a block that the stream does not know, and their size.
func (b *builder) undefined(r *spool.Record, series map[uint32]spool.Definition) (ids []uint32, size int) {
	if r.Type != spool.TypeBlock {
		return nil, 0
	}
	for _, id := range r.Block.Series {
		if !b.defined[id] {
			d := series[id]
			ids, size = append(ids, id), size+definitionSize(&d)
		}
	}
	return ids, size
}

// defineOnly makes a batch of definitions alone, up to a size. The server has its record
// already, so it takes nothing but them.
func (b *builder) defineOnly(seq uint64, ids []uint32, series map[uint32]spool.Definition, most int) (rest []uint32) {
	b.cover(seq, seq)
	b.definitions = true
	for len(ids) > 0 && b.size < most {
		b.define(ids[0], series)
		ids = ids[1:]
	}
	return ids
}

// addSingle adds a point or a document.
func (b *builder) addSingle(r *spool.Record) {
	key := uint64(r.Series)<<8 | uint64(r.Flags&(spool.FlagStep|spool.FlagRelative))
	g := b.singles[key]
	if g == nil {
		g = &kymogramv1.RowGroup{Columns: []*kymogramv1.Column{{Series: r.Series}}}
		if r.Flags&spool.FlagStep != 0 {
			g.Axes = []*kymogramv1.AxisColumn{{Axis: spool.AxisStep, Relative: r.Flags&spool.FlagRelative != 0}}
		}
		b.singles[key] = g
		b.batch.Groups = append(b.batch.Groups, g)
		b.size += 32
	}
	if len(g.Axes) > 0 {
		g.Axes[0].Values = append(g.Axes[0].Values, r.Step)
	}
	b.row(g, r.TimeNs, r.Seq)
	if r.Type == spool.TypePoint {
		appendNumber(g.Columns[0], r.Kind, r.Bits)
		b.size += 28
		return
	}
	appendDocument(g.Columns[0], r.Kind, r.Document)
	b.size += 28 + len(r.Document)
}

func (b *builder) row(g *kymogramv1.RowGroup, timeNs int64, seq uint64) {
	g.TimeNs = append(g.TimeNs, timeNs)
	g.Seq = append(g.Seq, uint32(seq-b.batch.First))
}

func appendNumber(c *kymogramv1.Column, kind model.Kind, bits uint64) {
	if kind == model.KindInt {
		c.Ints = append(c.Ints, int64(bits))
		return
	}
	c.Floats = append(c.Floats, math.Float64frombits(bits))
}

// appendDocument copies: the record's bytes are the tail's.
func appendDocument(c *kymogramv1.Column, kind model.Kind, doc []byte) {
	if kind == model.KindText {
		c.Texts = append(c.Texts, string(doc))
		return
	}
	c.Documents = append(c.Documents, append([]byte(nil), doc...))
}

// addBlock adds the rows of a block. Series whose own columns differ cannot
// share a row group; those with equal ones do.
func (b *builder) addBlock(r *spool.Record) {
	block := &r.Block
	if !perSeries(block) {
		b.addRows(r, allOf(len(block.Series)))
		return
	}
	var order []string
	parts := map[string][]int{}
	for s := range block.Series {
		key := string(b.columnsOf(block, s))
		if _, ok := parts[key]; !ok {
			order = append(order, key)
		}
		parts[key] = append(parts[key], s)
	}
	for _, key := range order {
		b.addRows(r, parts[key])
	}
}

func perSeries(b *spool.Block) bool {
	if b.Time.Mode&spool.ModePerSeries != 0 {
		return true
	}
	for _, a := range b.Axes {
		if a.Column.Mode&spool.ModePerSeries != 0 {
			return true
		}
	}
	return false
}

func allOf(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// columnsOf spells out the time and the axes of one series of a block.
func (b *builder) columnsOf(block *spool.Block, s int) []byte {
	b.key = b.key[:0]
	for row := range block.Rows {
		b.key = binary.LittleEndian.AppendUint64(b.key, uint64(block.Time.At(s, row, block.Rows)))
		for _, a := range block.Axes {
			b.key = binary.LittleEndian.AppendUint64(b.key, uint64(a.Column.At(s, row, block.Rows)))
		}
	}
	return b.key
}

// addRows adds all rows of the series at the given places, which share their
// axes.
func (b *builder) addRows(r *spool.Record, places []int) {
	block := &r.Block
	g := b.group(block, places)
	for row := range block.Rows {
		b.row(g, block.Time.At(places[0], row, block.Rows), r.Seq)
		for i, a := range block.Axes {
			g.Axes[i].Values = append(g.Axes[i].Values, a.Column.At(places[0], row, block.Rows))
		}
	}
	for i, s := range places {
		for _, bits := range block.Values[s*block.Rows : (s+1)*block.Rows] {
			appendNumber(g.Columns[i], block.Kind, bits)
		}
	}
	b.size += block.Rows * (12 + 8*len(block.Axes) + 8*len(places))
}

// group finds or makes the row group of a set of series and a shape of axes.
func (b *builder) group(block *spool.Block, places []int) *kymogramv1.RowGroup {
	b.key = append(b.key[:0], byte(len(block.Axes)))
	for _, a := range block.Axes {
		b.key = append(b.key, a.Axis, a.Column.Mode&spool.ModeRelative)
	}
	for _, s := range places {
		b.key = binary.LittleEndian.AppendUint32(b.key, block.Series[s])
	}
	if g, ok := b.blocks[string(b.key)]; ok {
		return g
	}
	g := &kymogramv1.RowGroup{}
	for _, a := range block.Axes {
		g.Axes = append(g.Axes, &kymogramv1.AxisColumn{Axis: uint32(a.Axis), Relative: a.Column.Mode&spool.ModeRelative != 0})
	}
	for _, s := range places {
		g.Columns = append(g.Columns, &kymogramv1.Column{Series: block.Series[s]})
	}
	b.blocks[string(b.key)] = g
	b.batch.Groups = append(b.batch.Groups, g)
	b.size += 16 + 8*len(block.Axes) + 8*len(places)
	return g
}

// message finishes the batch.
func (b *builder) message() (*kymogramv1.Batch, error) {
	return b.batch, wire.PutUpdates(b.batch, b.updates, b.protocol)
}
