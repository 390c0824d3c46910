package codec

import (
	"encoding/binary"
	"fmt"

	"github.com/klauspost/compress/zstd"
)

// Kinds of byte columns.
const (
	bytesRaw  = 0
	bytesZstd = 1
)

// MaxBytes is the most bytes of a byte column after decoding.
const MaxBytes = 1 << 30

// window is how far back a compressed column refers. An encoder keeps twice as much.
const window = 1 << 20

// AppendBytes encodes a column of byte strings.
func (e *Encoder) AppendBytes(dst []byte, vs [][]byte) ([]byte, error) {
	lengths := make([]int64, len(vs))
	total := 0
	for i, v := range vs {
		lengths[i] = int64(len(v))
		total += len(v)
	}
	if total > MaxBytes {
		return dst, fmt.Errorf("a column of %d bytes exceeds %d", total, MaxBytes)
	}
	plain := make([]byte, 0, total)
	for _, v := range vs {
		plain = append(plain, v...)
	}
	head := e.AppendInts(nil, lengths)
	packed, kind := plain, byte(bytesRaw)
	if z, err := e.compress(plain); err != nil {
		return dst, err
	} else if len(z) < len(plain) {
		packed, kind = z, bytesZstd
	}
	dst = appendHeader(dst, len(vs), kind)
	dst = binary.AppendUvarint(dst, uint64(len(head)))
	dst = append(dst, head...)
	dst = binary.AppendUvarint(dst, uint64(total))
	return append(dst, packed...), nil
}

func (e *Encoder) compress(b []byte) ([]byte, error) {
	if e.zstd == nil {
		z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false), zstd.WithWindowSize(window))
		if err != nil {
			return nil, fmt.Errorf("start zstd: %w", err)
		}
		e.zstd = z
	}
	return e.zstd.EncodeAll(b, nil), nil
}

// Bytes decodes a column of at most maxValues byte strings and maxBytes bytes.
func (d *Decoder) Bytes(b []byte, maxValues, maxBytes int) ([][]byte, error) {
	n, kind, b, err := header(b, maxValues)
	if err != nil {
		return nil, err
	}
	size, m := binary.Uvarint(b)
	if m <= 0 || size > uint64(len(b)-m) {
		return nil, ErrCorrupt
	}
	lengths, err := d.Ints(b[m:m+int(size)], n)
	if err != nil || len(lengths) != n {
		return nil, ErrCorrupt
	}
	b = b[m+int(size):]
	total, m := binary.Uvarint(b)
	if m <= 0 || total > uint64(min(maxBytes, MaxBytes)) {
		return nil, ErrCorrupt
	}
	plain, err := d.decompress(b[m:], kind, int(total))
	if err != nil {
		return nil, err
	}
	return split(plain, lengths)
}

// PlainBytes is how many bytes a column of byte strings has after decoding, by its head.
func PlainBytes(b []byte, maxValues int) (int, error) {
	_, _, b, err := header(b, maxValues)
	if err != nil {
		return 0, err
	}
	size, m := binary.Uvarint(b)
	if m <= 0 || size > uint64(len(b)-m) {
		return 0, ErrCorrupt
	}
	total, m := binary.Uvarint(b[m+int(size):])
	if m <= 0 || total > MaxBytes {
		return 0, ErrCorrupt
	}
	return int(total), nil
}

func split(plain []byte, lengths []int64) ([][]byte, error) {
	out := make([][]byte, len(lengths))
	for i, n := range lengths {
		if n < 0 || n > int64(len(plain)) {
			return nil, ErrCorrupt
		}
		out[i], plain = plain[:n:n], plain[n:]
	}
	if len(plain) != 0 {
		return nil, ErrCorrupt
	}
	return out, nil
}

func (d *Decoder) decompress(b []byte, kind byte, total int) ([]byte, error) {
	switch kind {
	case bytesRaw:
		if len(b) != total {
			return nil, ErrCorrupt
		}
		return append([]byte{}, b...), nil
	case bytesZstd:
		if d.zstd == nil {
			z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(MaxBytes))
			if err != nil {
				return nil, fmt.Errorf("start zstd: %w", err)
			}
			d.zstd = z
		}
		var h zstd.Header
		if h.Decode(b) != nil || h.HasFCS && h.FrameContentSize != uint64(total) {
			return nil, ErrCorrupt
		}
		// The room is limited: a frame that holds more is damage.
		out, err := d.zstd.DecodeAll(b, make([]byte, 0, min(total, 64*len(b)+1024)))
		if err != nil || len(out) != total {
			return nil, ErrCorrupt
		}
		return out, nil
	}
	return nil, ErrVersion
}

// AppendBools encodes a column of booleans, one bit each.
func AppendBools(dst []byte, vs []bool) []byte {
	dst = appendHeader(dst, len(vs), 0)
	for i := 0; i < len(vs); i += 8 {
		var b byte
		for j, v := range vs[i:min(i+8, len(vs))] {
			if v {
				b |= 1 << j
			}
		}
		dst = append(dst, b)
	}
	return dst
}

// Bools decodes a column of at most maxValues booleans.
func Bools(b []byte, maxValues int) ([]bool, error) {
	n, kind, b, err := header(append(b[:len(b):len(b)], 0), maxValues)
	if err != nil {
		return nil, err
	}
	if kind != 0 {
		return nil, ErrVersion
	}
	if len(b) < (n+7)/8 {
		return nil, ErrCorrupt
	}
	out := make([]bool, n)
	for i := range out {
		out[i] = b[i/8]&(1<<(i%8)) != 0
	}
	return out, nil
}

// Close frees what zstd holds.
func (d *Decoder) Close() {
	if d.zstd != nil {
		d.zstd.Close()
	}
}
