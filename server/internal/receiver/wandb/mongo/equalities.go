package mongo

import (
	"maps"
	"slices"
)

// Equality is a condition that every run that fits meets: the field is one of the
// texts. Its field is one of Fields that has one text.
type Equality struct {
	Field  string
	Values []string
}

// Equalities lists conditions by which a caller may narrow the runs before it asks
// Match. Match still decides.
func (f *Filter) Equalities() []Equality { return f.root.equalities(nil) }

func (n *node) equalities(to []Equality) []Equality {
	switch n.act {
	case every:
		for _, kid := range n.kids {
			to = kid.equalities(to)
		}
	case field:
		if n.path.shape == plain {
			to = n.test.equalities(n.path.field, to)
		}
	}
	return to
}

func (t *test) equalities(field string, to []Equality) []Equality {
	switch t.verb {
	case all:
		for _, part := range t.parts {
			to = part.equalities(field, to)
		}
	case equals:
		if s := t.set; !s.null && len(s.numbers)+len(s.others)+len(s.times) == 0 {
			to = append(to, Equality{field, slices.Sorted(maps.Keys(s.texts))})
		}
	}
	return to
}
