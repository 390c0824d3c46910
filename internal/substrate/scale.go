package substrate

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/big"
	"slices"
)

var (
	errShort = errors.New("the bytes end too early")
	errLarge = errors.New("a length is larger than what follows")
	errDeep  = errors.New("values are nested too deeply")
)

// reader takes SCALE bytes apart. After the first error it returns zeros; whoever
// reads looks at err at the end.
type reader struct {
	data   []byte
	err    error
	values int // left to read; bounds what hostile bytes can make us allocate
}

// maxValues bounds one decoded value with everything in it.
const maxValues = 1 << 22

func newReader(data []byte) *reader { return &reader{data: data, values: maxValues} }

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
	r.data = nil
}

func (r *reader) bytes(n int) []byte {
	if n < 0 || n > len(r.data) {
		r.fail(errShort)
		return nil
	}
	out := r.data[:n:n]
	r.data = r.data[n:]
	return out
}

func (r *reader) u8() uint8 {
	if b := r.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) u32() uint32 {
	if b := r.bytes(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

// compact reads a compact integer of at most 536 bits.
func (r *reader) compact() *big.Int {
	first := r.u8()
	switch first & 3 {
	case 0:
		return big.NewInt(int64(first >> 2))
	case 1:
		return big.NewInt(int64(uint16(first)|uint16(r.u8())<<8) >> 2)
	case 2:
		b := r.bytes(3)
		if b == nil {
			return new(big.Int)
		}
		return big.NewInt(int64(uint32(first)|uint32(b[0])<<8|uint32(b[1])<<16|uint32(b[2])<<24) >> 2)
	}
	return littleEndian(r.bytes(int(first>>2) + 4))
}

// length reads how many items follow. An item has at least one byte, or the
// caller says that it has none.
func (r *reader) length() int {
	n := r.compact()
	if !n.IsInt64() || n.Int64() > int64(len(r.data)) {
		r.fail(errLarge)
		return 0
	}
	return int(n.Int64())
}

func (r *reader) id() int {
	n := r.compact()
	if !n.IsInt64() || n.Int64() > maxTypes {
		r.fail(errors.New("a type number is too large"))
		return 0
	}
	return int(n.Int64())
}

func (r *reader) text() string { return string(r.bytes(r.length())) }

func (r *reader) some() bool { return r.u8() == 1 }

func littleEndian(b []byte) *big.Int {
	b = slices.Clone(b)
	slices.Reverse(b)
	return new(big.Int).SetBytes(b)
}

// list reads a vector whose items read reads.
func list[T any](r *reader, read func(*reader) T) []T {
	var out []T
	for range r.length() {
		if r.err != nil {
			return nil
		}
		out = append(out, read(r))
	}
	return out
}

// AppendCompact appends a compact integer.
func AppendCompact(dst []byte, n uint64) []byte {
	switch {
	case n < 1<<6:
		return append(dst, byte(n<<2))
	case n < 1<<14:
		return binary.LittleEndian.AppendUint16(dst, uint16(n<<2|1))
	case n < 1<<30:
		return binary.LittleEndian.AppendUint32(dst, uint32(n<<2|2))
	}
	return appendCompactBig(dst, new(big.Int).SetUint64(n))
}

func appendCompactBig(dst []byte, n *big.Int) []byte {
	if n.IsUint64() && n.Uint64() < 1<<30 {
		return AppendCompact(dst, n.Uint64())
	}
	size := max(4, (n.BitLen()+7)/8)
	dst = append(dst, byte((size-4)<<2|3))
	return appendInt(dst, n, size)
}

// appendInt appends n in so many bytes, little-endian, two's complement.
func appendInt(dst []byte, n *big.Int, size int) []byte {
	if n.Sign() < 0 {
		n = new(big.Int).Add(n, new(big.Int).Lsh(big.NewInt(1), uint(size)*8))
	}
	b := n.FillBytes(make([]byte, size))
	slices.Reverse(b)
	return append(dst, b...)
}

// fits checks the range of a fixed-size integer before it is written.
func fits(n *big.Int, bits int, signed bool) error {
	low, high := new(big.Int), new(big.Int).Lsh(big.NewInt(1), uint(bits))
	if signed {
		high.Rsh(high, 1)
		low.Neg(high)
	}
	if n.Cmp(low) < 0 || n.Cmp(high) >= 0 {
		return fmt.Errorf("%s does not fit into %d bits", n, bits)
	}
	return nil
}
