// Package timing counts acts of one kind for /metrics: how many there were, how many failed, and
// how long they took. To count one is three atomic additions.
package timing

import (
	"sync/atomic"
	"time"
)

// bounds are the durations that acts are sorted by.
var bounds = [...]time.Duration{
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second, 30 * time.Second,
}

// Acts counts acts. The zero value works. It is safe for parallel use.
type Acts struct {
	sorted [len(bounds) + 1]atomic.Uint64 // by the first bound that an act did not exceed
	took   atomic.Int64
	failed atomic.Uint64
}

// End counts an act that ends now; deferred by who does it.
func (a *Acts) End(began time.Time, err *error) { a.add(time.Since(began), *err != nil) }

func (a *Acts) add(took time.Duration, failed bool) {
	at := 0
	for at < len(bounds) && took > bounds[at] {
		at++
	}
	a.sorted[at].Add(1)
	a.took.Add(int64(took))
	if failed {
		a.failed.Add(1)
	}
}

// Stats is what was counted.
type Stats struct {
	Count, Failed uint64
	Took          time.Duration // all together
	// Within is how many took at most so many seconds.
	Within map[float64]uint64
}

// Stats may miss an act that ends meanwhile. Count and Within agree.
func (a *Acts) Stats() Stats {
	s := Stats{Failed: a.failed.Load(), Took: time.Duration(a.took.Load()), Within: make(map[float64]uint64, len(bounds))}
	for i := range bounds {
		s.Count += a.sorted[i].Load()
		s.Within[bounds[i].Seconds()] = s.Count
	}
	s.Count += a.sorted[len(bounds)].Load()
	return s
}
