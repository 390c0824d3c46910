package httpapi

import (
	"math"
	"slices"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/query"
)

// maxDigits is what every float64 keeps through decimals.
const maxDigits = 15

const minNormal = 0x1p-1022 // math.Log10 is not exact below

// bucketsView makes an answer no larger than what a screen needs: only the
// columns asked for, in few digits. The zero value leaves out nothing.
type bucketsView struct {
	Columns []string `json:"columns"`
	Digits  int      `json:"digits"`
}

func (v bucketsView) check() error {
	known := bucketColumns()
	for i, name := range v.Columns {
		if !slices.Contains(known, name) {
			return model.Errorf(model.CodeInvalid, "columns[%d]: there is no column %q", i, name).
				WithHint("the columns are %s", strings.Join(known, ", "))
		}
		if slices.Contains(v.Columns[:i], name) {
			return model.Errorf(model.CodeInvalid, "columns[%d]: %q is named twice", i, name)
		}
	}
	if v.Digits < 0 || v.Digits > maxDigits {
		return model.Errorf(model.CodeInvalid, "digits is %d, it must be from 1 to %d", v.Digits, maxDigits)
	}
	return nil
}

// bucketColumns names the columns of an answer.
func bucketColumns() []string {
	var names []string
	for _, c := range bucketsTable(&query.BucketsResult{Inherited: true}).columns {
		names = append(names, c.name)
	}
	return names
}

// of applies the view. Who names columns reads counts of NaN, Inf and what is inherited as 0 where
// there is no column, so those without any are left out.
func (v bucketsView) of(t *table) *table {
	if len(v.Columns) > 0 {
		t.columns = slices.DeleteFunc(t.columns, func(c column) bool { return !v.wants(&c) })
	}
	if v.Digits > 0 {
		for i := range t.columns {
			t.columns[i].round(v.Digits)
		}
	}
	return t
}

func (v bucketsView) wants(c *column) bool {
	if !slices.Contains(v.Columns, c.name) {
		return false
	}
	return c.kind != colUint || c.name == "count" || slices.ContainsFunc(c.uints, func(n uint64) bool { return n > 0 })
}

// round keeps some significant digits of a column of floats: min goes down and
// max goes up, so that the band still encloses every point.
func (c *column) round(digits int) {
	if c.kind != colFloat {
		return
	}
	way := map[string]float64{"min": -1, "max": 1}[c.name]
	for i, f := range c.floats {
		c.floats[i] = roundDigits(f, digits, way)
	}
}

// roundDigits rounds to a number of so many significant digits: the nearest, or
// with way −1 and 1 one that is not above and not below f. What has no such
// neighbour, such as 0, Inf and subnormal numbers, stays as it is.
func roundDigits(f float64, digits int, way float64) float64 {
	if math.Abs(f) < minNormal {
		return f
	}
	place := digits - 1 - int(math.Floor(math.Log10(math.Abs(f))))
	scale := math.Pow10(max(place, -place))
	at := func(n float64) float64 {
		if place < 0 {
			return n * scale
		}
		return n / scale
	}
	n := math.Round(f * scale)
	if place < 0 {
		n = math.Round(f / scale)
	}
	if (at(n)-f)*way < 0 {
		n += way
	}
	if out := at(n); !math.IsNaN(out) && !math.IsInf(out, 0) {
		return out
	}
	return f
}
