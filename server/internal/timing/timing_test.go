package timing

import (
	"errors"
	"sync"
	"testing"
	"time"
)

func TestActs(t *testing.T) {
	var a Acts
	for took, failed := range map[time.Duration]bool{0: false, time.Millisecond: false, time.Millisecond + 1: true, 30 * time.Second: false, time.Hour: true} {
		a.add(took, failed)
	}
	s := a.Stats()
	if want := time.Hour + 30*time.Second + 2*time.Millisecond + 1; s.Count != 5 || s.Failed != 2 || s.Took != want {
		t.Errorf("%+v, want 5, 2 of them failed, in %s", s, want)
	}
	for bound, want := range map[float64]uint64{0.001: 2, 0.0025: 3, 10: 3, 30: 4} {
		if s.Within[bound] != want {
			t.Errorf("%d took at most %v s, want %d", s.Within[bound], bound, want)
		}
	}
}

// TestActsInParallel: none is missed, and what is read meanwhile agrees with itself.
func TestActsInParallel(t *testing.T) {
	var a Acts
	var all sync.WaitGroup
	failed := errors.New("failed")
	for range 8 {
		all.Go(func() {
			for range 1000 {
				a.End(time.Now(), &failed)
				if s := a.Stats(); s.Within[30] > s.Count {
					t.Errorf("%+v", s)
				}
			}
		})
	}
	all.Wait()
	if s := a.Stats(); s.Count != 8000 || s.Failed != 8000 {
		t.Errorf("%+v", s)
	}
}
