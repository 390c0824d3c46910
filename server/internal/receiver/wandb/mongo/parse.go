package mongo

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/loose"
)

// The bounds of a filter.
const (
	MaxBytes      = 1 << 20
	MaxDepth      = 32
	MaxConditions = 1000
	maxPath       = 2048               // bytes of a path
	maxParts      = 10 * MaxConditions // of lists: $and, $or, $nor
)

// operators lists what a filter may say, for the hint of an error.
const operators = "$and, $or, $nor, $not, $eq, $ne, $gt, $gte, $lt, $lte, $in, $nin, $exists, $regex, $options, $contains, $size, $all"

// Filter is a condition on runs. It never changes, so goroutines may share it.
type Filter struct{ root *node }

// act is what a node does with its parts.
type act uint8

const (
	every act = iota
	some
	none
	field // its tests hold for the values of a path
)

// node is a part of a filter; where its tests are not for a path, it has kids.
type node struct {
	act  act
	kids []*node
	path path
	test *test
}

// Parse reads a filter. Nothing, null and {} hold for every run.
func Parse(filter []byte) (*Filter, error) {
	if len(filter) > MaxBytes {
		return nil, refuse("the filter has %d bytes", len(filter)).WithHint("A filter has at most %d bytes.", MaxBytes)
	}
	filter = bytes.TrimSpace(filter)
	if len(filter) == 0 || string(filter) == "null" {
		return &Filter{&node{act: every}}, nil
	}
	if err := loose.Check(filter); err != nil {
		var wrong *loose.Error
		if errors.As(err, &wrong) {
			err = refuse("the filter is not valid JSON at byte %d: %s", wrong.Offset, wrong.Reason)
		}
		return nil, err
	}
	p := parser{program: new(int)}
	root, err := p.filter(filter, MaxDepth)
	if err != nil {
		return nil, err
	}
	return &Filter{root}, nil
}

func refuse(format string, args ...any) *model.Error {
	return model.Errorf(model.CodeInvalid, format, args...)
}

// parser counts what the bounds are about.
type parser struct {
	conditions int
	parts      int
	program    *int // instructions of all regular expressions
}

func (p *parser) count() error {
	if p.conditions++; p.conditions > MaxConditions {
		return refuse("the filter has more than %d conditions", MaxConditions).
			WithHint("Use $in with a list instead of $or with many conditions.")
	}
	return nil
}

// filter reads an object whose members must all hold.
func (p *parser) filter(v []byte, depth int) (*node, error) {
	if depth == 0 {
		return nil, refuse("the filter is nested deeper than %d", MaxDepth)
	}
	if loose.KindOf(v) != loose.Object {
		return nil, refuse("%s is not a filter", shown(v)).WithHint(`A filter is a JSON object, as in {"state": "running"}.`)
	}
	all := &node{act: every}
	seen := map[string]bool{}
	for m, err := range loose.Members(v) {
		if err != nil {
			return nil, refuse("read the filter: %v", err)
		}
		name := string(m.Key)
		if err := once(seen, name, m.Faithful); err != nil {
			return nil, err
		}
		kid, err := p.member(name, m.Value, depth)
		if err != nil {
			return nil, err
		}
		all.kids = append(all.kids, kid)
	}
	if len(all.kids) == 1 && all.kids[0].act == field {
		return all.kids[0], nil
	}
	cheapFirst(all.kids)
	return all, nil
}

// once refuses a name that stands twice. JSON would let the last one win, so a
// condition would be lost.
func once(seen map[string]bool, name string, faithful bool) error {
	if seen[name] || !faithful {
		return refuse("%.100q stands twice in one object of the filter, or is not valid Unicode", name).WithHint("Put the conditions into the list of an $and.")
	}
	seen[name] = true
	return nil
}

// cheapFirst puts conditions on a run's own columns before those that look into a
// JSON text. The order of conditions does not change what a filter means.
func cheapFirst(kids []*node) {
	slices.SortStableFunc(kids, func(a, b *node) int { return a.cost() - b.cost() })
}

func (n *node) cost() int {
	switch {
	case n.act != field:
		return 2
	case n.path.shape >= tree:
		return 1
	}
	return 0
}

func (p *parser) member(name string, v []byte, depth int) (*node, error) {
	switch name {
	case "$and":
		return p.list(name, every, v, depth)
	case "$or":
		return p.list(name, some, v, depth)
	case "$nor":
		return p.list(name, none, v, depth)
	case "$not":
		kid, err := p.filter(v, depth-1)
		return &node{act: none, kids: []*node{kid}}, err
	}
	if strings.HasPrefix(name, "$") {
		return nil, unknown(name, "at the place of a field")
	}
	if len(name) > maxPath {
		return nil, refuse("the path %.100q… has %d bytes", name, len(name)).WithHint("A path has at most %d bytes.", maxPath)
	}
	at, err := parsePath(name)
	if err != nil {
		return nil, err
	}
	t, err := p.tests(at, v, depth-1)
	return &node{act: field, path: at, test: t}, err
}

func unknown(operator, where string) error {
	return refuse("the operator %.100q is not supported %s", operator, where).WithHint("Supported are %s.", operators)
}

func (p *parser) list(name string, act act, v []byte, depth int) (*node, error) {
	n := &node{act: act}
	if err := p.elements(name, act, v, func(e []byte) error {
		kid, err := p.filter(e, depth-1)
		n.kids = append(n.kids, kid)
		return err
	}); err != nil {
		return nil, err
	}
	cheapFirst(n.kids)
	return n, nil
}

// elements reads the list of $and, $or and $nor. An empty $or holds for no run, or for
// all: it is refused, as in MongoDB.
func (p *parser) elements(name string, act act, v []byte, add func(e []byte) error) error {
	if loose.KindOf(v) != loose.Array {
		return refuse("%s needs a list, not %s", name, shown(v))
	}
	count := 0
	for e, err := range loose.Elements(v) {
		if p.parts++; p.parts > maxParts {
			return refuse("the lists of the filter have more than %d parts", maxParts)
		}
		if err == nil {
			err = add(e)
		}
		if err != nil {
			return err
		}
		count++
	}
	if count == 0 && act == some {
		return refuse("the list of %s is empty", name).WithHint("Leave it out to get all runs.")
	}
	return nil
}

// shown is the beginning of a value, for an error.
func shown(v []byte) string {
	text := loose.Compact(nil, v[:min(len(v), 200)])
	if len(text) > 60 {
		return strings.ToValidUTF8(string(text[:60]), "") + "…"
	}
	return strings.ToValidUTF8(string(text), "")
}
