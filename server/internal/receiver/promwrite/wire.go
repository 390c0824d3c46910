package promwrite

import (
	"encoding/binary"
	"errors"
	"math"
)

// wireType is protobuf's, in the low three bits of a tag.
type wireType byte

const (
	varint  wireType = 0
	fixed64 wireType = 1
	length  wireType = 2
	fixed32 wireType = 5
)

var (
	errShort = errors.New("the message is cut short")
	errWire  = errors.New("the message has a field of a wrong type")
)

// message is a protobuf message that is read from front to back, in place.
type message struct {
	b   []byte
	err error
}

// next reads a tag; false at the end or behind an error.
func (m *message) next() (field uint64, t wireType, ok bool) {
	if len(m.b) == 0 || m.err != nil {
		return 0, 0, false
	}
	tag := m.uint()
	if m.err == nil && (tag>>3 == 0 || tag>>3 >= 1<<29) {
		m.err = errWire
	}
	return tag >> 3, wireType(tag & 7), m.err == nil
}

func (m *message) uint() uint64 {
	if len(m.b) > 0 && m.b[0] < 0x80 {
		v := uint64(m.b[0])
		m.b = m.b[1:]
		return v
	}
	v, n := binary.Uvarint(m.b)
	if n <= 0 {
		m.err, m.b = errShort, nil
		return 0
	}
	m.b = m.b[n:]
	return v
}

func (m *message) bytes() []byte {
	n := m.uint()
	if n > uint64(len(m.b)) {
		m.err, m.b = errShort, nil
		return nil
	}
	out := m.b[:n:n]
	m.b = m.b[n:]
	return out
}

func (m *message) double() float64 {
	if len(m.b) < 8 {
		m.err, m.b = errShort, nil
		return 0
	}
	v := math.Float64frombits(binary.LittleEndian.Uint64(m.b))
	m.b = m.b[8:]
	return v
}

// skip passes over a field of any type.
func (m *message) skip(t wireType) {
	var size int
	switch t {
	case varint:
		m.uint()
		return
	case length:
		m.bytes()
		return
	case fixed64:
		size = 8
	case fixed32:
		size = 4
	default: // groups have no place in these messages
		m.err, m.b = errWire, nil
		return
	}
	if len(m.b) < size {
		m.err, m.b = errShort, nil
		return
	}
	m.b = m.b[size:]
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
