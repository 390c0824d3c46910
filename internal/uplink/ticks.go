package uplink

import "time"

// ticks are the moments at which all who wait look again: timers that end together
// wake the process once, and waking is most of what an idle writer costs. They count
// from the start of this deliverer, so that machines do not keep step.
type ticks struct{ origin time.Time }

// next is how long to wait for the next tick of a period: at most that.
func (t ticks) next(period time.Duration) time.Duration { return period - time.Since(t.origin)%period }
