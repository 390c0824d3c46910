package promwrite

import (
	"errors"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

const (
	varint  = protowire.VarintType
	fixed64 = protowire.Fixed64Type
	length  = protowire.BytesType
)

var (
	errShort = errors.New("the message is cut short")
	errWire  = errors.New("the message has a field of a wrong type")
)

// message is a protobuf message that is read from front to back, in place: a
// limit can end it before anything is allocated, and labels that were read before
// are compared as bytes. Generated code does neither, and takes seven times as
// long (docs/design/0016-own-code.md).
type message struct {
	b   []byte
	err error
}

// next reads a tag; false at the end or behind an error.
func (m *message) next() (field protowire.Number, t protowire.Type, ok bool) {
	if len(m.b) == 0 || m.err != nil {
		return 0, 0, false
	}
	field, t = protowire.DecodeTag(m.uint())
	if m.err == nil && !field.IsValid() {
		m.err = errWire
	}
	return field, t, m.err == nil
}

func (m *message) uint() uint64 {
	v, n := protowire.ConsumeVarint(m.b)
	m.pass(n)
	return v
}

func (m *message) bytes() []byte {
	v, n := protowire.ConsumeBytes(m.b)
	m.pass(n)
	return slices.Clip(v)
}

func (m *message) double() float64 {
	v, n := protowire.ConsumeFixed64(m.b)
	m.pass(n)
	return math.Float64frombits(v)
}

// skip passes over a field of any type.
func (m *message) skip(t protowire.Type) {
	if t == protowire.StartGroupType || t == protowire.EndGroupType || t > protowire.Fixed32Type { // none has a place in these messages
		m.err, m.b = errWire, nil
		return
	}
	m.pass(protowire.ConsumeFieldValue(1, t, m.b))
}

// pass goes on behind n bytes; protowire has found an error where n is negative.
func (m *message) pass(n int) {
	if n < 0 {
		m.err, m.b = errShort, nil
		return
	}
	m.b = m.b[n:]
}

// sample reads a Sample of either version: value 1, milliseconds 2.
func sample(b []byte) (value float64, ms int64, err error) {
	m := message{b: b}
	for {
		field, t, ok := m.next()
		switch {
		case !ok:
			return value, ms, m.err
		case field == 1 && t == fixed64:
			value = m.double()
		case field == 2 && t == varint:
			ms = int64(m.uint())
		default:
			m.skip(t)
		}
	}
}
