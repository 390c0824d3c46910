package loose

import (
	"bytes"
	"encoding/binary"
	"iter"
	"math/bits"
)

// Get looks up a path of keys. It takes the last of equal keys. The text must
// have passed Check; then Get skips what it does not need without a second look.
func Get(b []byte, path ...string) (val []byte, ok bool) {
	val = trimmed(b)
	for _, name := range path {
		if val, ok = member(val, name); !ok {
			return nil, false
		}
	}
	return val, len(val) > 0
}

func trimmed(b []byte) []byte { return bytes.Trim(b, " \t\r\n") }

func member(b []byte, name string) (val []byte, ok bool) {
	for key, v := range Pairs(b) {
		if IsKey(key, name) {
			val, ok = v, true
		}
	}
	return val, ok
}

// Pairs walks through the members of an object that has passed Check: keys as they
// came, with their quotes, and values. It is faster than Members, which checks.
func Pairs(b []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, val []byte) bool) { pairs(b, yield) }
}

func pairs(b []byte, yield func(key, val []byte) bool) {
	i := space(b, 0)
	if i >= len(b) || b[i] != '{' {
		return
	}
	for i = space(b, i+1); i < len(b) && b[i] == '"'; {
		end := pastText(b, i)
		from := space(b, end)
		if from >= len(b) || b[from] != ':' {
			return
		}
		from = space(b, from+1)
		to := pastValue(b, from)
		if to == from || !yield(b[i:end], b[from:to]) {
			return
		}
		i = pastComma(b, to)
	}
}

// Items walks through the elements of an array that has passed Check. It is faster
// than Elements, which checks.
func Items(b []byte) iter.Seq[[]byte] {
	return func(yield func(v []byte) bool) { items(b, yield) }
}

func items(b []byte, yield func(v []byte) bool) {
	i := space(b, 0)
	if i >= len(b) || b[i] != '[' {
		return
	}
	for i = space(b, i+1); i < len(b) && b[i] != ']'; {
		to := pastValue(b, i)
		if to == i || !yield(b[i:to]) {
			return
		}
		i = pastComma(b, to)
	}
}

// Next is the element that begins at b[i], in an array that has passed Check, and where the
// one behind it begins, or the closing bracket.
func Next(b []byte, i int) (v []byte, next int) {
	to := pastValue(b, i)
	return b[i:to], pastComma(b, to)
}

// IsKey compares a quoted text with a name, and decodes it only where it must.
func IsKey(quoted []byte, name string) bool {
	if len(quoted) < len(name)+2 {
		return false
	}
	if inner := quoted[1 : len(quoted)-1]; len(inner) == len(name) || bytes.IndexByte(inner, '\\') < 0 {
		if string(inner) == name {
			return bytes.IndexByte(inner, '\\') < 0
		}
		return false
	}
	plain, faithful := unquoted(quoted)
	return faithful && string(plain) == name
}

// pastText skips a string; it ends after the closing quote.
func pastText(b []byte, i int) int {
	for i++; i < len(b); {
		if i+8 <= len(b) {
			x := binary.LittleEndian.Uint64(b[i:])
			quote, slash := x^('"'*ones), x^('\\'*ones)
			marks := ((quote-ones)&^quote | (slash-ones)&^slash) & highs
			if marks == 0 {
				i += 8
				continue
			}
			i += bits.TrailingZeros64(marks) / 8
		}
		switch b[i] {
		case '"':
			return i + 1
		case '\\':
			i++
		}
		i++
	}
	return len(b)
}

// pastValue skips a value.
func pastValue(b []byte, i int) int {
	if i >= len(b) {
		return len(b)
	}
	switch b[i] {
	case '"':
		return pastText(b, i)
	case '{', '[':
		return pastNested(b, i)
	}
	for i < len(b) && scalar(b[i]) {
		i++
	}
	return i
}

func scalar(c byte) bool { return c > ' ' && c != ',' && c != ']' && c != '}' }
