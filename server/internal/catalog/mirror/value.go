package mirror

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// The types of values, as SQLite has them.
const (
	typeNull = iota
	typeInt
	typeReal
	typeText
	typeBlob
)

var errShort = errors.New("the bytes end early")

// AppendValues writes the values of a row, or of its key.
func AppendValues(dst []byte, values []any) ([]byte, error) {
	for _, v := range values {
		switch v := v.(type) {
		case nil:
			dst = append(dst, typeNull)
		case int64:
			dst = binary.AppendVarint(append(dst, typeInt), v)
		case float64:
			dst = binary.LittleEndian.AppendUint64(append(dst, typeReal), math.Float64bits(v))
		case string:
			dst = append(binary.AppendUvarint(append(dst, typeText), uint64(len(v))), v...)
		case []byte:
			dst = append(binary.AppendUvarint(append(dst, typeBlob), uint64(len(v))), v...)
		default:
			return nil, fmt.Errorf("a value of the type %T has no place in a row", v)
		}
	}
	return dst, nil
}

// Values reads what AppendValues wrote.
func Values(b []byte) (values []any, err error) {
	for len(b) > 0 {
		var v any
		if v, b, err = cutValue(b[0], b[1:]); err != nil {
			return nil, err
		}
		values = append(values, v)
	}
	return values, nil
}

func cutValue(kind byte, b []byte) (v any, rest []byte, err error) {
	switch kind {
	case typeNull:
		return nil, b, nil
	case typeInt:
		n, size := binary.Varint(b)
		if size <= 0 {
			return nil, nil, errShort
		}
		return n, b[size:], nil
	case typeReal:
		if len(b) < 8 {
			return nil, nil, errShort
		}
		return math.Float64frombits(binary.LittleEndian.Uint64(b)), b[8:], nil
	case typeText, typeBlob:
		text, rest, err := cutBytes(b)
		if kind == typeText {
			return string(text), rest, err
		}
		return text, rest, err
	}
	return nil, nil, fmt.Errorf("no value has the type %d", kind)
}

// cutBytes reads bytes behind their length.
func cutBytes(b []byte) (part, rest []byte, err error) {
	n, size := binary.Uvarint(b)
	if size <= 0 || n > uint64(len(b)-size) {
		return nil, nil, errShort
	}
	return b[size : size+int(n)], b[size+int(n):], nil
}
