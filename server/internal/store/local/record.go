package local

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"math/bits"
	"slices"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store/local/column"
)

// recordType is the first byte of a WAL record.
type recordType byte

const (
	recBatch1   recordType = 1 // of folders of version 1: without the first sequence
	recAttempt  recordType = 2
	recWriter   recordType = 3
	recDelete   recordType = 4
	recReleased recordType = 5 // meta up to an LSN is durable elsewhere
	recBatch    recordType = 6
)

// record is a batch as it is stored: everything decided, so that replay needs
// no rule and gives the same state.
type record struct {
	run     model.RunID
	writer  model.WriterID
	attempt uint32
	writerN uint32 // place of the writer in the run
	sourceN uint32
	first   uint64 // 1 + the mark before; 0 for a foreign writer and when not known
	last    uint64 // new mark, 0 for a foreign writer
	nextOrd int64
	refused uint64
	skipped []model.Skipped
	series  []seriesDef
	starts  []startDef
	groups  []recordGroup
	updates []model.Update
	doc     []byte // the updates as they are stored
}

type seriesDef struct {
	id   uint32
	kind model.Kind
	text string
}

type startDef struct {
	key   startKey
	start int64
}

type recordGroup struct {
	rows   column.Rows // src is left out: it is the record's source
	series []uint32
	cols   []column.Values
}

func (r *record) points() (n uint64) {
	for i := range r.groups {
		n += r.groups[i].points()
	}
	return n
}

func (g *recordGroup) points() uint64 { return uint64(g.rows.Len() * len(g.cols)) }

// encoder appends little-endian and varint fields.
type encoder struct{ b []byte }

func (e *encoder) u8(v byte)       { e.b = append(e.b, v) }
func (e *encoder) uint(v uint64)   { e.b = binary.AppendUvarint(e.b, v) }
func (e *encoder) int(v int64)     { e.b = binary.AppendVarint(e.b, v) }
func (e *encoder) bytes(v []byte)  { e.uint(uint64(len(v))); e.b = append(e.b, v...) }
func (e *encoder) string(v string) { e.uint(uint64(len(v))); e.b = append(e.b, v...) }
func (e *encoder) id(v [16]byte)   { e.b = append(e.b, v[:]...) }

func appendDeltas[T int64 | uint64](e *encoder, vs []T) {
	prev := T(0)
	for _, v := range vs {
		e.int(int64(v - prev))
		prev = v
	}
}

var errShort = errors.New("record is cut short or damaged")

// decoder reads what encoder wrote; after the first error everything is zero.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) fail() {
	d.err, d.b = errShort, nil
}

func (d *decoder) take(n uint64) []byte {
	if n > uint64(len(d.b)) {
		d.fail()
		return nil
	}
	out := d.b[:n:n]
	d.b = d.b[n:]
	return out
}

func (d *decoder) u8() byte {
	if b := d.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) uint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) int() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) bytes() []byte  { return d.take(d.uint()) }
func (d *decoder) string() string { return string(d.bytes()) }

func (d *decoder) id() (out [16]byte) {
	copy(out[:], d.take(16))
	return out
}

// count reads a number of items that take at least size bytes each, so that a
// damaged count cannot make us allocate more than the record holds.
func (d *decoder) count(size int) int {
	n := d.uint()
	if n > uint64(len(d.b)/size) {
		d.fail()
		return 0
	}
	return int(n)
}

func decodeDeltas[T int64 | uint64](d *decoder, n int) []T {
	if n > len(d.b) {
		d.fail()
		return nil
	}
	out := make([]T, n)
	prev := T(0)
	for i := range out {
		prev += T(d.int())
		out[i] = prev
	}
	return out
}

func (e *encoder) batch(r *record) error {
	e.u8(byte(recBatch))
	e.uint(r.first)
	e.id(r.run)
	e.id(r.writer)
	e.uint(uint64(r.attempt))
	e.uint(uint64(r.writerN))
	e.uint(uint64(r.sourceN))
	e.uint(r.last)
	e.int(r.nextOrd)
	e.uint(r.refused)
	e.skipped(r.skipped)
	e.uint(uint64(len(r.series)))
	for _, s := range r.series {
		e.uint(uint64(s.id))
		e.u8(byte(s.kind))
		e.string(s.text)
	}
	e.uint(uint64(len(r.starts)))
	for _, s := range r.starts {
		e.start(s)
	}
	e.uint(uint64(len(r.groups)))
	for i := range r.groups {
		e.group(&r.groups[i])
	}
	if len(r.updates) > 0 {
		doc, err := json.Marshal(r.updates)
		if err != nil {
			return model.Errorf(model.CodeInvalid, "an update cannot be stored: %v", err)
		}
		r.doc = doc
	}
	e.bytes(r.doc)
	return nil
}

