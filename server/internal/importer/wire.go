package importer

import (
	"errors"
	"iter"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

var errProto = errors.New("not a protocol buffer")

// field is one field of a protobuf message: a number in u, or bytes in b.
type field struct {
	num protowire.Number
	typ protowire.Type
	u   uint64
	b   []byte
}

func (f field) double() float64 { return math.Float64frombits(f.u) }

func (f field) float() float64 { return float64(math.Float32frombits(uint32(f.u))) }

// fields walks a message. The messages of other trackers are read field by
// field: of their hundreds of types we need some dozen fields
// (docs/design/0016-own-code.md).
func fields(msg []byte) iter.Seq2[field, error] {
	return func(yield func(field, error) bool) {
		for len(msg) > 0 {
			f, n := consume(msg)
			if n < 0 {
				yield(field{}, errProto)
				return
			}
			msg = msg[n:]
			if !yield(f, nil) {
				return
			}
		}
	}
}

func consume(msg []byte) (f field, n int) {
	num, typ, n := protowire.ConsumeTag(msg)
	if n < 0 {
		return f, n
	}
	f.num, f.typ = num, typ
	rest := msg[n:]
	var m int
	switch typ {
	case protowire.VarintType:
		f.u, m = protowire.ConsumeVarint(rest)
	case protowire.Fixed64Type:
		f.u, m = protowire.ConsumeFixed64(rest)
	case protowire.Fixed32Type:
		var u uint32
		u, m = protowire.ConsumeFixed32(rest)
		f.u = uint64(u)
	case protowire.BytesType:
		f.b, m = protowire.ConsumeBytes(rest)
	default:
		m = protowire.ConsumeFieldValue(num, typ, rest)
	}
	if m < 0 {
		return f, m
	}
	return f, n + m
}

// doubles appends a repeated double, packed or not.
func (f field) doubles(to []float64) []float64 {
	if f.typ == protowire.Fixed64Type {
		return append(to, f.double())
	}
	for b := f.b; len(b) >= 8; b = b[8:] {
		u, _ := protowire.ConsumeFixed64(b)
		to = append(to, math.Float64frombits(u))
	}
	return to
}
