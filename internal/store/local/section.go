package local

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"

	"github.com/kymogram/kymogram/internal/codec"
	"github.com/kymogram/kymogram/internal/model"
)

// section is what a segment says of a run: the state that its records made and
// the row groups in the file. A section can be read without any other file.
type section struct {
	run      model.RunID
	deleted  bool
	flushed  uint64 // records up to this one are in this segment or an earlier one
	nextOrd  int64
	attempts []model.Attempt
	writers  []placedWriter
	sources  []placedSource
	series   []seriesDef
	starts   []startDef
	groups   []*segmentGroup
}

type placedWriter struct {
	place uint32
	writer
}

type placedSource struct {
	place uint32
	source
}

func (s *section) encode(enc *codec.Encoder) []byte {
	e := &encoder{}
	e.id(s.run)
	e.flag(s.deleted)
	e.uint(s.flushed)
	e.int(s.nextOrd)
	e.uint(uint64(len(s.attempts)))
	for _, a := range s.attempts {
		e.attemptBody(a)
	}
	e.uint(uint64(len(s.writers)))
	for i := range s.writers {
		e.placedWriter(&s.writers[i])
	}
	e.uint(uint64(len(s.sources)))
	for _, p := range s.sources {
		e.uint(uint64(p.place))
		e.uint(uint64(p.writer))
		e.uint(uint64(p.attempt))
	}
	e.uint(uint64(len(s.series)))
	for _, def := range s.series {
		e.uint(uint64(def.id))
		e.u8(byte(def.kind))
		e.string(def.text)
	}
	e.uint(uint64(len(s.starts)))
	for _, def := range s.starts {
		e.start(def)
	}
	e.uint(uint64(len(s.groups)))
	for _, g := range s.groups {
		e.groupIndex(enc, g)
	}
	return e.b
}

func (e *encoder) flag(v bool) {
	if v {
		e.u8(1)
	} else {
		e.u8(0)
	}
}

func (e *encoder) placedWriter(w *placedWriter) {
	e.uint(uint64(w.place))
	e.id(w.id)
	e.uint(uint64(w.attempt))
	e.optional(w.logger)
	e.uint(w.mark)
	e.uint(w.lsn)
	e.uint(w.refused)
	e.skipped(w.skipped)
}

func decodeSection(d *decoder, seg *segment) (*section, error) {
	s := &section{run: d.id(), deleted: d.u8() == 1, flushed: d.uint(), nextOrd: d.int()}
	for range d.count(4) {
		s.attempts = append(s.attempts, d.attemptBody())
	}
	for range d.count(20) {
		s.writers = append(s.writers, placedWriter{uint32(d.uint()), writer{id: d.id(), attempt: uint32(d.uint()), logger: d.optional(), mark: d.uint(), lsn: d.uint(), refused: d.uint(), skipped: d.skipped()}})
	}
	for range d.count(3) {
		s.sources = append(s.sources, placedSource{uint32(d.uint()), source{uint32(d.uint()), uint32(d.uint())}})
	}
	for range d.count(3) {
		s.series = append(s.series, seriesDef{uint32(d.uint()), model.Kind(d.u8()), d.string()})
	}
	for range d.count(4) {
		s.starts = append(s.starts, d.start())
	}
	dec := seg.engine.decoder()
	defer seg.engine.decoders.Put(dec)
	for range d.count(8) {
		g := d.groupIndex(dec, seg)
		if d.err != nil {
			break
		}
		s.groups = append(s.groups, g)
	}
	return s, d.err
}

func (e *encoder) extent(x *extent) {
	e.uint(uint64(x.n))
	e.uint(uint64(x.mask))
	e.u8(byte(x.mode))
	for a := range numAxes {
		if x.mask.has(a) {
			e.int(x.lo[a])
			e.uint(uint64(x.hi[a] - x.lo[a]))
		}
	}
	e.int(x.tlo)
	e.uint(uint64(x.thi - x.tlo))
	e.uint(uint64(len(x.srcs)))
	for _, s := range x.srcs {
		e.uint(uint64(s))
	}
	e.flag(x.distinct)
	e.uint(uint64(x.last))
	e.int(x.lastTime)
	e.uint(uint64(x.lastSrc))
	e.uint(x.lastSeq)
	e.int(x.lastOrd)
}

