package mongo

import (
	"math"
	"strings"
	"time"

	"github.com/kymogram/kymogram/server/internal/loose"
)

// verb is what a test asks of the values of a path.
type verb uint8

const (
	all verb = iota // of its parts, for the same values
	either
	neither
	equals // one of operands
	less
	lessEqual
	more
	moreEqual
	exists
	matches // a regular expression
	contains
	size
	holdsAll // of operands
)

// test is a condition on the values of a path.
type test struct {
	verb    verb
	parts   []*test
	set     set         // of equals
	every   []set       // of holdsAll: each has one value
	operand operand     // of less and its like
	pattern *expression // of matches
	text    string      // of contains
	size    float64
}

// operand is a value of a filter.
type operand struct {
	value []byte
	kind  loose.Kind
	text  string
	time  time.Time
	timed bool // the path leads to times, and the value is one
}

func operandOf(at path, v []byte) operand {
	o := operand{value: v, kind: loose.KindOf(v)}
	o.text, _ = loose.Text(v)
	if at.shape == moment {
		o.time, o.timed = parseTime(o.text)
	}
	return o
}

// tests reads the conditions of a field: an object of operators, or a value that
// the field must equal.
func (p *parser) tests(at path, v []byte, depth int) (*test, error) {
	if depth <= 0 {
		return nil, refuse("the filter is nested deeper than %d", MaxDepth)
	}
	if !isOperators(v) {
		return p.one(at, "$eq", v, depth)
	}
	t := &test{verb: all}
	seen := map[string]bool{}
	var options []byte
	for m, err := range loose.Members(v) {
		if err != nil {
			return nil, refuse("read the filter: %v", err)
		}
		name := string(m.Key)
		if err := once(seen, name, m.Faithful); err != nil {
			return nil, err
		}
		if name == "$options" {
			options = m.Value
			continue
		}
		part, err := p.one(at, name, m.Value, depth)
		if err != nil {
			return nil, err
		}
		t.parts = append(t.parts, part)
	}
	if options == nil {
		return t, nil
	}
	return t, p.setOptions(t, options)
}

// isOperators tells conditions from a value that a field must equal: a name begins
// with a dollar.
func isOperators(v []byte) bool {
	for name := range loose.Pairs(v) {
		if strings.HasPrefix(string(name), `"$`) {
			return true
		}
	}
	return false
}

func (p *parser) one(at path, name string, v []byte, depth int) (*test, error) {
	if err := p.count(); err != nil {
		return nil, err
	}
	switch name {
	case "$eq", "$ne", "$in", "$nin", "$all":
		return p.equality(at, name, v)
	case "$gt":
		return comparison(more, at, name, v)
	case "$gte":
		return comparison(moreEqual, at, name, v)
	case "$lt":
		return comparison(less, at, name, v)
	case "$lte":
		return comparison(lessEqual, at, name, v)
	case "$exists":
		return existence(at, v)
	case "$size":
		n, exact := loose.Float(v)
		if !exact || n < 0 || n != math.Trunc(n) {
			return nil, refuse("$size of %.100q needs a whole number from 0, not %s", at.spelled, shown(v))
		}
		return &test{verb: size, size: n}, nil
	case "$regex", "$contains":
		return p.onText(at, name, v)
	case "$not":
		if !isOperators(v) {
			return nil, refuse("$not of %.100q needs an object of operators, not %s", at.spelled, shown(v))
		}
		inner, err := p.tests(at, v, depth-1)
		return &test{verb: neither, parts: []*test{inner}}, err
	case "$and":
		return p.joined(at, name, all, v, depth)
	case "$or":
		return p.joined(at, name, either, v, depth)
	case "$nor":
		return p.joined(at, name, neither, v, depth)
	}
	return nil, unknown(name, "in the conditions of "+at.spelled)
}

// joined reads the lists of conditions on one field.
func (p *parser) joined(at path, name string, verb verb, v []byte, depth int) (*test, error) {
	t := &test{verb: verb}
	kind := every
	if verb == either {
		kind = some
	}
	err := p.elements(name, kind, v, func(e []byte) error {
		part, err := p.tests(at, e, depth-1)
		t.parts = append(t.parts, part)
		return err
	})
	return t, err
}

func (p *parser) equality(at path, name string, v []byte) (*test, error) {
	if name == "$eq" || name == "$ne" {
		t := &test{verb: equals}
		t.set.add(operandOf(at, v))
		return negated(t, name == "$ne"), nil
	}
	if loose.KindOf(v) != loose.Array {
		return nil, refuse("%s of %.100q needs a list, not %s", name, at.spelled, shown(v))
	}
	t := &test{verb: equals}
	if name == "$all" {
		t.verb = holdsAll
	}
	for e, err := range loose.Elements(v) {
		if err != nil {
			return nil, refuse("read the filter: %v", err)
		}
		if isOperators(e) {
			return nil, refuse("%s of %.100q has an operator in its list: %s", name, at.spelled, shown(e))
		}
		o := operandOf(at, e)
		if t.verb == holdsAll {
			var one set
			one.add(o)
			t.every = append(t.every, one)
		} else {
			t.set.add(o)
		}
		if t.verb == holdsAll || !o.quick() {
			if err := p.count(); err != nil {
				return nil, err
			}
		}
	}
	return negated(t, name == "$nin"), nil
}

func negated(t *test, not bool) *test {
	if not {
		return &test{verb: neither, parts: []*test{t}}
	}
	return t
}

func comparison(verb verb, at path, name string, v []byte) (*test, error) {
	switch o := operandOf(at, v); o.kind {
	case loose.Array, loose.Object:
		return nil, refuse("%s of %.100q cannot compare with %s", name, at.spelled, shown(v)).
			WithHint("Compare with a number, a text, a bool or null.")
	default:
		return &test{verb: verb, operand: o}, nil
	}
}

func existence(at path, v []byte) (*test, error) {
	n, exact := loose.Float(v)
	switch {
	case string(v) == "true", exact && n != 0:
		return &test{verb: exists}, nil
	case string(v) == "false", exact:
		return negated(&test{verb: exists}, true), nil
	}
	return nil, refuse("$exists of %.100q is true or false, not %s", at.spelled, shown(v))
}

func (p *parser) onText(at path, name string, v []byte) (*test, error) {
	text, faithful := loose.Text(v)
	if !faithful {
		return nil, refuse("%s of %.100q needs a text, not %s", name, at.spelled, shown(v))
	}
	if name == "$contains" {
		return &test{verb: contains, text: text}, nil
	}
	e, err := p.compile(at, text, "")
	return &test{verb: matches, pattern: e}, err
}

// setOptions gives $options to the $regex next to it.
func (p *parser) setOptions(t *test, options []byte) error {
	flags, faithful := loose.Text(options)
	for _, part := range t.parts {
		if part.verb != matches {
			continue
		}
		if !faithful || strings.Trim(flags, "ims") != "" {
			return refuse("$options of %.100q is %s", part.pattern.at.spelled, shown(options)).WithHint("The options i, m and s are supported.")
		}
		e, err := p.compile(part.pattern.at, part.pattern.source, flags)
		part.pattern = e
		return err
	}
	return refuse("$options needs a $regex next to it")
}
