package query

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
)

// groupOrder is how groups are sorted.
type groupOrder struct {
	by     string // runs, key, mean, std, min or max
	column int    // of a statistic, else -1
	sign   int
}

func (r *GroupsRequest) order() (groupOrder, error) {
	name, desc := strings.CutPrefix(cmp.Or(r.Order, "-runs"), "-")
	o := groupOrder{by: name, column: -1, sign: 1}
	if desc {
		o.sign = -1
	}
	if name == "runs" || name == "key" {
		return o, nil
	}
	of, place, _ := strings.Cut(name, ":")
	column, err := strconv.Atoi(place)
	if err != nil || column < 0 || column >= len(r.Columns) || !slices.Contains([]string{"mean", "std", "min", "max"}, of) {
		return o, model.Errorf(model.CodeInvalid, "groups cannot be sorted by %q", model.Clip(r.Order)).
			WithHint("sort by runs, key, mean:0, std:0, min:0 or max:0, where 0 is the place of the column; - in front: descending")
	}
	o.by, o.column = of, column
	return o, nil
}

// compare puts groups without a value last, and those that are equal by their keys.
func (o *groupOrder) compare(a, b *Group, ordered []Statistics, keys []catalog.GroupKey) int {
	switch o.by {
	case "runs":
		return cmp.Or(o.sign*cmp.Compare(a.Runs, b.Runs), byValues(a, b, keys))
	case "key":
		return o.sign * byValues(a, b, keys)
	}
	x, y := ordered[a.index].value(o.by), ordered[b.index].value(o.by)
	if x != x || y != y {
		return cmp.Or(cmp.Compare(b2i(x != x), b2i(y != y)), byValues(a, b, keys))
	}
	return cmp.Or(o.sign*cmp.Compare(x, y), byValues(a, b, keys))
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// byValues compares numbers as such, before texts; groups without a value come last.
func byValues(a, b *Group, keys []catalog.GroupKey) int {
	for i := range keys {
		if c := compareValues(&keys[i].Values[a.places[i]], &keys[i].Values[b.places[i]]); c != 0 {
			return c
		}
	}
	return 0
}

func compareValues(a, b *model.Value) int {
	rank := func(v *model.Value) int {
		return slices.Index([]model.ValueType{model.TypeBool, model.TypeFloat, model.TypeTime, model.TypeString, model.TypeStringSet, ""}, classOf(v))
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(b2i(a.Bool), b2i(b.Bool)), cmp.Compare(numberOf(a), numberOf(b)),
		cmp.Compare(a.Int, b.Int), cmp.Compare(a.Str, b.Str), slices.Compare(a.Set, b.Set))
}

func classOf(v *model.Value) model.ValueType {
	if v.Type == model.TypeInt {
		return model.TypeFloat
	}
	return v.Type
}

func numberOf(v *model.Value) float64 {
	if v.Type == model.TypeInt {
		return float64(v.Int)
	}
	return v.Float
}
