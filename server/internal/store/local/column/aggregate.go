package column

import (
	"math"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
)

// Aggregate summarises numbers. Min, Max, Sum and Excess are over the finite
// ones. An int64 series has Least and Most instead of Min and Max.
type Aggregate struct {
	Min, Max            float64
	Least, Most         int64
	Sum                 float64
	Excess              float64 // of values beyond hugeValue, in units of hugeUnit
	Count               uint64
	NaN, PosInf, NegInf uint64
	First, Last         uint64 // bits of the first row's and of the last row's value
}

// Values from hugeValue on are added up in units of hugeUnit: 2^63 of them
// cannot overflow, nor can so many smaller ones.
const (
	hugeValue = 0x1p960
	hugeUnit  = store.ExcessUnit
)

// EmptyAggregate is the aggregate of no values.
func EmptyAggregate() Aggregate {
	return Aggregate{Min: math.Inf(1), Max: math.Inf(-1), Least: math.MaxInt64, Most: math.MinInt64}
}

func (a *Aggregate) add(v float64) {
	// One comparison tells the usual case: it is false for NaN and Inf too.
	if math.Abs(v) < hugeValue {
		a.Count++
		a.Sum += v
		a.Min, a.Max = min(a.Min, v), max(a.Max, v)
		return
	}
	a.addRare(v)
}

func (a *Aggregate) addRare(v float64) {
	switch {
	case math.IsNaN(v):
		a.NaN++
	case math.IsInf(v, 1):
		a.PosInf++
	case math.IsInf(v, -1):
		a.NegInf++
	default:
		a.Count++
		a.Excess += v / hugeUnit
		a.Min, a.Max = min(a.Min, v), max(a.Max, v)
	}
}

func (a *Aggregate) addInt(v int64) {
	a.Count++
	a.Sum += float64(v)
	a.Least, a.Most = min(a.Least, v), max(a.Most, v)
}

// AddRow takes in the value of a row.
func (a *Aggregate) AddRow(v *Values, i int) {
	if v.Kind == model.KindInt {
		a.addInt(v.Ints[i])
	} else {
		a.add(v.Floats[i])
	}
}

// Merge takes in what another aggregate has.
func (a *Aggregate) Merge(b *Aggregate) {
	a.Count += b.Count
	a.NaN += b.NaN
	a.PosInf += b.PosInf
	a.NegInf += b.NegInf
	if b.Count > 0 {
		a.Sum += b.Sum
		a.Excess += b.Excess
		a.Min, a.Max = min(a.Min, b.Min), max(a.Max, b.Max)
		a.Least, a.Most = min(a.Least, b.Least), max(a.Most, b.Most)
	}
}

// Summarise covers rows lo to hi of a numeric column.
func Summarise(v *Values, lo, hi int) Aggregate {
	a := EmptyAggregate()
	a.AddRows(v, lo, hi)
	return a
}

// AddRows takes in rows lo to hi of a numeric column.
func (a *Aggregate) AddRows(v *Values, lo, hi int) {
	if v.Kind == model.KindInt {
		for _, n := range v.Ints[lo:hi] {
			a.addInt(n)
		}
		return
	}
	a.addAll(v.Floats[lo:hi])
}

// addAll is add of each, with the usual case's figures in registers.
func (a *Aggregate) addAll(vs []float64) {
	least, most, sum, count := a.Min, a.Max, a.Sum, a.Count
	for _, v := range vs {
		if math.Abs(v) < hugeValue {
			count++
			sum += v
			least, most = min(least, v), max(most, v)
			continue
		}
		a.Min, a.Max, a.Sum, a.Count = least, most, sum, count
		a.addRare(v)
		least, most, sum, count = a.Min, a.Max, a.Sum, a.Count
	}
	a.Min, a.Max, a.Sum, a.Count = least, most, sum, count
}

// BitsOf is a value as the 64 bits that a summary keeps; NumberOf reads them.
func BitsOf(v *Values, i int) uint64 {
	if v.Kind == model.KindFloat {
		return math.Float64bits(v.Floats[i])
	}
	return uint64(v.Ints[i])
}

// Exact is false for a summary of version 1 that a float64 could not hold: an
// end of int64 values beyond 2^53, or a sum that overflowed.
func (a *Aggregate) Exact(kind model.Kind) bool {
	if kind == model.KindInt && a.Count > 0 && a.Least > a.Most {
		return false
	}
	return a.Sum-a.Sum == 0
}

// SetEnds1 takes the ends of int64 values from version 1.
func (a *Aggregate) SetEnds1() {
	if a.Min >= -(1<<53) && a.Max <= 1<<53 {
		a.Least, a.Most = int64(a.Min), int64(a.Max)
	}
}
