package loose

import (
	"bytes"
	"math"
	"strconv"
	"unicode/utf8"
)

// AppendNumber writes a float64 so that JavaScript and Python read the same
// number back. A whole number has no point. It has all its digits: the shortest
// ones would be another integer in Python. Only -0.0 keeps its point, as Python
// reads -0 as the integer 0.
func AppendNumber(dst []byte, f float64) []byte {
	abs := math.Abs(f)
	switch {
	case math.IsNaN(f):
		return append(dst, "NaN"...)
	case math.IsInf(f, 1):
		return append(dst, "Infinity"...)
	case math.IsInf(f, -1):
		return append(dst, "-Infinity"...)
	case f == 0 && math.Signbit(f):
		return append(dst, "-0.0"...)
	case abs < 1e21 && f == math.Trunc(f):
		return strconv.AppendFloat(dst, f, 'f', 0, 64)
	case abs < 1e21 && abs >= 1e-6:
		return strconv.AppendFloat(dst, f, 'f', -1, 64)
	}
	dst = strconv.AppendFloat(dst, f, 'e', -1, 64)
	if n := len(dst); dst[n-4] == 'e' && dst[n-2] == '0' { // e-09 is e-9 in JavaScript
		dst[n-2] = dst[n-1]
		dst = dst[:n-1]
	}
	return dst
}

// AppendText writes a string. Bytes that are no UTF-8 become U+FFFD.
func AppendText(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r == '\n':
			dst = append(dst, `\n`...)
		case r < ' ':
			dst = append(dst, `\u00`...)
			dst = append(dst, "0123456789abcdef"[r>>4], "0123456789abcdef"[r&15])
		default:
			dst = utf8.AppendRune(dst, r)
		}
	}
	return append(dst, '"')
}

// Strict appends the same value in strict JSON: the bare words become the
// strings "NaN", "Infinity" and "-Infinity".
func Strict(dst, v []byte) []byte {
	for i := 0; i < len(v); {
		end := pastToken(v, i)
		if token := v[i:end]; isWord(token) {
			dst = append(append(append(dst, '"'), token...), '"')
		} else {
			dst = append(dst, token...)
		}
		i = end
	}
	return dst
}

// Compact appends the value without white space between its parts.
func Compact(dst, v []byte) []byte {
	for i := space(v, 0); i < len(v); {
		end := pastToken(v, i)
		dst = append(dst, v[i:end]...)
		i = space(v, end)
	}
	return dst
}

// Spaced appends the value as Python's json.dumps lays it out, with a space after
// commas and colons. It writes characters instead of their escapes where it can.
// So texts of equal parts in one order become one text.
func Spaced(dst, v []byte) []byte {
	for i := space(v, 0); i < len(v); {
		end := pastToken(v, i)
		token := v[i:end]
		if s, faithful := unquoted(token); faithful && bytes.IndexByte(token, '\\') >= 0 {
			dst = AppendText(dst, string(s))
		} else {
			dst = append(dst, token...)
		}
		if c := token[0]; c == ',' || c == ':' {
			dst = append(dst, ' ')
		}
		i = space(v, end)
	}
	return dst
}

// pastToken skips a string, a scalar, one mark, or white space.
func pastToken(v []byte, i int) int {
	switch c := v[i]; c {
	case '"':
		return pastText(v, i)
	case ',', ':', '{', '}', '[', ']':
		return i + 1
	}
	if end := space(v, i); end > i {
		return end
	}
	i++
	for i < len(v) && scalar(v[i]) && v[i] != ':' && v[i] != '"' {
		i++
	}
	return i
}
