package kymogram

import (
	"sync/atomic"
	"time"
)

// clock tells the wall time at half of time.Now's price: it reads the monotonic
// clock only, and the wall clock once a second, so that a clock that is set is
// followed within that.
type clock struct{ base atomic.Pointer[time.Time] }

func newClock() *clock {
	c := &clock{}
	c.reset()
	return c
}

func (c *clock) reset() int64 {
	now := time.Now()
	c.base.Store(&now)
	return now.UnixNano()
}

// now is Unix time in nanoseconds.
func (c *clock) now() int64 {
	base := c.base.Load()
	since := time.Since(*base)
	if since > time.Second {
		return c.reset()
	}
	return base.UnixNano() + int64(since)
}
