package postgres

import (
	"encoding/binary"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// A key ([tables.Key]) is bytes that compare as SQLite compares what they stand for:
//
//	NULL           NaN, or nothing
//	01 f f f f f f f f d d   a number: the greatest float64 that is not above it, then how far
//	               it is above that. Integers and reals compare by their exact values.
//	02 text        a text, byte by byte
//
// The bits of the float64 are big-endian, with the sign turned, all of them for a negative one.
const (
	markNumber = 1
	markText   = 2
)

// encodeKey is nil for no key.
func encodeKey(v any) []byte {
	switch v := v.(type) {
	case int64:
		return numberKey(floor(v))
	case float64:
		if v != v {
			return nil
		}
		return numberKey(v+0, 0) // -0 becomes 0
	case string:
		return append([]byte{markText}, v...)
	}
	return nil
}

// floor is the greatest float64 that is not above an integer, and what is left.
func floor(n int64) (f float64, rest uint16) {
	f = float64(n)
	if f >= 1<<63 || int64(f) > n { // it was rounded up
		f = math.Nextafter(f, math.Inf(-1))
	}
	return f, uint16(n - int64(f)) // below 1,024: the distance of neighbours up to 2^63
}

func numberKey(f float64, rest uint16) []byte {
	bits := math.Float64bits(f)
	if bits>>63 == 0 {
		bits |= 1 << 63
	} else {
		bits = ^bits
	}
	out := append(make([]byte, 0, 11), markNumber)
	return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint64(out, bits), rest)
}

// decodeKey reads a key. A whole number that an int64 has is one.
func decodeKey(stored any) any {
	b, _ := stored.([]byte)
	if len(b) > 0 && b[0] == markText {
		return string(b[1:])
	}
	if len(b) != 11 {
		return nil
	}
	bits := binary.BigEndian.Uint64(b[1:])
	if bits>>63 == 1 {
		bits &^= 1 << 63
	} else {
		bits = ^bits
	}
	f, rest := math.Float64frombits(bits), int64(binary.BigEndian.Uint16(b[9:]))
	if f == math.Trunc(f) && f >= -1<<63 && f < 1<<63 {
		return int64(f) + rest
	}
	return f
}

// encodeNumber is the decimal text of a number for NUMERIC: exact where it is whole, so that
// it compares with integers, else the shortest that means it. A real has a point.
func encodeNumber(v any) any {
	switch v := v.(type) {
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		switch {
		case v != v:
			return nil
		case math.IsInf(v, 1):
			return "Infinity"
		case math.IsInf(v, -1):
			return "-Infinity"
		case v == math.Trunc(v):
			whole, _ := big.NewFloat(v).Int(nil)
			return whole.String() + ".0"
		}
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return nil
}

// decodeNumber reads a NUMERIC.
func decodeNumber(stored any) any {
	text, ok := stored.(string)
	if !ok {
		return nil
	}
	if !strings.ContainsAny(text, ".IN") {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n
		}
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil
	}
	return f
}
