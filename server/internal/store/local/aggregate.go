package local

import (
	"math"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
)

// aggregate summarises numbers. min, max, sum and excess are over the finite
// ones. An int64 series has least and most instead of min and max.
type aggregate struct {
	min, max            float64
	least, most         int64
	sum                 float64
	excess              float64 // of values beyond hugeValue, in units of hugeUnit
	count               uint64
	nan, posInf, negInf uint64
	first, last         uint64 // bits of the first row's and of the last row's value
}

// Values from hugeValue on are added up in units of hugeUnit: 2^63 of them
// cannot overflow, nor can so many smaller ones.
const (
	hugeValue = 0x1p960
	hugeUnit  = store.ExcessUnit
)

func emptyAggregate() aggregate {
	return aggregate{min: math.Inf(1), max: math.Inf(-1), least: math.MaxInt64, most: math.MinInt64}
}

func (a *aggregate) add(v float64) {
	// One comparison tells the usual case: it is false for NaN and Inf too.
	if math.Abs(v) < hugeValue {
		a.count++
		a.sum += v
		a.min, a.max = min(a.min, v), max(a.max, v)
		return
	}
	a.addRare(v)
}

func (a *aggregate) addRare(v float64) {
	switch {
	case math.IsNaN(v):
		a.nan++
	case math.IsInf(v, 1):
		a.posInf++
	case math.IsInf(v, -1):
		a.negInf++
	default:
		a.count++
		a.excess += v / hugeUnit
		a.min, a.max = min(a.min, v), max(a.max, v)
	}
}

func (a *aggregate) addInt(v int64) {
	a.count++
	a.sum += float64(v)
	a.least, a.most = min(a.least, v), max(a.most, v)
}

func (a *aggregate) addRow(v *values, i int) {
	if v.kind == model.KindInt {
		a.addInt(v.ints[i])
	} else {
		a.add(v.floats[i])
	}
}

func (a *aggregate) merge(b *aggregate) {
	a.count += b.count
	a.nan += b.nan
	a.posInf += b.posInf
	a.negInf += b.negInf
	if b.count > 0 {
		a.sum += b.sum
		a.excess += b.excess
		a.min, a.max = min(a.min, b.min), max(a.max, b.max)
		a.least, a.most = min(a.least, b.least), max(a.most, b.most)
	}
}

// summarise covers rows lo to hi of a numeric column.
func summarise(v *values, lo, hi int) aggregate {
	a := emptyAggregate()
	if v.kind == model.KindInt {
		for _, n := range v.ints[lo:hi] {
			a.addInt(n)
		}
		return a
	}
	a.addAll(v.floats[lo:hi])
	return a
}

// addAll is add of each, with the usual case's figures in registers.
func (a *aggregate) addAll(vs []float64) {
	least, most, sum, count := a.min, a.max, a.sum, a.count
	for _, v := range vs {
		if math.Abs(v) < hugeValue {
			count++
			sum += v
			least, most = min(least, v), max(most, v)
			continue
		}
		a.min, a.max, a.sum, a.count = least, most, sum, count
		a.addRare(v)
		least, most, sum, count = a.min, a.max, a.sum, a.count
	}
	a.min, a.max, a.sum, a.count = least, most, sum, count
}

func bitsOf(v *values, i int) uint64 {
	if v.kind == model.KindFloat {
		return math.Float64bits(v.floats[i])
	}
	return uint64(v.ints[i])
}

// exact is false for a summary of version 1 that a float64 could not hold: an
// end of int64 values beyond 2^53, or a sum that overflowed.
func (a *aggregate) exact(kind model.Kind) bool {
	if kind == model.KindInt && a.count > 0 && a.least > a.most {
		return false
	}
	return a.sum-a.sum == 0
}

// setEnds1 takes the ends of int64 values from version 1.
func (a *aggregate) setEnds1() {
	if a.min >= -(1<<53) && a.max <= 1<<53 {
		a.least, a.most = int64(a.min), int64(a.max)
	}
}
