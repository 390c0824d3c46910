package clickhouse

import (
	"cmp"
	"math"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse/curve"
	"github.com/kymogram/kymogram/server/internal/store/local/column"
)

// tallyOf sums up rows of one shape, in the order of their arrival; last is the row that ends them.
func tallyOf(rows *column.Rows) (t curve.Tally, last int) {
	t = curve.Tally{Count: uint64(rows.Len()), Rules: 1 << rows.Mode, Some: uint16(rows.Mask), Every: uint16(rows.Mask)}
	t.MinTime, t.MaxTime, t.Again = rangeOf(rows.Time)
	if rows.Mask.Has(column.Step) {
		var again *curve.Interval
		t.Low, t.High, again = rangeOf(rows.Axes[column.Step])
		if rows.Mode != model.UniqueTime {
			t.Again = again
		}
	}
	for i := range rows.Len() {
		if compareEnds(rows, last, i) <= 0 {
			last = i
		}
	}
	t.End = curve.End{Time: rows.Time[last], Seq: rows.Seq[last], Arrival: uint64(rows.Arrival[last])}
	if rows.Mask.Has(column.Step) {
		t.End.Step = rows.Axes[column.Step][last]
	}
	return t, last
}

// rangeOf is the lowest and the highest of some numbers, and where those lie that are not past all
// before them.
func rangeOf(list []int64) (low, high int64, again *curve.Interval) {
	low, high = list[0], list[0]
	for _, x := range list[1:] {
		if x <= high {
			again = again.With(x, x)
		}
		low, high = min(low, x), max(high, x)
	}
	return low, high, again
}

// compareEnds orders rows of one writer as [curve.End] does.
func compareEnds(rows *column.Rows, i, j int) int {
	order := 0
	if rows.Mask.Has(column.Step) {
		order = cmp.Compare(rows.Axes[column.Step][i], rows.Axes[column.Step][j])
	}
	return cmp.Or(order, cmp.Compare(rows.Time[i], rows.Time[j]), cmp.Compare(rows.Seq[i], rows.Seq[j]), cmp.Compare(uint32(rows.Arrival[i]), uint32(rows.Arrival[j])))
}

// valuesOf are the least and the greatest finite value, as [curve.Tally] has them.
func valuesOf(v *column.Values) *curve.Interval {
	out := &curve.Interval{From: math.MaxInt64, To: math.MinInt64}
	for _, x := range v.Ints {
		out.From, out.To = min(out.From, x), max(out.To, x)
	}
	for _, x := range v.Floats {
		if at := curve.OrderOf(x); x-x == 0 { // finite
			out.From, out.To = min(out.From, at), max(out.To, at)
		}
	}
	return out
}

// bits are those of a value, 0 of one that is no number.
func bits(v *column.Values, i int) uint64 {
	switch v.Kind {
	case model.KindFloat:
		return math.Float64bits(v.Floats[i])
	case model.KindInt:
		return uint64(v.Ints[i])
	}
	return 0
}