func (d *decoder) extent() extent {
	x := extent{n: int(d.uint()), mask: axisSet(d.uint()), mode: model.Uniqueness(d.u8())}
	if x.n <= 0 || x.n > maxGroupRows || x.mask >= 1<<numAxes {
		d.fail()
		return x
	}
	for a := range numAxes {
		if x.mask.has(a) {
			x.lo[a] = d.int()
			x.hi[a] = x.lo[a] + int64(d.uint())
		}
	}
	x.tlo = d.int()
	x.thi = x.tlo + int64(d.uint())
	for range d.count(1) {
		x.srcs = append(x.srcs, uint32(d.uint()))
	}
	x.distinct, x.last, x.lastTime, x.lastSrc, x.lastSeq, x.lastOrd = d.u8() == 1, int32(d.uint()), d.int(), uint32(d.uint()), d.uint(), d.int()
	if len(x.srcs) == 0 || int(x.last) >= x.n || x.last < 0 {
		d.fail()
	}
	return x
}

func (e *encoder) groupIndex(enc *codec.Encoder, g *segmentGroup) {
	e.extent(&g.ext)
	e.ref(g.shared)
	e.ref(g.blocks)
	e.uint(uint64(len(g.cols)))
	offs, lens, ids := make([]int64, len(g.cols)), make([]int64, len(g.cols)), make([]int64, len(g.cols))
	for i := range g.cols {
		offs[i], lens[i], ids[i] = g.cols[i].ref.off, int64(g.cols[i].ref.len), int64(g.series[i])
		e.u8(byte(g.cols[i].kind))
		e.b = binary.LittleEndian.AppendUint32(e.b, g.cols[i].ref.crc)
	}
	for lo := 0; lo < len(ids); lo += codec.MaxValues {
		hi := min(lo+codec.MaxValues, len(ids))
		e.bytes(enc.AppendInts(nil, ids[lo:hi]))
		e.bytes(enc.AppendInts(nil, lens[lo:hi]))
		e.int(offs[lo])
	}
	e.aggregates(enc, g)
}

// aggregates are stored by column, numeric series only.
func (e *encoder) aggregates(enc *codec.Encoder, g *segmentGroup) {
	var sums []*aggregate
	for i := range g.cols {
		if numeric(g.cols[i].kind) {
			sums = append(sums, &g.cols[i].sum)
		}
	}
	for part := range slices.Chunk(sums, codec.MaxValues) {
		e.summaries(enc, part)
		e.bytes(enc.AppendFloats(nil, collect(part, func(a *aggregate) float64 { return math.Float64frombits(a.first) })))
		e.bytes(enc.AppendFloats(nil, collect(part, func(a *aggregate) float64 { return math.Float64frombits(a.last) })))
	}
}

func (e *encoder) summaries(enc *codec.Encoder, part []*aggregate) {
	for _, get := range []func(*aggregate) float64{func(a *aggregate) float64 { return a.min }, func(a *aggregate) float64 { return a.max }, func(a *aggregate) float64 { return a.sum }} {
		e.bytes(enc.AppendFloats(nil, collect(part, get)))
	}
	for _, get := range []func(*aggregate) int64{func(a *aggregate) int64 { return int64(a.count) }, func(a *aggregate) int64 { return int64(a.nan) }, func(a *aggregate) int64 { return int64(a.posInf) }, func(a *aggregate) int64 { return int64(a.negInf) }} {
		e.bytes(enc.AppendInts(nil, collect(part, get)))
	}
}

func collect[T any](part []*aggregate, get func(*aggregate) T) []T {
	out := make([]T, len(part))
	for i, a := range part {
		out[i] = get(a)
	}
	return out
}

func (d *decoder) groupIndex(dec *codec.Decoder, seg *segment) *segmentGroup {
	g := &segmentGroup{segment: seg, ext: d.extent(), shared: d.ref(), blocks: d.ref()}
	n := d.count(5)
	g.cols, g.series = make([]columnMeta, n), make([]uint32, n)
	for i := range g.cols {
		g.cols[i].kind = model.Kind(d.u8())
		if b := d.take(4); b != nil {
			g.cols[i].ref.crc = binary.LittleEndian.Uint32(b)
		}
	}
	for lo := 0; lo < n && d.err == nil; lo += codec.MaxValues {
		hi := min(lo+codec.MaxValues, n)
		ids, lens, off := d.ints(dec, hi-lo), d.ints(dec, hi-lo), d.int()
		for i := lo; i < hi && d.err == nil; i++ {
			g.series[i] = uint32(ids[i-lo])
			g.cols[i].ref.off, g.cols[i].ref.len = off, uint32(lens[i-lo])
			off += lens[i-lo]
		}
	}
	d.aggregates(dec, g)
	return g
}

func (d *decoder) ints(dec *codec.Decoder, n int) []int64 {
	vs, err := dec.Ints(d.bytes(), n)
	if err != nil || len(vs) != n {
		d.fail()
		return make([]int64, n)
	}
	return vs
}

