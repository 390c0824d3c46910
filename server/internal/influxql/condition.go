package influxql

import (
	"strconv"
	"strings"

	"github.com/influxdata/influxql"

	"github.com/kymogram/kymogram/internal/model"
)

// axisMark stands before an axis that a condition compares with a number.
const axisMark = "\x00"

// withAxes marks the axes that are compared with numbers: InfluxDB compares tags with texts
// only.
func withAxes(condition influxql.Expr, t *table) influxql.Expr {
	if condition == nil {
		return nil
	}
	return influxql.RewriteExpr(influxql.CloneExpr(condition), func(e influxql.Expr) influxql.Expr {
		if b, ok := e.(*influxql.BinaryExpr); ok {
			markAxis(b.LHS, b.RHS, t)
			markAxis(b.RHS, b.LHS, t)
		}
		return e
	})
}

func markAxis(name, number influxql.Expr, t *table) {
	ref, ok := name.(*influxql.VarRef)
	if !ok || t.isField(ref) || !isAxisName(ref.Val) {
		return
	}
	switch number.(type) {
	case *influxql.IntegerLiteral, *influxql.NumberLiteral, *influxql.UnsignedLiteral:
		ref.Val = axisMark + ref.Val
	}
}

func isAxisName(name string) bool {
	for _, axis := range model.Axes() {
		if string(axis) == name {
			return true
		}
	}
	return false
}

// isField says whether a name means a field of the measurement; all others mean tags.
func (t *table) isField(ref *influxql.VarRef) bool {
	_, ok := t.fields[ref.Val]
	return ok && ref.Type != influxql.Tag
}

// may says whether rows of a group can meet a condition, by the tags that all of them have.
// What depends on the row may be either way.
func (g *group) may(condition influxql.Expr, t *table, fixed func(name string) (string, bool)) bool {
	switch e := condition.(type) {
	case nil:
		return true
	case *influxql.ParenExpr:
		return g.may(e.Expr, t, fixed)
	case *influxql.BinaryExpr:
		switch e.Op {
		case influxql.AND:
			return g.may(e.LHS, t, fixed) && g.may(e.RHS, t, fixed)
		case influxql.OR:
			return g.may(e.LHS, t, fixed) || g.may(e.RHS, t, fixed)
		}
	}
	tags := map[string]any{}
	for _, ref := range influxql.ExprNames(condition) {
		value, ok := fixed(ref.Val)
		if t.isField(&ref) || !ok || strings.HasPrefix(ref.Val, axisMark) {
			return true
		}
		tags[ref.Val] = value
	}
	return influxql.EvalBool(condition, tags)
}

// pinned is an axis that rows need a certain value of to meet a condition, as those of
// "window" = '42' AND …
func (g *group) pinned(condition influxql.Expr, t *table) (axis model.Axis, value int64, ok bool) {
	switch e := condition.(type) {
	case *influxql.ParenExpr:
		return g.pinned(e.Expr, t)
	case *influxql.BinaryExpr:
		if e.Op == influxql.AND {
			if axis, value, ok = g.pinned(e.LHS, t); ok {
				return axis, value, ok
			}
			return g.pinned(e.RHS, t)
		}
		ref, isRef := e.LHS.(*influxql.VarRef)
		if e.Op != influxql.EQ || !isRef || t.isField(ref) {
			return "", 0, false
		}
		name := strings.TrimPrefix(ref.Val, axisMark)
		switch literal := e.RHS.(type) {
		case *influxql.IntegerLiteral:
			value, ok = literal.Val, name != ref.Val
		case *influxql.StringLiteral:
			var err error
			value, err = strconv.ParseInt(literal.Val, 10, 64)
			ok = err == nil
		}
		return model.Axis(name), value, ok && g.isAxis(name)
	}
	return "", 0, false
}

// settled says whether all rows of a group are alike to a condition, which [group.may] then
// has answered.
func (g *group) settled(names []influxql.VarRef, t *table) bool {
	for i := range names {
		if _, fixed := g.fixed(names[i].Val); t.isField(&names[i]) || !fixed || strings.HasPrefix(names[i].Val, axisMark) {
			return false
		}
	}
	return true
}
