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

	squares    float64 // sum of squared distances from the mean
	least, max int64   // runs
}

// add takes a value in by Welford's way, which loses no digits where values lie close together.
func (s *Statistics) add(v float64, run int64) {
	if math.IsInf(v, 0) || math.IsNaN(v) {
		s.NotFinite++
		return
	}
	s.N++
	d := v - s.Mean
	s.Mean += d / float64(s.N)
	s.squares += d * (v - s.Mean)
	if s.N == 1 || v < s.Min {
		s.Min, s.least = v, run
	}
	if s.N == 1 || v > s.Max {
		s.Max, s.max = v, run
	}
}

// Std is that of a sample, NaN where N is 1.
func (s *Statistics) Std() float64 { return math.Sqrt(s.squares / float64(s.N-1)) }

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
