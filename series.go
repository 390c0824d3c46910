package kymogram

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/spool"
)

// Series is a handle of one series of a run: the fastest way to log to it.
// Its methods are safe for concurrent use.
type Series struct {
	run   *Run
	spool *spool.Series
	key   model.SeriesKey
	// next is the next step: n ≥ 0 is the step n, n < 0 is +k with k = −1 − n, to
	// which the server adds the start that only it knows.
	next atomic.Int64
	// how the series is logged, fixed by its first point.
	how    atomic.Int32
	logged atomic.Uint64 // points that log calls took
	env    *envSteps     // of environment-step series
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
	return s.count(1, s.run.w.Point(s.spool, flags, step, s.run.clock.now(), math.Float64bits(value)))
}

// LogAt logs one value at a step; later values without a step follow it.
func (s *Series) LogAt(step int64, value float64) error {
	return s.logNumber(math.Float64bits(value), model.KindFloat, call{step: step, hasStep: true})
}

// take takes n steps from the counter and gives the first, as a record has it.
func (s *Series) take(n int64) (flags uint8, step int64) {
	for {
		next := s.next.Load()
		if next >= 0 {
			if s.next.CompareAndSwap(next, saturate(next, n)) {
				return spool.FlagStep, next
			}
		} else if s.next.CompareAndSwap(next, next-n) {
			return spool.FlagStep | spool.FlagRelative, -1 - next
		}
	}
}

// saturate is a + n, at most the largest step.
func saturate(a, n int64) int64 {
	if a > maxStep-n {
		return maxStep
	}
	return a + n
}

// follow makes the next step the one after n rows from step on.
func (s *Series) follow(step, n int64) { s.next.Store(saturate(step, n)) }

// last is the step of the last point, +k while the start is unknown.
func (s *Series) last() (step int64, ok bool) {
	next := s.next.Load()
	if next < 0 {
		return -2 - next, next < -1
	}
	return next - 1, next > 0
}

// steps resolves the step of n rows of a call.
func (s *Series) steps(c *call, n int64) (flags uint8, step int64) {
	if !c.hasStep {
		return s.take(n)
	}
	if s.logged.Load() > 0 && !c.distributed && c.step < s.next.Load() {
		s.run.fell(s, c.step)
	}
	s.follow(c.step, n)
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
	flags, step := s.steps(&c, 1)
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

// envSteps counts the steps of an environment series within its episodes.
type envSteps struct {
	mu      sync.Mutex
	episode int64 // noEpisode: unknown
	past    map[int64]int64
}

const (
	noEpisode = -1
	// maxPast bounds the episodes of an environment that may be taken up again.
	maxPast = 16
)

// enter makes the series count within an episode.
func (s *Series) enter(episode int64) {
	e := s.env
	if episode == e.episode {
		return
	}
	if len(e.past) >= maxPast {
		clear(e.past)
	}
	e.past[e.episode] = s.next.Load()
	e.episode = episode
	next, ok := e.past[episode]
	if !ok {
		next = startOf(s.run.starts.ofEpisode(s.key.String(), episode))
	}
	s.next.Store(next)
}

// startOf is the counter's first value.
func startOf(next int64, known bool) int64 {
	if !known {
		return -1
	}
	return next
}
