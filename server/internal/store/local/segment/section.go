package segment

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/kymogram/kymogram/internal/codec"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store/local/column"
	"github.com/kymogram/kymogram/server/internal/store/local/record"
)

// Section is what a segment says of a run: the state that its records made and
// the row groups in the file. A section can be read without any other file.
type Section struct {
	Head
	Series []record.Series
	Starts []record.Start
	Groups []Packed
	Others []Packed // of segments that a merge leaves as they are
}

// Bytes of an index that a series and a small group take, about.
const (
	seriesHint = 24
	groupHint  = 160
)

// encodeBody writes what is read when a run is used; nil when that is nothing.
func (s *Section) encodeBody(enc *codec.Encoder) []byte {
	if len(s.Series)+len(s.Starts)+len(s.Groups) == 0 {
		return nil
	}
	e := &encoder{}
	e.Buf = make([]byte, 0, seriesHint*len(s.Series)+groupHint*len(s.Groups)) // doubling would copy it
	e.Uint(uint64(len(s.Series)))
	for _, def := range s.Series {
		e.Uint(uint64(def.ID))
		e.U8(byte(def.Kind))
		e.Text(def.Text)
	}
	e.Uint(uint64(len(s.Starts)))
	for _, def := range s.Starts {
		e.Start(def)
	}
	e.Uint(uint64(len(s.Groups)))
	for _, g := range s.Groups {
		e.groupIndex(enc, g.Whole())
	}
	return e.Buf
}

// decodeBody reads what encodeBody wrote, in the version of the segment.
func (s *Section) decodeBody(d *decoder, seg *File, groups bool) error {
	s.Series = d.SeriesDefs()
	for range d.Count(4) {
		s.Starts = append(s.Starts, d.Start())
	}
	if !groups {
		return d.Err
	}
	dec := seg.files.decoder()
	defer seg.files.decoders.Put(dec)
	for range d.Count(8) {
		g := d.groupIndex(dec, seg)
		if d.Err != nil {
			break
		}
		s.Groups = append(s.Groups, g.pack())
	}
	return d.Err
}

// decodeSection1 reads the index of a run as segments of version 1 have it, head
// and body in one, and adds up what the head of version 2 says.
func decodeSection1(d *decoder, seg *File) (*Section, error) {
	s := &Section{Head: Head{Entry: Entry{Run: d.ID()}, Deleted: d.U8() == 1}}
	s.Flushed, s.NextOrd = d.Uint(), d.Int()
	d.writersAndSources(&s.Head)
	if err := s.decodeBody(d, seg, true); err != nil {
		return nil, err
	}
	s.count()
	return s, nil
}

// count adds up what the head says of the body.
func (s *Section) count() {
	for _, def := range s.Series {
		s.Made = max(s.Made, def.ID+1)
	}
	s.Points, s.Bytes, s.MinTime, s.MaxTime = 0, 0, 0, 0
	for _, p := range s.Groups {
		g := p.Whole()
		if s.Points == 0 {
			s.MinTime, s.MaxTime = g.Ext.MinTime, g.Ext.MaxTime
		}
		s.Points += g.Points()
		s.Bytes += g.Bytes()
		s.MinTime, s.MaxTime = min(s.MinTime, g.Ext.MinTime), max(s.MaxTime, g.Ext.MaxTime)
	}
}

func (e *encoder) extent(x *column.Extent) {
	e.Uint(uint64(x.Rows))
	e.Uint(uint64(x.Mask))
	e.U8(byte(x.Mode))
	for a := range column.NumAxes {
		if x.Mask.Has(a) {
			e.Int(x.Lo[a])
			e.Uint(uint64(x.Hi[a] - x.Lo[a]))
		}
	}
	e.Int(x.MinTime)
	e.Uint(uint64(x.MaxTime - x.MinTime))
	e.Uint(uint64(len(x.Sources)))
	for _, s := range x.Sources {
		e.Uint(uint64(s))
	}
	e.Flag(x.Distinct)
	e.Uint(uint64(x.Last))
	e.Int(x.LastTime)
	e.Uint(uint64(x.LastSource))
	e.Uint(x.LastSeq)
	e.Int(x.LastArrival)
}

