package curve

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
)

// axes is a set of axes: bit i is model.Axes()[i]. It is the column has of the table.
type axes uint16

// Places of the axes that rules speak of.
const (
	step, rlStep, episode, envStep = 0, 1, 2, 3

	ofRL axes = 1<<rlStep | 1<<episode | 1<<envStep
)

func (a axes) has(i int) bool { return a>>i&1 == 1 }

// names lists the axes in their order.
func (a axes) names() (out []model.Axis) {
	for i, name := range model.Axes() {
		if a.has(i) {
			out = append(out, name)
		}
	}
	return out
}

// axisOf is the place of an axis, -1 for time.
func axisOf(a model.Axis) (int, error) {
	if a == model.AxisTime {
		return -1, nil
	}
	if at := slices.Index(model.Axes(), a); at >= 0 {
		return at, nil
	}
	return 0, model.Errorf(model.CodeInvalid, "unknown axis %q", a)
}

// names of columns as a stage of a query gives them: each stage has a prefix of its own,
// because ClickHouse takes a name for the alias of the same query where there is one.
type names string

func (n names) of(column string) string { return quote(string(n) + column) }

func (n names) axis(i int) string { return n.of(string(model.Axes()[i])) }

// x is the place of a row along an axis, the time below 0.
func (n names) x(axis int) string {
	if axis < 0 {
		return n.of("time")
	}
	return n.axis(axis)
}

// on is true for rows with any of some axes.
func (n names) on(a axes) string {
	return fmt.Sprintf("bitAnd(%s, %d) != 0", n.of("has"), a)
}

// onAxis is true for rows that stand on an axis.
func (n names) onAxis(axis int) string {
	if axis < 0 {
		return "1"
	}
	return n.on(1 << axis)
}

// cut is the axis that ResumeFrom speaks of, of rows with a step.
func (n names) cut() string {
	return fmt.Sprintf("if(%s, %s, %s)", n.on(1<<rlStep), n.axis(rlStep), n.axis(step))
}

// integer is a literal of type Int64. Written as a number, one would have the smallest type
// that holds it.
func integer(v int64) string { return "toInt64('" + strconv.FormatInt(v, 10) + "')" }

func bytes16(b [16]byte) string {
	return "toFixedString(unhex('" + hex.EncodeToString(b[:]) + "'), 16)"
}

// array is a literal of numbers of a type. Written as a list, each number would count as a part of
// the query, of which a server takes 50,000.
func array[T int64 | uint32 | uint64](kind string, list []T) string {
	return "CAST('[" + joined(list, func(v T) string { return fmt.Sprint(v) }) + "]' AS Array(" + kind + "))"
}

func joined[T any](list []T, literal func(T) string) string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = literal(v)
	}
	return strings.Join(out, ", ")
}

func number32(v uint32) string { return "toUInt32(" + strconv.FormatUint(uint64(v), 10) + ")" }

func seriesNumber(s Series) string { return strconv.FormatUint(uint64(s.ID), 10) }

// all joins conditions; none is true.
func all(conditions ...string) string {
	conditions = slices.DeleteFunc(conditions, func(c string) bool { return c == "" || c == "1" })
	if len(conditions) == 0 {
		return "1"
	}
	return "(" + strings.Join(conditions, ") AND (") + ")"
}

func joinedWith[T any](list []T, joint string, literal func(T) string) string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = literal(v)
	}
	return strings.Join(out, joint)
}

// decimal is for lists to look in, which have one type.
func decimal(v int64) string { return strconv.FormatInt(v, 10) }
