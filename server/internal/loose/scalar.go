package loose

import (
	"bytes"
	"math"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// Kind is what a value is.
type Kind uint8

// The kinds of values. None stands for bytes that are no value.
const (
	None Kind = iota
	Null
	Bool
	Number
	String
	Array
	Object
)

// KindOf judges by the first byte.
func KindOf(v []byte) Kind {
	if len(v) == 0 {
		return None
	}
	switch v[0] {
	case 'n':
		return Null
	case 't', 'f':
		return Bool
	case '"':
		return String
	case '[':
		return Array
	case '{':
		return Object
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'N', 'I':
		return Number
	}
	return None
}

// maxDigits is how many digits an integer has at most that a float64 can hold.
const maxDigits = 309

// Float gives a number as Python reads it. It is exact where the float64 is what
// Python has: a finite decimal fraction, a bare word, or an integer that a
// float64 can hold. A value that is no number gives 0 and is not exact.
func Float(v []byte) (f float64, exact bool) {
	f, size, exact := ScanNumber(v)
	if size != len(v) {
		return 0, false
	}
	return f, exact
}

func wordFloat(word []byte) float64 {
	switch word[0] {
	case 'I':
		return math.Inf(1)
	case '-':
		return math.Inf(-1)
	}
	return math.NaN()
}

func isWord(v []byte) bool {
	switch string(v) {
	case "NaN", "Infinity", "-Infinity":
		return true
	}
	return false
}

// whole is true of the numbers that Python reads as integers.
func whole(number []byte) bool {
	for _, c := range number {
		switch c {
		case '.', 'e', 'E', 'N', 'I':
			return false
		}
	}
	return true
}

func integer(v []byte) (f float64, exact bool) {
	f, err := strconv.ParseFloat(string(v), 64)
	if err != nil || len(v) > maxDigits+1 {
		return f, false
	}
	var held [maxDigits + 1]byte
	return f, string(v) == string(strconv.AppendFloat(held[:0], f, 'f', 0, 64))
}

// Text decodes a string. It is faithful where the text is all of it: JSON can
// write half of a surrogate pair, and valid UTF-8 cannot. U+FFFD stands for that.
// A value that is no string gives "" and is not faithful.
func Text(v []byte) (s string, faithful bool) {
	b, faithful := unquoted(v)
	return string(b), faithful
}

// unquoted decodes a string; without escapes it is a part of v.
func unquoted(v []byte) (b []byte, faithful bool) {
	if len(v) < 2 || v[0] != '"' || v[len(v)-1] != '"' {
		return nil, false
	}
	inner := v[1 : len(v)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return inner, utf8.Valid(inner)
	}
	b, lone := appendText(make([]byte, 0, len(inner)), inner, utf8.RuneError)
	return b, !lone && utf8.Valid(inner)
}

// appendText decodes the inside of a string. Lone halves of surrogate pairs
// become the rune of the caller; below 0 they keep their three bytes, which are
// no UTF-8, so that they differ from all else.
func appendText(dst, inner []byte, half rune) (out []byte, lone bool) {
	for len(inner) > 0 {
		i := bytes.IndexByte(inner, '\\')
		if i < 0 || i+1 >= len(inner) {
			return append(dst, inner...), lone
		}
		dst = append(dst, inner[:i]...)
		c := inner[i+1]
		if c != 'u' {
			dst = append(dst, unescaped(c))
			inner = inner[i+2:]
			continue
		}
		r, size := escapedRune(inner[i:])
		inner = inner[i+size:]
		if utf16.IsSurrogate(r) {
			lone = true
			if half < 0 {
				dst = append(dst, 0xe0|byte(r>>12), 0x80|byte(r>>6)&0x3f, 0x80|byte(r)&0x3f)
				continue
			}
			r = half
		}
		dst = utf8.AppendRune(dst, r)
	}
	return dst, lone
}

func unescaped(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return c
}

// escapedRune reads \uXXXX, and a second one that makes it a pair.
func escapedRune(b []byte) (r rune, size int) {
	if len(b) < 6 {
		return utf8.RuneError, len(b)
	}
	r, ok := hex4(b[2:6])
	if !ok {
		return utf8.RuneError, 6
	}
	if utf16.IsSurrogate(r) && len(b) >= 12 && b[6] == '\\' && b[7] == 'u' {
		if low, ok := hex4(b[8:12]); ok {
			if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
				return pair, 12
			}
		}
	}
	return r, 6
}

func hex4(b []byte) (r rune, ok bool) {
	for _, c := range b {
		switch {
		case isDigit(c):
			c -= '0'
		case c-'a' <= 5:
			c -= 'a' - 10
		case c-'A' <= 5:
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}
