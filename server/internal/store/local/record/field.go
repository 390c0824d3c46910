package record

import (
	"encoding/binary"
	"errors"
)

// Encoder appends little-endian and varint fields.
type Encoder struct{ Buf []byte }

// U8 appends a byte.
func (e *Encoder) U8(v byte) { e.Buf = append(e.Buf, v) }

// Uint appends a varint.
func (e *Encoder) Uint(v uint64) { e.Buf = binary.AppendUvarint(e.Buf, v) }

// Int appends a signed varint.
func (e *Encoder) Int(v int64) { e.Buf = binary.AppendVarint(e.Buf, v) }

// Bytes appends bytes with their length in front.
func (e *Encoder) Bytes(v []byte) { e.Uint(uint64(len(v))); e.Buf = append(e.Buf, v...) }

// Text appends a text with its length in front.
func (e *Encoder) Text(v string) { e.Uint(uint64(len(v))); e.Buf = append(e.Buf, v...) }

// ID appends 16 bytes.
func (e *Encoder) ID(v [16]byte) { e.Buf = append(e.Buf, v[:]...) }

func appendDeltas[T int64 | uint64](e *Encoder, vs []T) {
	prev := T(0)
	for _, v := range vs {
		e.Int(int64(v - prev))
		prev = v
	}
}

// ErrShort says that bytes end too early or hold what no encoder writes.
var ErrShort = errors.New("record is cut short or damaged")

// Decoder reads what Encoder wrote; after the first error everything is zero.
type Decoder struct {
	Rest []byte
	Err  error
}

// Fail makes the decoder fail; what it reads from now on is zero.
func (d *Decoder) Fail() {
	d.Err, d.Rest = ErrShort, nil
}

// Take reads so many bytes.
func (d *Decoder) Take(n uint64) []byte {
	if n > uint64(len(d.Rest)) {
		d.Fail()
		return nil
	}
	out := d.Rest[:n:n]
	d.Rest = d.Rest[n:]
	return out
}

// U8 reads a byte.
func (d *Decoder) U8() byte {
	if b := d.Take(1); b != nil {
		return b[0]
	}
	return 0
}

// Uint reads a varint.
func (d *Decoder) Uint() uint64 {
	v, n := binary.Uvarint(d.Rest)
	if n <= 0 {
		d.Fail()
		return 0
	}
	d.Rest = d.Rest[n:]
	return v
}

// Int reads a signed varint.
func (d *Decoder) Int() int64 {
	v, n := binary.Varint(d.Rest)
	if n <= 0 {
		d.Fail()
		return 0
	}
	d.Rest = d.Rest[n:]
	return v
}

// Bytes reads bytes that have their length in front.
func (d *Decoder) Bytes() []byte { return d.Take(d.Uint()) }

// Text reads a text that has its length in front.
func (d *Decoder) Text() string { return string(d.Bytes()) }

// ID reads 16 bytes.
func (d *Decoder) ID() (out [16]byte) {
	copy(out[:], d.Take(16))
	return out
}

// Count reads a number of items that take at least size bytes each, so that a
// damaged count cannot make us allocate more than the record holds.
func (d *Decoder) Count(size int) int {
	n := d.Uint()
	if n > uint64(len(d.Rest)/size) {
		d.Fail()
		return 0
	}
	return int(n)
}

func decodeDeltas[T int64 | uint64](d *Decoder, n int) []T {
	if n > len(d.Rest) {
		d.Fail()
		return nil
	}
	out := make([]T, n)
	prev := T(0)
	for i := range out {
		prev += T(d.Int())
		out[i] = prev
	}
	return out
}

// Flag appends a byte that is 1 or 0.
func (e *Encoder) Flag(v bool) {
	if v {
		e.U8(1)
	} else {
		e.U8(0)
	}
}

// Optional appends a number that may be missing.
func (e *Encoder) Optional(v *uint64) {
	if v == nil {
		e.U8(0)
		return
	}
	e.U8(1)
	e.Uint(*v)
}

// Optional reads a number that may be missing.
func (d *Decoder) Optional() *uint64 {
	if d.U8() != 1 {
		return nil
	}
	v := d.Uint()
	return &v
}
