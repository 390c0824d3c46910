package queue

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestATransactionWaitsForThoseAround: as many as were around the last one, no longer than
// that one took or mostGather; who is alone does not wait.
func TestATransactionWaitsForThoseAround(t *testing.T) {
	for _, c := range []struct {
		name         string
		served, left int // by the last transaction, and behind it
		took         time.Duration
		come         []time.Duration // when they come, the first at once
		waits        time.Duration
	}{
		{"alone", 1, 0, time.Millisecond, []time.Duration{0}, 0},
		{"first of all", 0, 0, 0, []time.Duration{0}, 0},
		{"all come", 2, 1, time.Millisecond, []time.Duration{0, 100 * time.Microsecond, 300 * time.Microsecond}, 300 * time.Microsecond},
		{"one stays away", 3, 0, time.Millisecond, []time.Duration{0, 100 * time.Microsecond}, time.Millisecond},
		{"a slow disk", 2, 0, time.Hour, []time.Duration{0}, mostGather},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &Queue{waiting: make([]*Write, c.left)}
				w.served(c.served, c.took)
				w.waiting = nil
				for _, at := range c.come {
					if at == 0 {
						w.add(&Write{})
						continue
					}
					time.AfterFunc(at, func() { w.add(&Write{}) })
				}
				begun := time.Now()
				w.gather()
				if waited := time.Since(begun); waited != c.waits {
					t.Errorf("it waited %v, not %v", waited, c.waits)
				}
				synctest.Wait()
				if n := len(w.take()); n != len(c.come) {
					t.Errorf("%d writes wait, not %d", n, len(c.come))
				}
			})
		})
	}
}
