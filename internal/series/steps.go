package series

import (
	"sync/atomic"

	"github.com/kymogram/kymogram/internal/rule"
)

// Steps counts the steps of one series. Its methods are safe for concurrent use.
type Steps struct{ next atomic.Int64 }

// Begin sets the next step; known is false where only the server can say it.
func (s *Steps) Begin(next int64, known bool) {
	if !known {
		next = -1
	}
	s.next.Store(next)
}

// Take takes n steps and gives the first; a relative one counts from the start
// that only the server knows.
func (s *Steps) Take(n int64) (step int64, relative bool) {
	for {
		next := s.next.Load()
		if next >= 0 {
			if s.next.CompareAndSwap(next, saturate(next, n)) {
				return next, false
			}
		} else if s.next.CompareAndSwap(next, next-n) {
			return -1 - next, true
		}
	}
}

// saturate is a + n, at most the largest step.
func saturate(a, n int64) int64 {
	if a > rule.MaxStep-n {
		return rule.MaxStep
	}
	return a + n
}

// Follow makes the next step the one after n rows from step on.
func (s *Steps) Follow(step, n int64) { s.next.Store(saturate(step, n)) }

// Next is the next step, negative while the start is unknown.
func (s *Steps) Next() int64 { return s.next.Load() }

// Last is the step of the last point, relative while the start is unknown.
func (s *Steps) Last() (step int64, ok bool) {
	next := s.next.Load()
	if next < 0 {
		return -2 - next, next < -1
	}
	return next - 1, next > 0
}
