package kymogram

import (
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/spool"
)

// Point is fields that share their labels, axes and time, as a measurement has them.
type Point struct {
	Fields []Field
	Labels map[string]string
	// Axes are counters by name: step, window, block, global_step, epoch, batch, tokens.
	Axes map[string]int64
	Time time.Time // now when zero
}

// Field is one value of a [Point]: a float64, an int64 or a string.
type Field struct {
	Metric string
	Value  any
}

// LogPoint logs the fields of a point. Its series are told apart by time: two points of one
// step are both kept, where those of [Run.Log] are the same point. A text has no axis but
// the step. What cannot be kept is in the error; the other fields are logged.
func (r *Run) LogPoint(p Point) error {
	if drop, err := r.admit(len(p.Fields)); drop || err != nil {
		return err
	}
	c := call{}
	if !p.Time.IsZero() {
		c.at, c.hasTime = p.Time.UnixNano(), true
	}
	axes, err := axesOf(p.Axes)
	if err != nil {
		return err
	}
	return r.logFields(&p, axes, r.timeNs(&c))
}

// logFields writes the numbers of a kind as one record, and each text as its own.
func (r *Run) logFields(p *Point, axes []spool.BlockAxis, timeNs int64) error {
	blocks := map[model.Kind]*pointBlock{}
	var refused []error
	for _, f := range p.Fields {
		s, v, err := r.fieldSeries(f, p.Labels)
		if err == nil && s.Kind == model.KindText {
			err = r.w.Document(s, stepFlag(axes), stepOf(axes), timeNs, []byte(v.text))
		} else if err == nil {
			b := blocks[s.Kind]
			if b == nil {
				b = &pointBlock{block: spool.Block{Kind: s.Kind, Rows: 1, Time: constant(timeNs), Axes: axes}}
				blocks[s.Kind] = b
			}
			b.add(s, v.bits)
		}
		if err != nil {
			refused = append(refused, err)
		}
	}
	for _, kind := range []model.Kind{model.KindFloat, model.KindInt} {
		if b := blocks[kind]; b != nil {
			refused = append(refused, r.w.Block(b.series, &b.block))
		}
	}
	return closedError(errors.Join(refused...))
}

// pointBlock is the numbers of a kind.
type pointBlock struct {
	series []*spool.Series
	block  spool.Block
}

func (b *pointBlock) add(s *spool.Series, bits uint64) {
	b.series = append(b.series, s)
	b.block.Series = append(b.block.Series, s.ID)
	b.block.Values = append(b.block.Values, bits)
}

// fieldValue is a field's as its series has it.
type fieldValue struct {
	bits uint64
	text string
}

// fieldSeries finds or makes the series of a field, and makes the value one of its kind.
func (r *Run) fieldSeries(f Field, labels map[string]string) (*spool.Series, fieldValue, error) {
	kind, ok := kindOf(f.Value)
	if !ok {
		return nil, fieldValue{}, invalidf("%s is a %T; a field is a float64, an int64 or a string", f.Metric, f.Value)
	}
	key := model.NewSeriesKey(f.Metric, ScaleStep, labels)
	text := key.String()
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.points[text]
	if s == nil {
		if err := checkPoint(&key); err != nil {
			return nil, fieldValue{}, err
		}
		made, err := r.w.SeriesByTime(kind, key)
		if err != nil {
			return nil, fieldValue{}, err
		}
		if r.points == nil {
			r.points = map[string]*spool.Series{}
		}
		s, r.points[text] = made, made
	}
	v, ok := valueAs(f.Value, s.Kind)
	if !ok {
		return nil, v, invalidf("%s holds %s since its first point, and %v is not: convert it, or give it a field of its own", f.Metric, s.Kind, f.Value)
	}
	return s, v, nil
}

func kindOf(value any) (model.Kind, bool) {
	switch value.(type) {
	case float64:
		return model.KindFloat, true
	case int64:
		return model.KindInt, true
	case string:
		return model.KindText, true
	}
	return 0, false
}

// valueAs is a value as one of a kind, where that is exact.
func valueAs(value any, kind model.Kind) (v fieldValue, ok bool) {
	switch n := value.(type) {
	case float64:
		if kind == model.KindInt && n == math.Trunc(n) && math.Abs(n) < 1e18 {
			return fieldValue{bits: uint64(int64(n))}, true
		}
		return fieldValue{bits: math.Float64bits(n)}, kind == model.KindFloat
	case int64:
		if kind == model.KindFloat && n >= -exact && n <= exact {
			return fieldValue{bits: math.Float64bits(float64(n))}, true
		}
		return fieldValue{bits: uint64(n)}, kind == model.KindInt
	case string:
		return fieldValue{text: strings.ToValidUTF8(n, "�")}, kind == model.KindText
	}
	return v, false
}

// exact is what float64 holds every integer up to.
const exact = 1 << 53

// checkPoint checks names as the server does: measurements may have spaces.
func checkPoint(key *model.SeriesKey) error {
	const labels, name, value, metric = 64, 128, 1 << 10, 1 << 10
	if key.Metric == "" || len(key.Metric) > metric || !model.IsClean(key.Metric) {
		return invalidf("the metric %.60q has %d bytes: a name has 1 to %d and no control characters", key.Metric, len(key.Metric), metric)
	}
	if len(key.Labels) > labels {
		return invalidf("%s has %d labels, a series at most %d: what differs from point to point belongs into fields", key.Metric, len(key.Labels), labels)
	}
	for _, l := range key.Labels {
		if l.Name == "" || len(l.Name) > name || len(l.Value) > value || !model.IsClean(l.Name) || !model.IsClean(l.Value) || !utf8.ValidString(l.Value) {
			return invalidf("the label %.60q of %s: a name has 1 to %d bytes, a value at most %d, both no control characters", l.Name, key.Metric, name, value)
		}
	}
	return nil
}

// axesOf are the axes in the order of their numbers.
func axesOf(given map[string]int64) ([]spool.BlockAxis, error) {
	order := model.Axes()
	var out []spool.BlockAxis
	for i, axis := range order {
		if v, ok := given[string(axis)]; ok {
			out = append(out, spool.BlockAxis{Axis: uint8(i + 1), Column: constant(v)})
		}
	}
	if len(out) < len(given) {
		return nil, invalidf("the axes %v are not all known; there are %v", slices.Sorted(maps.Keys(given)), order)
	}
	return out, nil
}

func stepFlag(axes []spool.BlockAxis) uint8 {
	if len(axes) > 0 && axes[0].Axis == spool.AxisStep {
		return spool.FlagStep
	}
	return 0
}

func stepOf(axes []spool.BlockAxis) int64 {
	if stepFlag(axes) == 0 {
		return 0
	}
	return axes[0].Column.Values[0]
}
