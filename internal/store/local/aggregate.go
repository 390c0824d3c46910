package local

import (
	"math"

	"github.com/kymogram/kymogram/internal/model"
)

// aggregate summarises numbers. min, max and sum are over the finite ones.
type aggregate struct {
	min, max, sum       float64
	count               uint64
	nan, posInf, negInf uint64
	first, last         uint64 // bits of the first row's and of the last row's value
}

func emptyAggregate() aggregate { return aggregate{min: math.Inf(1), max: math.Inf(-1)} }

func (a *aggregate) add(v float64) {
	// One comparison tells the usual case: v-v is 0 for finite values only.
	if v-v == 0 {
		a.count++
		a.sum += v
		a.min, a.max = min(a.min, v), max(a.max, v)
		return
	}
	switch {
	case math.IsNaN(v):
		a.nan++
	case v > 0:
		a.posInf++
	default:
		a.negInf++
	}
}

func (a *aggregate) merge(b *aggregate) {
	a.count += b.count
	a.nan += b.nan
	a.posInf += b.posInf
	a.negInf += b.negInf
	if b.count > 0 {
		a.sum += b.sum
		a.min, a.max = min(a.min, b.min), max(a.max, b.max)
	}
}

// summarise covers rows lo to hi of a numeric column.
func summarise(v *values, lo, hi int) aggregate {
	a := emptyAggregate()
	for i := lo; i < hi; i++ {
		a.add(v.number(i))
	}
	return a
}

func bitsOf(v *values, i int) uint64 {
	if v.kind == model.KindFloat {
		return math.Float64bits(v.floats[i])
	}
	return uint64(v.ints[i])
}
