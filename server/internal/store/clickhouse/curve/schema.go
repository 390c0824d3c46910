package curve

import (
	"cmp"
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

// Form is how servers are given a table of points: all take the zero value.
type Form struct {
	// Engine is MergeTree, or a kind of it with what it is given.
	Engine string
	// Current servers compress each column by what is in it, and find new rows by the lsn.
	Current bool
}

// Create is the statement that makes a table of points. Rows of one series lie together by step,
// so that a page of a long series reads a part of it alone.
func Create(name string, f Form) string {
	var list []string
	for _, c := range table() {
		text := quote(c.name) + " " + c.kind
		if f.Current {
			text = quote(c.name) + " " + c.current() + " CODEC(" + c.codec() + "ZSTD(1))"
		}
		list = append(list, text)
	}
	if f.Current {
		list = append(list, "INDEX lsn_range lsn TYPE minmax GRANULARITY 1")
	}
	return "CREATE TABLE IF NOT EXISTS " + name + " (" + strings.Join(list, ", ") +
		") ENGINE = " + cmp.Or(f.Engine, "MergeTree") + " ORDER BY (run, series, step, arrival)"
}

type column struct{ name, kind string }

// current is the type on current servers. Every read compares the run of each row.
func (c column) current() string {
	if c.name == "run" {
		return "LowCardinality(" + c.kind + ")"
	}
	return c.kind
}

// codec is what comes before ZSTD; docs/design/0027-clusters-of-clickhouse.md has the sizes.
func (c column) codec() string {
	switch c.name {
	case "time":
		return "Delta, "
	case "float":
		return "FPC, "
	case "int":
		return "T64, "
	}
	if c.kind == "Int64" || c.kind == "UInt64" && c.name != "logger" {
		return "DoubleDelta, "
	}
	return ""
}

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
