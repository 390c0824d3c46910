package record

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store/local/column"
)

// Group is a row group of a batch.
type Group struct {
	Rows    column.Rows // src is left out: it is the record's source
	Series  []uint32
	Columns []column.Values
}

// Points counts the points of all columns.
func (g *Group) Points() uint64 { return uint64(g.Rows.Len() * len(g.Columns)) }

func (e *Encoder) group(g *Group) {
	e.Uint(uint64(g.Rows.Mask))
	e.U8(byte(g.Rows.Mode))
	e.Uint(uint64(g.Rows.Len()))
	for a := range column.NumAxes {
		if g.Rows.Mask.Has(a) {
			appendDeltas(e, g.Rows.Axes[a])
		}
	}
	appendDeltas(e, g.Rows.Time)
	appendDeltas(e, g.Rows.Seq)
	appendDeltas(e, g.Rows.Arrival)
	e.Uint(uint64(len(g.Columns)))
	for i := range g.Columns {
		e.Uint(uint64(g.Series[i]))
		e.column(&g.Columns[i])
	}
}

func (e *Encoder) column(v *column.Values) {
	e.U8(byte(v.Kind))
	switch v.Kind {
	case model.KindFloat:
		start := len(e.Buf)
		e.Buf = slices.Grow(e.Buf, 8*len(v.Floats))[:start+8*len(v.Floats)]
		for i, f := range v.Floats {
			binary.LittleEndian.PutUint64(e.Buf[start+8*i:], math.Float64bits(f))
		}
	case model.KindInt:
		appendDeltas(e, v.Ints)
	default:
		for _, doc := range v.Docs {
			e.Bytes(doc)
		}
	}
}

// AppendGroup writes a row group behind b, as a batch has it.
func AppendGroup(b []byte, g *Group) []byte {
	e := Encoder{Buf: b}
	e.group(g)
	return e.Buf
}

// Group reads what AppendGroup wrote.
func (d *Decoder) Group() Group { return d.group() }

// skimGroup passes over a row group and counts its points.
func (d *Decoder) skimGroup() uint64 {
	mask := column.AxisSet(d.Uint())
	d.U8()
	n := d.Count(1)
	d.skipInts(n * (bits.OnesCount16(uint16(mask)) + 3)) // axes, time, sequence, arrival
	cols := d.Count(2)
	for range cols {
		d.Uint()
		switch model.Kind(d.U8()) {
		case model.KindFloat:
			d.Take(8 * uint64(n))
		case model.KindInt:
			d.skipInts(n)
		default:
			for range n {
				if d.Bytes(); d.Err != nil {
					return 0
				}
			}
		}
	}
	return uint64(n * cols)
}

// skipInts passes over varints.
func (d *Decoder) skipInts(n int) {
	at := 0
	for ; n > 0 && at < len(d.Rest); at++ {
		if d.Rest[at] < 0x80 {
			n--
		}
	}
	if d.Rest = d.Rest[at:]; n > 0 {
		d.Fail()
	}
}

func (d *Decoder) group() Group {
	var g Group
	g.Rows.Mask, g.Rows.Mode = column.AxisSet(d.Uint()), model.Uniqueness(d.U8())
	if g.Rows.Mask >= 1<<column.NumAxes {
		d.Fail()
		return g
	}
	n := d.Count(1)
	for a := range column.NumAxes {
		if g.Rows.Mask.Has(a) {
			g.Rows.Axes[a] = decodeDeltas[int64](d, n)
		}
	}
	g.Rows.Time = decodeDeltas[int64](d, n)
	g.Rows.Seq = decodeDeltas[uint64](d, n)
	g.Rows.Arrival = decodeDeltas[int64](d, n)
	for range d.Count(2) {
		g.Series = append(g.Series, uint32(d.Uint()))
		g.Columns = append(g.Columns, d.column(n))
	}
	return g
}

func (d *Decoder) column(n int) column.Values {
	v := column.Values{Kind: model.Kind(d.U8())}
	switch v.Kind {
	case model.KindFloat:
		raw := d.Take(8 * uint64(n))
		if d.Err != nil {
			return v
		}
		v.Floats = make([]float64, n)
		for i := range v.Floats {
			v.Floats[i] = math.Float64frombits(binary.LittleEndian.Uint64(raw[8*i:]))
		}
	case model.KindInt:
		v.Ints = decodeDeltas[int64](d, n)
	case model.KindText, model.KindHistogram, model.KindScatter:
		if n > len(d.Rest) {
			d.Fail()
			return v
		}
		v.Docs = make([][]byte, n)
		for i := range v.Docs {
			v.Docs[i] = append([]byte{}, d.Bytes()...)
		}
	default:
		d.Fail()
	}
	return v
}
