package kymogram

import (
	"errors"
	"math"
	"sync/atomic"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/rule"
	"github.com/kymogram/kymogram/internal/series"
	"github.com/kymogram/kymogram/internal/spool"
)

// Series is a handle of one series of a run: the fastest way to log to it.
// Its methods are safe for concurrent use.
type Series struct {
	run   *Run
	spool *spool.Series
	key   model.SeriesKey
	steps series.Steps
	// how the series is logged, fixed by its first point.
	how    atomic.Int32
	logged atomic.Uint64    // points that log calls took
	env    *series.Episodes // of environment-step series
}

// count takes note of n points that were logged without an error.
func (s *Series) count(n uint64, err error) error {
	if err != nil {
		return closedError(err)
	}
	s.logged.Add(n)
	return nil
}

// The ways to log a series, which do not mix.
const (
	howOrdered     = 1
	howDistributed = 2
)

// claim fixes how the series is logged.
func (s *Series) claim(how int32) error {
	if s.how.Load() == how || s.how.CompareAndSwap(0, how) || s.how.Load() == how {
		return nil
	}
	return invalidf("%q is logged both by Log and by LogDistributed: choose one for a series", s.key.Metric)
}

// Log logs one value at the series' next step.
func (s *Series) Log(value float64) error {
	if s.spool.Kind != model.KindFloat || s.how.Load() != howOrdered {
		return s.logNumber(math.Float64bits(value), model.KindFloat, call{})
	}
	if s.run.guarded {
		if drop, err := s.run.admit(1); drop || err != nil {
			return err
		}
	}
	flags, step := s.take(1)
	return s.count(1, s.run.w.Point(s.spool, flags, step, s.run.clock.Now(), math.Float64bits(value)))
}

// LogAt logs one value at a step; later values without a step follow it.
func (s *Series) LogAt(step int64, value float64) error {
	return s.logNumber(math.Float64bits(value), model.KindFloat, call{step: step, hasStep: true})
}

// take takes n steps from the counter and gives the first, as a record has it.
func (s *Series) take(n int64) (flags uint8, step int64) { return stepFlags(s.steps.Take(n)) }

func stepFlags(step int64, relative bool) (flags uint8, _ int64) {
	if relative {
		return spool.FlagStep | spool.FlagRelative, step
	}
	return spool.FlagStep, step
}

// resolve is the step of the first of n rows of a call, as a record has it.
func (s *Series) resolve(c *call, n int64) (flags uint8, step int64) {
	if !c.hasStep {
		return s.take(n)
	}
	if s.logged.Load() > 0 && !c.distributed && c.step < s.steps.Next() {
		s.run.fell(s, c.step)
	}
	s.steps.Follow(c.step, n)
	return spool.FlagStep, c.step
}

// logNumber logs one number of a kind, converted to the series' when that is
// exact.
func (s *Series) logNumber(bits uint64, kind model.Kind, c call) error {
	if err := s.claim(c.how()); err != nil {
		return err
	}
	bits, err := s.convert(bits, kind)
	if err != nil {
		return err
	}
	if drop, err := s.run.admit(1); drop || err != nil {
		return err
	}
	flags, step := s.resolve(&c, 1)
	return s.count(1, s.run.w.Point(s.spool, flags, step, s.run.timeNs(&c), bits))
}

// convert makes a number one of the series' kind.
func (s *Series) convert(bits uint64, kind model.Kind) (uint64, error) {
	if kind == s.spool.Kind {
		return bits, nil
	}
	switch {
	case s.spool.Kind == model.KindFloat && kind == model.KindInt:
		n := int64(bits)
		if f := float64(n); f < 1<<63 && int64(f) == n {
			return math.Float64bits(f), nil
		}
		return 0, s.mismatch("%d is not exact in float64", n)
	case s.spool.Kind == model.KindInt && kind == model.KindFloat:
		f := math.Float64frombits(bits)
		if f >= -1<<63 && f < 1<<63 && float64(int64(f)) == f && !(f == 0 && math.Signbit(f)) {
			return uint64(int64(f)), nil
		}
		return 0, s.mismatch("%v is no int64", f)
	}
	return 0, s.mismatch("a value of kind %s does not fit", kind)
}

func (s *Series) mismatch(format string, args ...any) error {
	e := model.Errorf(model.CodeKindMismatch, format, args...)
	e.Message = "series " + s.key.Metric + " is of kind " + s.spool.Kind.String() + ": " + e.Message
	return e
}

// Series is the handle of a series of float64.
func (r *Run) Series(name string, opts ...LogOption) (*Series, error) {
	c, err := r.parse(opts)
	if err != nil {
		return nil, err
	}
	s, err := r.series(name, model.KindFloat, &c)
	if err != nil {
		return nil, err
	}
	return s, s.claim(howOrdered)
}

// known is the series without labels of a name that was logged before.
func (r *Run) known(name string) *Series { return r.plain.Find(name) }

// series finds or makes the series that a call means.
func (r *Run) series(name string, kind model.Kind, c *call) (*Series, error) {
	if c.plain() {
		if s := r.known(name); s != nil {
			return s, nil
		}
	}
	key := model.NewSeriesKey(name, c.scale, c.allLabels())
	text := key.String()
	if s := r.all.Find(text); s != nil {
		return s, nil
	}
	if err := errors.Join(rule.Metric(name), rule.Scale(key.Scale), rule.Labels(key.LabelMap())); err != nil {
		return nil, err
	}
	return r.makeSeries(key, text, kind)
}

func (r *Run) makeSeries(key model.SeriesKey, text string, kind model.Kind) (*Series, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.all.Find(text); s != nil {
		return s, nil
	}
	known, err := r.w.Series(kind, key)
	if err != nil {
		return nil, err
	}
	s := &Series{run: r, spool: known, key: key}
	if key.Scale == ScaleEnvironment {
		s.env = series.NewEpisodes()
	}
	s.steps.Begin(r.starts.Of(text))
	r.all.Add(text, s)
	if key.Scale == ScaleStep && len(key.Labels) == 0 {
		r.plain.Add(key.Metric, s)
	}
	return s, nil
}
