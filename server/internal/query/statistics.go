package query

import (
	"math"

	"github.com/kymogram/kymogram/server/internal/catalog"
)

// Statistics are of the finite values of a column.
type Statistics struct {
	N              int
	NotFinite      int
	Mean           float64
	Min, Max       float64
	MinRun, MaxRun catalog.Ref

	// The mean, and the sum of squared distances from it, in units of a power of two: squares
	// of 1e200 would be infinite, and those of 1e-200 zero.
	unit, mean, squares float64
	least, max          int64 // runs
}

// add takes a value in by Welford's way, which loses no digits where values lie close together.
func (s *Statistics) add(v float64, run int64) {
	if math.IsInf(v, 0) || math.IsNaN(v) {
		s.NotFinite++
		return
	}
	s.N++
	if math.Abs(v)/2 >= s.unit && v != 0 {
		s.setUnit(math.Ldexp(1, math.Ilogb(v)))
	}
	x := v
	if s.unit > 0 {
		x /= s.unit // exact
	}
	d := x - s.mean
	s.mean += d / float64(s.N)
	s.squares += d * (x - s.mean)
	s.Mean = s.mean * s.unit
	if s.N == 1 || v < s.Min {
		s.Min, s.least = v, run
	}
	if s.N == 1 || v > s.Max {
		s.Max, s.max = v, run
	}
}

func (s *Statistics) setUnit(unit float64) {
	was := s.unit / unit
	s.unit, s.mean, s.squares = unit, s.mean*was, s.squares*was*was
}

// Std is that of a sample. It is NaN where N is 1, and infinite where no float64 holds it.
func (s *Statistics) Std() float64 { return math.Sqrt(s.squares/float64(s.N-1)) * s.unit }

// value is what an order compares, NaN where there is none.
func (s *Statistics) value(of string) float64 {
	if s.N == 0 {
		return math.NaN()
	}
	switch of {
	case "mean":
		return s.Mean
	case "std":
		return s.Std()
	case "min":
		return s.Min
	}
	return s.Max
}