func (d *decoder) extent() column.Extent {
	x := column.Extent{Rows: int(d.Uint()), Mask: column.AxisSet(d.Uint()), Mode: model.Uniqueness(d.U8())}
	if x.Rows <= 0 || x.Rows > maxGroupRows || x.Mask >= 1<<column.NumAxes {
		d.Fail()
		return x
	}
	for a := range column.NumAxes {
		if x.Mask.Has(a) {
			x.Lo[a] = d.Int()
			x.Hi[a] = x.Lo[a] + int64(d.Uint())
		}
	}
	x.MinTime = d.Int()
	x.MaxTime = x.MinTime + int64(d.Uint())
	for range d.Count(1) {
		x.Sources = append(x.Sources, uint32(d.Uint()))
	}
	x.Distinct, x.Last, x.LastTime, x.LastSource, x.LastSeq, x.LastArrival = d.U8() == 1, int32(d.Uint()), d.Int(), uint32(d.Uint()), d.Uint(), d.Int()
	if len(x.Sources) == 0 || int(x.Last) >= x.Rows || x.Last < 0 {
		d.Fail()
	}
	return x
}

func (e *encoder) groupIndex(enc *codec.Encoder, g *Group) {
	e.extent(&g.Ext)
	e.ref(g.shared)
	e.ref(g.blocks)
	e.Uint(uint64(len(g.Cols)))
	offs, lens, ids := make([]int64, len(g.Cols)), make([]int64, len(g.Cols)), make([]int64, len(g.Cols))
	for i := range g.Cols {
		offs[i], lens[i], ids[i] = g.Cols[i].ref.Off, int64(g.Cols[i].ref.Len), int64(g.Series[i])
		e.U8(byte(g.Cols[i].Kind))
		e.Buf = binary.LittleEndian.AppendUint32(e.Buf, g.Cols[i].ref.crc)
	}
	for lo := 0; lo < len(ids); lo += codec.MaxValues {
		hi := min(lo+codec.MaxValues, len(ids))
		e.Bytes(enc.AppendInts(nil, ids[lo:hi]))
		e.Bytes(enc.AppendInts(nil, lens[lo:hi]))
		e.Int(offs[lo])
	}
	e.aggregates(enc, g)
}

// aggregates are stored by column, numeric series only, those of float64 first.
func (e *encoder) aggregates(enc *codec.Encoder, g *Group) {
	for _, kind := range []model.Kind{model.KindFloat, model.KindInt} {
		for part := range slices.Chunk(g.summaries(kind), codec.MaxValues) {
			e.summaries(enc, kind, part)
			e.Bytes(enc.AppendFloats(nil, collect(part, func(a *column.Aggregate) float64 { return math.Float64frombits(a.First) })))
			e.Bytes(enc.AppendFloats(nil, collect(part, func(a *column.Aggregate) float64 { return math.Float64frombits(a.Last) })))
		}
	}
}

// summaries of the columns of a kind.
func (g *Group) summaries(kind model.Kind) (out []*column.Aggregate) {
	for i := range g.Cols {
		if g.Cols[i].Kind == kind {
			out = append(out, &g.Cols[i].sum)
		}
	}
	return out
}

// summaries writes columns: min and max (whole numbers for int64), sum, what
// the sum could not hold, and counts.
func (e *encoder) summaries(enc *codec.Encoder, kind model.Kind, part []*column.Aggregate) {
	if kind == model.KindInt {
		e.Bytes(enc.AppendInts(nil, collect(part, func(a *column.Aggregate) int64 { return a.Least })))
		e.Bytes(enc.AppendInts(nil, collect(part, func(a *column.Aggregate) int64 { return a.Most })))
	} else {
		e.Bytes(enc.AppendFloats(nil, collect(part, func(a *column.Aggregate) float64 { return a.Min })))
		e.Bytes(enc.AppendFloats(nil, collect(part, func(a *column.Aggregate) float64 { return a.Max })))
	}
	e.Bytes(enc.AppendFloats(nil, collect(part, func(a *column.Aggregate) float64 { return a.Sum })))
	huge := slices.ContainsFunc(part, func(a *column.Aggregate) bool { return a.Excess != 0 })
	e.Flag(huge)
	if huge {
		e.Bytes(enc.AppendFloats(nil, collect(part, func(a *column.Aggregate) float64 { return a.Excess })))
	}
	for _, get := range []func(*column.Aggregate) int64{func(a *column.Aggregate) int64 { return int64(a.Count) }, func(a *column.Aggregate) int64 { return int64(a.NaN) }, func(a *column.Aggregate) int64 { return int64(a.PosInf) }, func(a *column.Aggregate) int64 { return int64(a.NegInf) }} {
		e.Bytes(enc.AppendInts(nil, collect(part, get)))
	}
}

func collect[T any](part []*column.Aggregate, get func(*column.Aggregate) T) []T {
	out := make([]T, len(part))
	for i, a := range part {
		out[i] = get(a)
	}
	return out
}