func (d *decoder) floats(dec *codec.Decoder, n int) []float64 {
	vs, err := dec.Floats(d.bytes(), n)
	if err != nil || len(vs) != n {
		d.fail()
		return make([]float64, n)
	}
	return vs
}

func (d *decoder) aggregates(dec *codec.Decoder, g *segmentGroup) {
	var sums []*aggregate
	for i := range g.cols {
		if numeric(g.cols[i].kind) {
			sums = append(sums, &g.cols[i].sum)
		}
	}
	for part := range slices.Chunk(sums, codec.MaxValues) {
		d.summaries(dec, part)
		first, last := d.floats(dec, len(part)), d.floats(dec, len(part))
		for i, a := range part {
			a.first, a.last = math.Float64bits(first[i]), math.Float64bits(last[i])
		}
	}
}

func (d *decoder) summaries(dec *codec.Decoder, part []*aggregate) {
	lo, hi, sum := d.floats(dec, len(part)), d.floats(dec, len(part)), d.floats(dec, len(part))
	count, nan, pos, neg := d.ints(dec, len(part)), d.ints(dec, len(part)), d.ints(dec, len(part)), d.ints(dec, len(part))
	for i, a := range part {
		*a = aggregate{min: lo[i], max: hi[i], sum: sum[i], count: uint64(count[i]), nan: uint64(nan[i]), posInf: uint64(pos[i]), negInf: uint64(neg[i])}
	}
}

// merge takes in what another segment says of the same run.
func (s *section) merge(o *section) {
	s.deleted = s.deleted || o.deleted
	s.flushed, s.nextOrd = max(s.flushed, o.flushed), max(s.nextOrd, o.nextOrd)
	tmp := &run{attempts: s.attempts}
	for _, a := range o.attempts {
		tmp.putAttempt(a)
	}
	s.attempts = tmp.attempts
	s.writers = mergeBy(s.writers, o.writers, func(a, b placedWriter) int {
		return cmp.Or(cmp.Compare(a.place, b.place), cmp.Compare(b.lsn, a.lsn))
	}, func(a, b placedWriter) bool { return a.place == b.place })
	s.sources = mergeBy(s.sources, o.sources, func(a, b placedSource) int { return cmp.Compare(a.place, b.place) }, func(a, b placedSource) bool { return a.place == b.place })
	s.series = mergeBy(s.series, o.series, func(a, b seriesDef) int { return cmp.Compare(a.id, b.id) }, func(a, b seriesDef) bool { return a.id == b.id })
	s.starts = append(s.starts, o.starts...)
}

// mergeBy joins lists and keeps the first of equal items.
func mergeBy[T any](a, b []T, order func(T, T) int, same func(T, T) bool) []T {
	out := append(slices.Clone(a), b...)
	slices.SortStableFunc(out, order)
	return slices.CompactFunc(out, same)
}

// absorb takes a section into the run at start. Groups are attached later, when
// it is known which runs are deleted.
func (r *run) absorb(s *section) bool {
	ok := true
	r.deleted = r.deleted || s.deleted
	r.flushed, r.nextOrd = max(r.flushed, s.flushed), max(r.nextOrd, s.nextOrd)
	r.lastLSN = max(r.lastLSN, s.flushed)
	for _, a := range s.attempts {
		r.putAttempt(a)
	}
	for _, w := range s.writers {
		if !r.setWriter(w.place, w.id, w.attempt) {
			ok = false
		} else if w.lsn >= r.writers[w.place].lsn {
			r.writers[w.place] = w.writer
		}
	}
	for _, p := range s.sources {
		ok = r.setSource(p.place, p.source) && ok
	}
	if s.deleted {
		return ok
	}
	for _, def := range s.series {
		ok = r.setSeries(def) && ok
	}
	for _, def := range s.starts {
		r.starts[def.key] = def.start
	}
	return ok
}

// attach makes a group readable; false when it names what is not defined.
func (r *run) attach(g *segmentGroup) bool {
	for i, id := range g.series {
		if int(id) >= len(r.series) || r.series[id] == nil || r.series[id].kind != g.cols[i].kind {
			return false
		}
	}
	for _, s := range append(slices.Clone(g.ext.srcs), g.ext.lastSrc) {
		if int(s) >= len(r.sources) {
			return false
		}
	}
	for i, id := range g.series {
		s := r.series[id]
		s.chunks = append(s.chunks, chunk{g, i})
		s.mask |= g.ext.mask
		s.version = max(s.version, 1)
	}
	return true
}