func (e *encoder) skipped(list []model.Skipped) {
	e.uint(uint64(len(list)))
	for _, s := range list {
		e.uint(s.First)
		e.uint(s.Last)
		e.string(s.Reason)
		e.uint(s.Points)
	}
}

func (d *decoder) skipped() []model.Skipped {
	var out []model.Skipped
	for range d.count(4) {
		out = append(out, model.Skipped{First: d.uint(), Last: d.uint(), Reason: d.string(), Points: d.uint()})
	}
	return out
}

func (e *encoder) start(s startDef) {
	e.uint(uint64(s.key.writer))
	e.uint(uint64(s.key.series))
	if s.key.episodic {
		e.u8(1)
		e.int(s.key.episode)
	} else {
		e.u8(0)
	}
	e.int(s.start)
}

func (d *decoder) start() startDef {
	s := startDef{key: startKey{writer: uint32(d.uint()), series: uint32(d.uint())}}
	if d.u8() == 1 {
		s.key.episodic, s.key.episode = true, d.int()
	}
	s.start = d.int()
	return s
}

func (e *encoder) group(g *recordGroup) {
	e.uint(uint64(g.rows.Mask))
	e.u8(byte(g.rows.Mode))
	e.uint(uint64(g.rows.Len()))
	for a := range column.NumAxes {
		if g.rows.Mask.Has(a) {
			appendDeltas(e, g.rows.Axes[a])
		}
	}
	appendDeltas(e, g.rows.Time)
	appendDeltas(e, g.rows.Seq)
	appendDeltas(e, g.rows.Arrival)
	e.uint(uint64(len(g.cols)))
	for i := range g.cols {
		e.uint(uint64(g.series[i]))
		e.column(&g.cols[i])
	}
}

func (e *encoder) column(v *column.Values) {
	e.u8(byte(v.Kind))
	switch v.Kind {
	case model.KindFloat:
		start := len(e.b)
		e.b = slices.Grow(e.b, 8*len(v.Floats))[:start+8*len(v.Floats)]
		for i, f := range v.Floats {
			binary.LittleEndian.PutUint64(e.b[start+8*i:], math.Float64bits(f))
		}
	case model.KindInt:
		appendDeltas(e, v.Ints)
	default:
		for _, doc := range v.Docs {
			e.bytes(doc)
		}
	}
}

// decodeBatch leaves the updates as the bytes they are.
func decodeBatch(d *decoder) (*record, error) {
	r := d.batchHead()
	r.series = d.seriesDefs()
	for range d.count(4) {
		r.starts = append(r.starts, d.start())
	}
	for range d.count(4) {
		r.groups = append(r.groups, d.group())
	}
	r.doc = append([]byte{}, d.bytes()...)
	return r, d.err
}

// seriesDefs reads definitions; their names share one piece of memory, in their
// order, which is what searching them reads.
func (d *decoder) seriesDefs() []seriesDef {
	n := d.count(3)
	if n == 0 {
		return nil
	}
	out, ends := make([]seriesDef, n), make([]int, n)
	var names []byte
	for i := range out {
		out[i].id, out[i].kind = uint32(d.uint()), model.Kind(d.u8())
		names = append(names, d.bytes()...)
		ends[i] = len(names)
	}
	text, from := string(names), 0
	for i, to := range ends {
		out[i].text, from = text[from:to], to
	}
	return out
}

// decodeRecord reads a batch from the payload of a log record.
func decodeRecord(payload []byte) (*record, error) {
	d := &decoder{b: payload}
	first := uint64(0)
	if recordType(d.u8()) == recBatch {
		first = d.uint()
	}
	rec, err := decodeBatch(d)
	if err == nil {
		rec.first = first
	}
	return rec, err
}

func (d *decoder) batchHead() *record {
	return &record{run: d.id(), writer: d.id(), attempt: uint32(d.uint()), writerN: uint32(d.uint()), sourceN: uint32(d.uint()), last: d.uint(), nextOrd: d.int(), refused: d.uint(), skipped: d.skipped()}
}

