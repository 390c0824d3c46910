package loose

import "bytes"

// Equal says whether two texts are the same value. Numbers are compared as Python
// reads them: integers with all digits, the others as float64. NaN equals NaN,
// -0.0 equals 0. The order of members does not count. Values nested deeper than
// MaxDepth are compared as texts.
func Equal(a, b []byte) bool { return equal(trimmed(a), trimmed(b), MaxDepth) }

func equal(a, b []byte, depth int) bool {
	kind := KindOf(a)
	if kind != KindOf(b) {
		return false
	}
	if depth == 0 {
		return bytes.Equal(a, b)
	}
	switch kind {
	case None:
		return false
	case Number:
		return CompareNumbers(a, b) == 0
	case String:
		return bytes.Equal(a, b) || bytes.Equal(identity(a), identity(b))
	case Array:
		return sameArray(a, b, depth-1)
	case Object:
		return sameObject(a, b, depth-1)
	}
	return bytes.Equal(a, b)
}

// identity decodes a string without loss, so that different ones stay different.
func identity(quoted []byte) []byte {
	if len(quoted) < 2 || bytes.IndexByte(quoted, '\\') < 0 {
		return quoted
	}
	inner, _ := appendText(nil, quoted[1:len(quoted)-1], -1)
	return append(append([]byte{'"'}, inner...), '"')
}

func sameArray(a, b []byte, depth int) bool {
	i, j := space(a, 1), space(b, 1)
	for i < len(a) && j < len(b) && a[i] != ']' && b[j] != ']' {
		endA, endB := pastValue(a, i), pastValue(b, j)
		if endA == i || endB == j || !equal(a[i:endA], b[j:endB], depth) {
			return false
		}
		i, j = pastComma(a, endA), pastComma(b, endB)
	}
	return i < len(a) && j < len(b) && a[i] == b[j]
}

func pastComma(b []byte, i int) int {
	if i = space(b, i); i < len(b) && b[i] == ',' {
		return space(b, i+1)
	}
	return i
}

func sameObject(a, b []byte, depth int) bool {
	left, right := table(a), table(b)
	if len(left) != len(right) {
		return false
	}
	for name, v := range left {
		if w, ok := right[name]; !ok || !equal(v, w, depth) {
			return false
		}
	}
	return true
}

// table holds the members of an object; later ones replace earlier ones.
func table(b []byte) map[string][]byte {
	all := map[string][]byte{}
	for name, v := range Pairs(b) {
		all[string(identity(name))] = v
	}
	return all
}
