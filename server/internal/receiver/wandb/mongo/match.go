package mongo

import (
	"cmp"
	"strings"

	"github.com/kymogram/kymogram/server/internal/loose"
)

// Match says whether a run fits. It fails where a regular expression would have to
// run over a text that is too large for it.
func (f *Filter) Match(r Record) (bool, error) { return f.root.match(r, make([][]byte, 0, 4)) }

// All is true of a filter that holds for every run.
func (f *Filter) All() bool { return f.root.act == every && len(f.root.kids) == 0 }

// match looks at the values of one path after the other, in the same space.
func (n *node) match(r Record, space [][]byte) (bool, error) {
	if n.act == field {
		return n.test.holds(&n.path, n.path.values(r, space[:0]))
	}
	for _, kid := range n.kids {
		ok, err := kid.match(r, space)
		if err != nil {
			return false, err
		}
		if ok != (n.act == every) {
			return n.act == some, nil
		}
	}
	return n.act != some, nil
}

// holds judges the values of a path; nil is one that is missing.
func (t *test) holds(at *path, values [][]byte) (bool, error) {
	switch t.verb {
	case all, either, neither:
		return t.join(at, values)
	case exists:
		for _, v := range values {
			if v != nil {
				return true, nil
			}
		}
		return false, nil
	case holdsAll:
		for i := range t.every {
			if !anyOf(values, func(v []byte) bool { return t.every[i].has(v, at.shape == moment) }) && !t.every[i].missing(values) {
				return false, nil
			}
		}
		return len(t.every) > 0, nil
	case equals:
		return t.set.missing(values) || anyOf(values, func(v []byte) bool { return t.set.has(v, at.shape == moment) }), nil
	case size:
		for _, v := range values {
			if loose.KindOf(v) == loose.Array && float64(length(v)) == t.size {
				return true, nil
			}
		}
		return false, nil
	case matches, contains:
		return t.onText(values)
	}
	return t.compares(at, values), nil
}

func (t *test) join(at *path, values [][]byte) (bool, error) {
	for _, part := range t.parts {
		ok, err := part.holds(at, values)
		if err != nil {
			return false, err
		}
		if ok != (t.verb == all) {
			return t.verb == either, nil
		}
	}
	return t.verb != either, nil
}

// missing is true where the set has null and a value is missing.
func (s *set) missing(values [][]byte) bool {
	if !s.null {
		return false
	}
	for _, v := range values {
		if v == nil {
			return true
		}
	}
	return len(values) == 0
}

// anyOf asks for the values, and for the elements of those that are arrays.
func anyOf(values [][]byte, holds func(v []byte) bool) bool {
	for _, v := range values {
		if v != nil && holds(v) {
			return true
		}
		if loose.KindOf(v) != loose.Array {
			continue
		}
		for e := range loose.Items(v) {
			if holds(e) {
				return true
			}
		}
	}
	return false
}

func length(array []byte) (n int) {
	for range loose.Items(array) {
		n++
	}
	return n
}

func (t *test) compares(at *path, values [][]byte) bool {
	if t.operand.kind == loose.Null {
		s := set{null: t.verb == lessEqual || t.verb == moreEqual}
		return s.missing(values) || anyOf(values, func(v []byte) bool { return s.has(v, false) })
	}
	return anyOf(values, func(v []byte) bool {
		c, ok := t.operand.compare(v, at.shape == moment)
		switch t.verb {
		case less:
			return ok && c < 0
		case lessEqual:
			return ok && c <= 0
		case more:
			return ok && c > 0
		}
		return ok && c >= 0
	})
}

// compare orders a value and the operand, if they are of one kind.
func (o *operand) compare(v []byte, asTime bool) (order int, ok bool) {
	if loose.KindOf(v) != o.kind {
		return 0, false
	}
	switch o.kind {
	case loose.Bool:
		return cmp.Compare(v[0], o.value[0]), true // false, true
	case loose.Number:
		return loose.CompareNumbers(v, o.value), string(v) != "NaN" && string(o.value) != "NaN"
	}
	text, _ := loose.Text(v)
	if asTime && o.timed {
		if t, ok := parseTime(text); ok {
			return t.Compare(o.time), true
		}
	}
	return strings.Compare(text, o.text), true
}

// onText runs over the texts of values, the texts in arrays, and the JSON texts of
// all that is no text.
func (t *test) onText(values [][]byte) (bool, error) {
	for _, v := range values {
		if v == nil {
			continue
		}
		if ok, err := t.inText(textOf(v)); ok || err != nil {
			return ok, err
		}
		if loose.KindOf(v) != loose.Array {
			continue
		}
		for e := range loose.Items(v) {
			if loose.KindOf(e) != loose.String {
				continue
			}
			if ok, err := t.inText(textOf(e)); ok || err != nil {
				return ok, err
			}
		}
	}
	return false, nil
}

func textOf(v []byte) string {
	if loose.KindOf(v) == loose.String {
		text, _ := loose.Text(v)
		return text
	}
	return string(loose.Spaced(nil, v))
}

func (t *test) inText(text string) (bool, error) {
	if t.verb == contains {
		return strings.Contains(text, t.text), nil
	}
	return t.pattern.find(text)
}
