package curve

import (
	"strings"

	"github.com/kymogram/kymogram/internal/model"
)

// Columns are those of the table of points, in the order of [Create]:
//
//	run      16 bytes
//	series   its number in the run
//	lsn      of the batch; it counts when a span of [Facts] has it
//	arrival  number of the point in its run: later points have higher ones, also in later batches
//	writer, seq, attempt
//	logger   the writer's pinned logger id, when logged is 1
//	rule     model.Uniqueness
//	has      bit i: the point has axis model.Axes()[i]
//	an axis each, by its name; 0 where the point has none
//	time     Unix nanoseconds
//	kind     model.Kind; the value is in float, int, or doc for the other kinds
func Columns() []string {
	var out []string
	for _, c := range table() {
		out = append(out, c.name)
	}
	return out
}

// Create is the statement that makes a table of points. Rows of one series lie together by step,
// so that a page of a long series reads a part of it alone.
func Create(name string) string {
	var list []string
	for _, c := range table() {
		list = append(list, quote(c.name)+" "+c.kind)
	}
	return "CREATE TABLE IF NOT EXISTS " + name + " (" + strings.Join(list, ", ") +
		") ENGINE = MergeTree ORDER BY (run, series, step, arrival)"
}

type column struct{ name, kind string }

func table() []column {
	out := []column{
		{"run", "FixedString(16)"},
		{"series", "UInt32"},
		{"lsn", "UInt64"},
		{"arrival", "UInt64"},
		{"writer", "FixedString(16)"},
		{"seq", "UInt64"},
		{"attempt", "UInt32"},
		{"logger", "UInt64"},
		{"logged", "UInt8"},
		{"rule", "UInt8"},
		{"has", "UInt16"},
	}
	for _, a := range model.Axes() {
		out = append(out, column{string(a), "Int64"})
	}
	return append(out, column{"time", "Int64"}, column{"kind", "UInt8"}, column{"float", "Float64"}, column{"int", "Int64"}, column{"doc", "String"})
}

// quote is for names that are words of SQL too, as window is.
func quote(name string) string { return "`" + name + "`" }
