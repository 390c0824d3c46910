package uplink

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kymogram/kymogram/internal/spool"
)

// TestIdleWritersWakeTogether: whenever they came, all look at the same moments,
// and none waits longer than its period.
func TestIdleWritersWakeTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := New(&spool.Folder{}, Options{})
		woken, began := make(chan time.Time), time.Now()
		const writers, looks = 50, 20
		for range writers {
			time.Sleep(rand.N(100 * time.Millisecond))
			go func() {
				for range looks {
					lay := time.Now()
					if !sleep(t.Context(), d.ticks.next(idlePoll)) || time.Since(lay) > idlePoll {
						t.Errorf("slept %s", time.Since(lay))
					}
					woken <- time.Now()
				}
			}()
		}
		moments := map[time.Time]int{}
		for range writers * looks {
			moments[<-woken]++
		}
		if most := int(time.Since(began)/idlePoll) + 1; len(moments) > most {
			t.Errorf("%d moments, at most %d", len(moments), most)
		}
	})
}
