package loose

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"unicode/utf8"
)

// MaxDepth is how deep arrays and objects may be nested, unless a caller says
// otherwise.
const MaxDepth = 64

// Error says what is wrong with a text, and where.
type Error struct {
	Offset int // the byte, counted from 0
	Reason string
}

func (e *Error) Error() string {
	return fmt.Sprintf("wrong JSON at byte %d: %s", e.Offset, e.Reason)
}

// A scan returns the end of what it read and no reason, or the place of a fault and its reason.
const (
	noValue  = "no value begins here"
	cutShort = "the text ends too early"
	trailing = "something follows the value"
	tooDeep  = "arrays and objects are nested too deep"
	noKey    = "a key in double quotes is missing"
	noColon  = "a colon is missing after the key"
	noComma  = "a comma or the closing bracket is missing"
	control  = "a control character stands in a string"
	noEscape = "no escape of JSON"
	noUTF8   = "no valid UTF-8"
	noDigit  = "a digit is missing"
)

// Check says whether b is one value, with white space around it at most.
func Check(b []byte) error { return CheckDepth(b, MaxDepth) }

// CheckDepth is Check with another limit of nesting.
func CheckDepth(b []byte, depth int) error {
	end, reason := value(b, space(b, 0), depth)
	if reason == "" {
		if end = space(b, end); end == len(b) {
			return nil
		}
		reason = trailing
	}
	return fault(end, reason, depth)
}

func fault(at int, reason string, depth int) error {
	if reason == tooDeep {
		reason = fmt.Sprintf("arrays and objects are nested deeper than %d", depth)
	}
	return &Error{at, reason}
}

func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

func value(b []byte, i, depth int) (end int, reason string) {
	if i >= len(b) {
		return len(b), cutShort
	}
	switch c := b[i]; c {
	case '{':
		return object(b, i, depth)
	case '[':
		return array(b, i, depth)
	case '"':
		return text(b, i)
	case 't':
		return word(b, i, "true")
	case 'f':
		return word(b, i, "false")
	case 'n':
		return word(b, i, "null")
	case 'N':
		return word(b, i, "NaN")
	case 'I':
		return word(b, i, "Infinity")
	case '-':
		if i+1 < len(b) && b[i+1] == 'I' {
			return word(b, i, "-Infinity")
		}
		return number(b, i)
	default:
		if isDigit(c) {
			return number(b, i)
		}
		return i, noValue
	}
}

func word(b []byte, i int, w string) (end int, reason string) {
	if len(b)-i < len(w) || string(b[i:i+len(w)]) != w {
		return i, noValue
	}
	return i + len(w), ""
}

func object(b []byte, i, depth int) (end int, reason string) {
	if depth <= 0 {
		return i, tooDeep
	}
	if i = space(b, i+1); i < len(b) && b[i] == '}' {
		return i + 1, ""
	}
	for {
		if _, i, reason = key(b, i); reason != "" {
			return i, reason
		}
		if i, reason = value(b, i, depth-1); reason != "" {
			return i, reason
		}
		var more bool
		if i, more, reason = next(b, i, '}'); !more {
			return i, reason
		}
	}
}

func array(b []byte, i, depth int) (end int, reason string) {
	if depth <= 0 {
		return i, tooDeep
	}
	if i = space(b, i+1); i < len(b) && b[i] == ']' {
		return i + 1, ""
	}
	for {
		if i, reason = value(b, i, depth-1); reason != "" {
			return i, reason
		}
		var more bool
		if i, more, reason = next(b, i, ']'); !more {
			return i, reason
		}
	}
}

// key reads a key, the colon and the space after it. The key ends at end.
func key(b []byte, i int) (end, val int, reason string) {
	if i >= len(b) {
		return 0, len(b), cutShort
	}
	if b[i] != '"' {
		return 0, i, noKey
	}
	if end, reason = text(b, i); reason != "" {
		return 0, end, reason
	}
	if i = space(b, end); i >= len(b) {
		return 0, len(b), cutShort
	}
	if b[i] != ':' {
		return 0, i, noColon
	}
	return end, space(b, i+1), ""
}

// next reads what follows a value in an array or object.
func next(b []byte, i int, closing byte) (end int, more bool, reason string) {
	if i = space(b, i); i >= len(b) {
		return len(b), false, cutShort
	}
	switch b[i] {
	case ',':
		return space(b, i+1), true, ""
	case closing:
		return i + 1, false, ""
	}
	return i, false, noComma
}

func number(b []byte, i int) (end int, reason string) {
	if b[i] == '-' {
		i++
	}
	if i < len(b) && b[i] == '0' {
		i++
	} else if i, reason = digits(b, i); reason != "" {
		return i, reason
	}
	if i < len(b) && b[i] == '.' {
		if i, reason = digits(b, i+1); reason != "" {
			return i, reason
		}
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		if i++; i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		return digits(b, i)
	}
	return i, ""
}

func digits(b []byte, i int) (end int, reason string) {
	if i >= len(b) || !isDigit(b[i]) {
		return i, noDigit
	}
	for i < len(b) && isDigit(b[i]) {
		i++
	}
	return i, ""
}

func isDigit(c byte) bool { return c-'0' <= 9 }

// text reads a string with its quotes.
func text(b []byte, i int) (end int, reason string) {
	for i++; ; {
		if i = plain(b, i); i >= len(b) {
			return len(b), cutShort
		}
		switch c := b[i]; {
		case c == '"':
			return i + 1, ""
		case c == '\\':
			if i, reason = escape(b, i); reason != "" {
				return i, reason
			}
		case c < ' ':
			return i, control
		case c < utf8.RuneSelf:
			i++
		default:
			_, size := utf8.DecodeRune(b[i:])
			if size == 1 {
				return i, noUTF8
			}
			i += size
		}
	}
}

func escape(b []byte, i int) (end int, reason string) {
	if i+1 >= len(b) {
		return len(b), cutShort
	}
	switch b[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 2, ""
	case 'u':
		if len(b)-i < 6 {
			return len(b), cutShort
		}
		if _, ok := hex4(b[i+2 : i+6]); ok {
			return i + 6, ""
		}
	}
	return i, noEscape
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// plain skips the bytes of a string that mean themselves, eight at a time. The
// first of a word's marks is true: a borrow only runs to the bytes after it.
func plain(b []byte, i int) int {
	for ; i+8 <= len(b); i += 8 {
		x := binary.LittleEndian.Uint64(b[i:])
		quote, slash := x^('"'*ones), x^('\\'*ones)
		if marks := (x | (x - ' '*ones) | (quote - ones) | (slash - ones)) & highs; marks != 0 {
			return i + bits.TrailingZeros64(marks)/8
		}
	}
	for i < len(b) && b[i] >= ' ' && b[i] < utf8.RuneSelf && b[i] != '"' && b[i] != '\\' {
		i++
	}
	return i
}
