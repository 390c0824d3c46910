package model

import "slices"

// Kind is the type of a series' values, set by its first point.
type Kind uint8

// The kinds of series.
const (
	KindFloat     Kind = 1 // float64, every bit pattern kept
	KindInt       Kind = 2 // int64, exact
	KindText      Kind = 3 // UTF-8
	KindHistogram Kind = 4 // the JSON of a [Histogram]
	KindScatter   Kind = 5 // the JSON of a [Scatter]
)

var kindNames = [...]string{KindFloat: "float64", KindInt: "int64", KindText: "text", KindHistogram: "histogram", KindScatter: "scatter"}

// KindNames are those that [Kind.String] gives.
func KindNames() []string { return slices.Clone(kindNames[KindFloat:]) }

func (k Kind) String() string {
	if int(k) < len(kindNames) && kindNames[k] != "" {
		return kindNames[k]
	}
	return "unknown"
}
