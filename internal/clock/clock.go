// Package clock tells the time of a log call at half of time.Now's price.
//
// Time comes out as Unix nanoseconds, for any number of goroutines. It runs on
// the monotonic clock; the wall clock is read once a second, so that a machine's
// clock that is set is followed within that.
package clock

import (
	"sync/atomic"
	"time"
)

// Clock is a wall clock. Build it with [New].
type Clock struct{ base atomic.Pointer[time.Time] }

// New returns a clock that is right from the first call.
func New() *Clock {
	c := &Clock{}
	c.reset()
	return c
}

func (c *Clock) reset() int64 {
	now := time.Now()
	c.base.Store(&now)
	return now.UnixNano()
}

// Now is Unix time in nanoseconds.
func (c *Clock) Now() int64 {
	base := c.base.Load()
	since := time.Since(*base)
	if since > time.Second {
		return c.reset()
	}
	return base.UnixNano() + int64(since)
}
