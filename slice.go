package kymogram

import (
	"math"
	"reflect"
	"slices"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/spool"
)

// Number is what a slice of values may hold.
type Number interface {
	~float32 | ~float64 | ~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64
}

// LogSlice logs numbers of any type at successive steps, as one record. A new
// series is one of float64; float32 and integers of at most 16 bits take 4 bytes
// a value in the spool, others 8. An integer that the series cannot hold exactly
// is an error, and nothing of the slice is logged.
func LogSlice[T Number](r *Run, name string, values []T, opts ...LogOption) error {
	c, err := r.parse(opts)
	if err != nil || len(values) == 0 {
		return err
	}
	s, err := r.series(name, model.KindFloat, &c)
	if err == nil {
		err = s.claim(howOrdered)
	}
	if err != nil {
		return err
	}
	rows := int64(len(values))
	if c.hasStep && c.step > maxStep-rows+1 {
		return invalidf("%d values from step %d on pass the largest step", rows, c.step)
	}
	bits, err := appendBits(make([]uint64, 0, len(values)), s, values)
	if err != nil {
		return err
	}
	if drop, err := r.admit(len(values)); drop || err != nil {
		return err
	}
	flags, step := s.steps(&c, rows)
	return r.block([]*Series{s}, &spool.Block{
		Kind: s.spool.Kind, Narrow: isNarrow[T](s.spool.Kind), Rows: len(values), Time: constant(r.timeNs(&c)),
		Axes: []spool.BlockAxis{stepAxis(flags, spool.ModeLinear, step)}, Values: bits,
	})
}

func isFloat[T Number]() bool {
	one, two := T(1), T(2)
	return one/two > 0
}

// isNarrow reports whether 4 bytes hold every T in a series of a kind.
func isNarrow[T Number](kind model.Kind) bool {
	of := reflect.TypeFor[T]()
	switch {
	case isFloat[T]():
		return kind == model.KindFloat && of.Size() == 4
	case kind == model.KindInt && of.Kind() == reflect.Int32:
		return true
	}
	return of.Size() <= 2
}

// appendBits appends the values as the series keeps them.
func appendBits[T Number](dst []uint64, s *Series, values []T) ([]uint64, error) {
	dst = slices.Grow(dst, len(values))[:len(dst)+len(values)]
	bits := dst[len(dst)-len(values):]
	if isFloat[T]() && s.spool.Kind == model.KindFloat {
		for i, v := range values {
			bits[i] = math.Float64bits(float64(v))
		}
		return dst, nil
	}
	var err error
	for i, v := range values {
		switch {
		case isFloat[T]():
			bits[i], err = s.convert(math.Float64bits(float64(v)), model.KindFloat)
		case v > 0 && int64(v) < 0:
			err = s.mismatch("%v is beyond int64", v)
		default:
			bits[i], err = s.convert(uint64(int64(v)), model.KindInt)
		}
		if err != nil {
			return nil, err
		}
	}
	return dst, nil
}
