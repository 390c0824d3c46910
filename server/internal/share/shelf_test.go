package share_test

import (
	"sync"
	"testing"

	"github.com/kymogram/kymogram/server/internal/share"
)

// However many callers take and put at a time, no more values than the shelf may know of last.
func TestShelfBoundsWhatLasts(t *testing.T) {
	const most = 3
	shelf := share.NewShelf[*int](most)
	lasting := map[*int]bool{} // values that came from the shelf
	for round := range 50 {
		type lent struct {
			v     *int
			taken bool
		}
		var out []lent
		for range 10 {
			v, taken := shelf.Take()
			if taken {
				lasting[v] = true
			} else {
				v = new(int)
			}
			out = append(out, lent{v, taken})
			if round%2 == 0 && len(out)%3 == 0 { // some come back before the others
				shelf.Put(out[0].v, out[0].taken)
				out = out[1:]
			}
		}
		for _, l := range out {
			shelf.Put(l.v, l.taken)
		}
		if n := len(lasting); n > most {
			t.Fatalf("round %d: %d values last", round, n)
		}
	}
	if len(lasting) != most {
		t.Errorf("%d values last, want %d", len(lasting), most)
	}
}

func TestShelfServesParallelCallers(t *testing.T) {
	shelf := share.NewShelf[*sync.Mutex](4)
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() {
			for range 1000 {
				v, taken := shelf.Take()
				if !taken {
					v = new(sync.Mutex)
				}
				if !v.TryLock() {
					t.Error("two callers have one value")
					return
				}
				v.Unlock()
				shelf.Put(v, taken)
			}
		})
	}
	all.Wait()
}
