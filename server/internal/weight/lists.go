package weight

// Lists says what the elements of a JSON text take that becomes Go values.
type Lists struct {
	// Depth is how deep the lists of large elements are: 1 for a text that is such a list.
	Depth int
	// Each is what an element of these takes.
	Each int
}

// What any other part of a text takes.
const (
	eachObject = 256
	eachValue  = 160 // an entry of a map, or of a list of texts
	copies     = 4   // of the text itself: raw parts, texts, what grows on the way
)

// Of weighs a text; a Lists that is zero weighs nothing.
func (l Lists) Of(text []byte) int {
	if l.Each == 0 {
		return 0
	}
	sum, depth := copies*len(text), 0
	lists := uint64(0) // a bit for each depth: whether it is a list
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			i += lengthOfText(text[i+1:])
		case '[', '{':
			depth++
			bit := uint64(1) << min(depth, 63)
			if lists &^= bit; text[i] == '[' {
				lists |= bit
			}
			sum += eachObject + l.each(depth, lists)
		case ']', '}':
			depth = max(depth-1, 0)
		case ',':
			sum += l.each(depth, lists)
		}
	}
	return sum
}

// each is what the next value takes.
func (l Lists) each(depth int, lists uint64) int {
	if depth > 0 && depth <= l.Depth && lists&(1<<depth) != 0 {
		return l.Each
	}
	return eachValue
}

// lengthOfText is the place behind the closing quote, relative to the opening one.
func lengthOfText(b []byte) int {
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(b)
}