// skimBatch reads a batch without its body, of which it only says how large it
// is: the places of series that it takes and its points.
func skimBatch(d *decoder) (r *record, made uint32, points uint64, err error) {
	r = d.batchHead()
	for range d.count(3) {
		made = max(made, uint32(d.uint())+1)
		d.u8()
		d.bytes()
	}
	for range d.count(4) {
		d.start()
	}
	for range d.count(4) {
		points += d.skimGroup()
	}
	r.doc = append([]byte{}, d.bytes()...)
	return r, made, points, d.err
}

// skimGroup passes over a row group and counts its points.
func (d *decoder) skimGroup() uint64 {
	mask := column.AxisSet(d.uint())
	d.u8()
	n := d.count(1)
	d.skipInts(n * (bits.OnesCount16(uint16(mask)) + 3)) // axes, time, sequence, arrival
	cols := d.count(2)
	for range cols {
		d.uint()
		switch model.Kind(d.u8()) {
		case model.KindFloat:
			d.take(8 * uint64(n))
		case model.KindInt:
			d.skipInts(n)
		default:
			for range n {
				if d.bytes(); d.err != nil {
					return 0
				}
			}
		}
	}
	return uint64(n * cols)
}

// skipInts passes over varints.
func (d *decoder) skipInts(n int) {
	at := 0
	for ; n > 0 && at < len(d.b); at++ {
		if d.b[at] < 0x80 {
			n--
		}
	}
	if d.b = d.b[at:]; n > 0 {
		d.fail()
	}
}

func (d *decoder) group() recordGroup {
	var g recordGroup
	g.rows.Mask, g.rows.Mode = column.AxisSet(d.uint()), model.Uniqueness(d.u8())
	if g.rows.Mask >= 1<<column.NumAxes {
		d.fail()
		return g
	}
	n := d.count(1)
	for a := range column.NumAxes {
		if g.rows.Mask.Has(a) {
			g.rows.Axes[a] = decodeDeltas[int64](d, n)
		}
	}
	g.rows.Time = decodeDeltas[int64](d, n)
	g.rows.Seq = decodeDeltas[uint64](d, n)
	g.rows.Arrival = decodeDeltas[int64](d, n)
	for range d.count(2) {
		g.series = append(g.series, uint32(d.uint()))
		g.cols = append(g.cols, d.column(n))
	}
	return g
}

func (d *decoder) column(n int) column.Values {
	v := column.Values{Kind: model.Kind(d.u8())}
	switch v.Kind {
	case model.KindFloat:
		raw := d.take(8 * uint64(n))
		if d.err != nil {
			return v
		}
		v.Floats = make([]float64, n)
		for i := range v.Floats {
			v.Floats[i] = math.Float64frombits(binary.LittleEndian.Uint64(raw[8*i:]))
		}
	case model.KindInt:
		v.Ints = decodeDeltas[int64](d, n)
	case model.KindText, model.KindHistogram, model.KindScatter:
		if n > len(d.b) {
			d.fail()
			return v
		}
		v.Docs = make([][]byte, n)
		for i := range v.Docs {
			v.Docs[i] = append([]byte{}, d.bytes()...)
		}
	default:
		d.fail()
	}
	return v
}

func (e *encoder) attempt(run model.RunID, a model.Attempt) {
	e.u8(byte(recAttempt))
	e.id(run)
	e.attemptBody(a)
}

func (e *encoder) attemptBody(a model.Attempt) {
	e.uint(uint64(a.Number))
	e.int(a.Precedence)
	e.int(a.OpenedNs)
	if a.ResumeFrom == nil {
		e.u8(0)
		return
	}
	e.u8(1)
	e.int(*a.ResumeFrom)
}

func (d *decoder) attemptBody() model.Attempt {
	a := model.Attempt{Number: uint32(d.uint()), Precedence: d.int(), OpenedNs: d.int()}
	if d.u8() == 1 {
		s := d.int()
		a.ResumeFrom = &s
	}
	return a
}

func (e *encoder) writer(run model.RunID, place uint32, w model.WriterID, attempt uint32, logger *uint64) {
	e.u8(byte(recWriter))
	e.id(run)
	e.uint(uint64(place))
	e.id(w)
	e.uint(uint64(attempt))
	e.optional(logger)
}

func (e *encoder) optional(v *uint64) {
	if v == nil {
		e.u8(0)
		return
	}
	e.u8(1)
	e.uint(*v)
}

func (d *decoder) optional() *uint64 {
	if d.u8() != 1 {
		return nil
	}
	v := d.uint()
	return &v
}
