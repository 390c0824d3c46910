package codec

import (
	"encoding/binary"
	"errors"
	"math/bits"

	"github.com/klauspost/compress/huff0"
	"github.com/klauspost/compress/zstd"
)

// MaxValues is the most values of a column.
const MaxValues = 1 << 16

var (
	// ErrCorrupt says that bytes are not what an encoder wrote.
	ErrCorrupt = errors.New("column is damaged")
	// ErrVersion says that a newer encoder wrote the bytes.
	ErrVersion = errors.New("column has an unknown format")
)

// Encoder holds scratch space; one goroutine uses it at a time.
type Encoder struct {
	huff      huff0.Scratch
	residuals []int64
	mapped    []int64
	work      []int64
	nlogn     []float64
	symbols   []byte
	heads     []int64
	lengths   []int64
	steps     []int64
	part      []byte
	low       bitWriter
	zstd      *zstd.Encoder
}

// NewEncoder returns an encoder.
func NewEncoder() *Encoder {
	return &Encoder{huff: huff0.Scratch{Reuse: huff0.ReusePolicyNone}, nlogn: nlogn()}
}

// Decoder holds scratch space; one goroutine uses it at a time.
type Decoder struct {
	huff    *huff0.Scratch
	base    [256]uint64
	width   [256]uint8
	symbols []byte
	low     []byte
	zstd    *zstd.Decoder
}

// NewDecoder returns a decoder.
func NewDecoder() *Decoder {
	d := &Decoder{}
	for s := range 256 {
		d.base[s], d.width[s] = classRange(byte(s))
	}
	return d
}

// Classes: values below 16 each have their own, larger ones four per power of
// two, so that a class has at most a quarter of an octave of low bits to spare.
const smallClasses = 16

func class(v uint64) (symbol byte, lowBits uint) {
	if v < smallClasses {
		return byte(v), 0
	}
	n := uint(bits.Len64(v))
	return byte(smallClasses + (n-5)*4 + uint(v>>(n-3))&3), n - 3
}

func classRange(s byte) (base uint64, width uint8) {
	if s < smallClasses {
		return uint64(s), 0
	}
	k := uint(s) - smallClasses
	n := k/4 + 5
	return uint64(4|k%4) << (n - 3), uint8(n - 3)
}

func zigzag(v int64) uint64   { return uint64(v<<1) ^ uint64(v>>63) }
func unzigzag(v uint64) int64 { return int64(v>>1) ^ -int64(v&1) }

// bitWriter packs bits from the low end of little-endian words.
type bitWriter struct {
	b   []byte
	acc uint64
	n   uint
}

func (w *bitWriter) reset() { w.b, w.acc, w.n = w.b[:0], 0, 0 }

func (w *bitWriter) write(v uint64, width uint) {
	if width == 0 {
		return
	}
	v &= ^uint64(0) >> (64 - width)
	w.acc |= v << w.n
	if w.n+width < 64 {
		w.n += width
		return
	}
	w.b = binary.LittleEndian.AppendUint64(w.b, w.acc)
	w.acc = v >> (64 - w.n) // zero when n is 0: a shift by 64
	w.n += width - 64
}

func (w *bitWriter) bytes() []byte {
	for n := int(w.n+7) / 8; n > 0; n-- {
		w.b = append(w.b, byte(w.acc))
		w.acc >>= 8
	}
	w.n = 0
	return w.b
}

// bitReader reads what bitWriter wrote, from bytes with 16 spare ones behind.
type bitReader struct {
	b   []byte
	pos uint
}

func (r *bitReader) read(width uint) uint64 {
	at, shift := r.pos>>3, r.pos&7
	r.pos += width
	v := binary.LittleEndian.Uint64(r.b[at:]) >> shift
	if shift+width > 64 {
		v |= uint64(r.b[at+8]) << (64 - shift)
	}
	return v & (1<<width - 1)
}

// padded copies low bits to where a reader may run over their end.
func (d *Decoder) padded(b []byte) []byte {
	d.low = append(append(d.low[:0], b...), make([]byte, 16)...)
	return d.low
}

// header reads the count of values and the first byte of a column.
func header(b []byte, maxValues int) (n int, kind byte, rest []byte, err error) {
	count, size := binary.Uvarint(b)
	if size <= 0 || count > uint64(min(maxValues, MaxValues)) || len(b) <= size {
		return 0, 0, nil, ErrCorrupt
	}
	return int(count), b[size], b[size+1:], nil
}

func appendHeader(dst []byte, n int, kind byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(n)), kind)
}