func (d *decoder) groupIndex(dec *codec.Decoder, seg *File) *Group {
	g := &Group{segment: seg, Ext: d.extent(), shared: d.ref(), blocks: d.ref()}
	n := d.Count(5)
	g.Cols, g.Series = make([]ColumnMeta, n), make([]uint32, n)
	for i := range g.Cols {
		g.Cols[i].Kind = model.Kind(d.U8())
		if b := d.Take(4); b != nil {
			g.Cols[i].ref.crc = binary.LittleEndian.Uint32(b)
		}
	}
	for lo := 0; lo < n && d.Err == nil; lo += codec.MaxValues {
		hi := min(lo+codec.MaxValues, n)
		ids, lens, off := d.ints(dec, hi-lo), d.ints(dec, hi-lo), d.Int()
		for i := lo; i < hi && d.Err == nil; i++ {
			g.Series[i] = uint32(ids[i-lo])
			g.Cols[i].ref.Off, g.Cols[i].ref.Len = off, uint32(lens[i-lo])
			off += lens[i-lo]
		}
	}
	d.aggregates(dec, g)
	return g
}

func (d *decoder) ints(dec *codec.Decoder, n int) []int64 {
	vs, err := dec.Ints(d.Bytes(), n)
	if err != nil || len(vs) != n {
		d.Fail()
		return make([]int64, n)
	}
	return vs
}

func (d *decoder) floats(dec *codec.Decoder, n int) []float64 {
	vs, err := dec.Floats(d.Bytes(), n)
	if err != nil || len(vs) != n {
		d.Fail()
		return make([]float64, n)
	}
	return vs
}

func (d *decoder) aggregates(dec *codec.Decoder, g *Group) {
	if g.segment.version == 1 {
		d.aggregates1(dec, g)
		return
	}
	for _, kind := range []model.Kind{model.KindFloat, model.KindInt} {
		for part := range slices.Chunk(g.summaries(kind), codec.MaxValues) {
			d.summaries(dec, kind, part)
			d.ends(dec, part)
		}
	}
}

func (d *decoder) ends(dec *codec.Decoder, part []*column.Aggregate) {
	first, last := d.floats(dec, len(part)), d.floats(dec, len(part))
	for i, a := range part {
		a.First, a.Last = math.Float64bits(first[i]), math.Float64bits(last[i])
	}
}

func (d *decoder) summaries(dec *codec.Decoder, kind model.Kind, part []*column.Aggregate) {
	n := len(part)
	for _, a := range part {
		*a = column.EmptyAggregate()
	}
	if kind == model.KindInt {
		lo, hi := d.ints(dec, n), d.ints(dec, n)
		for i, a := range part {
			a.Least, a.Most = lo[i], hi[i]
		}
	} else {
		lo, hi := d.floats(dec, n), d.floats(dec, n)
		for i, a := range part {
			a.Min, a.Max = lo[i], hi[i]
		}
	}
	sum := d.floats(dec, n)
	if d.U8() == 1 {
		for i, v := range d.floats(dec, n) {
			part[i].Excess = v
		}
	}
	d.counts(dec, part, sum)
}

func (d *decoder) counts(dec *codec.Decoder, part []*column.Aggregate, sum []float64) {
	n := len(part)
	count, nan, pos, neg := d.ints(dec, n), d.ints(dec, n), d.ints(dec, n), d.ints(dec, n)
	for i, a := range part {
		a.Sum, a.Count, a.NaN, a.PosInf, a.NegInf = sum[i], uint64(count[i]), uint64(nan[i]), uint64(pos[i]), uint64(neg[i])
	}
}

// aggregates1 reads version 1: one list of all numeric columns, floats only.
func (d *decoder) aggregates1(dec *codec.Decoder, g *Group) {
	var sums []*column.Aggregate
	var kinds []model.Kind
	for i := range g.Cols {
		if column.Numeric(g.Cols[i].Kind) {
			sums, kinds = append(sums, &g.Cols[i].sum), append(kinds, g.Cols[i].Kind)
		}
	}
	for lo := 0; lo < len(sums); lo += codec.MaxValues {
		hi := min(lo+codec.MaxValues, len(sums))
		d.summaries1(dec, kinds[lo:hi], sums[lo:hi])
		d.ends(dec, sums[lo:hi])
	}
}

func (d *decoder) summaries1(dec *codec.Decoder, kinds []model.Kind, part []*column.Aggregate) {
	n := len(part)
	lo, hi, sum := d.floats(dec, n), d.floats(dec, n), d.floats(dec, n)
	for i, a := range part {
		*a = column.EmptyAggregate()
		a.Min, a.Max = lo[i], hi[i]
		if kinds[i] == model.KindInt {
			a.SetEnds1()
		}
	}
	d.counts(dec, part, sum)
}
