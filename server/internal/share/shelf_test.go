package share_test

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/kymogram/kymogram/server/internal/share"
)

// However many callers take and put at a time, no more values than the shelf may know of last.
func TestShelfBoundsWhatLasts(t *testing.T) {
	const most = 3
	shelf := share.NewShelf[*int](most, 1)
	lasting := map[*int]bool{} // values that came from the shelf
	for round := range 50 {
		var out []share.Shelved[*int]
		for range 10 {
			v, taken := shelf.Take()
			if taken {
				lasting[v.Value] = true
			} else {
				v.Value = new(int)
			}
			out = append(out, v)
			if round%2 == 0 && len(out)%3 == 0 { // some come back before the others
				shelf.Put(out[0], 0)
				out = out[1:]
			}
		}
		for _, v := range out {
			shelf.Put(v, 0)
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
	shelf := share.NewShelf[*sync.Mutex](4, 1)
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() {
			for range 1000 {
				v, taken := shelf.Take()
				if !taken {
					v.Value = new(sync.Mutex)
				}
				if !v.Value.TryLock() {
					t.Error("two callers have one value")
					return
				}
				v.Value.Unlock()
				shelf.Put(v, 0)
			}
		})
	}
	all.Wait()
}

// What all values know together never takes more than the room, and one that is alone may
// know all of it.
func TestShelfBoundsWhatIsKnown(t *testing.T) {
	const most, room = 4, 1000
	shelf, random := share.NewShelf[*int](most, room), rand.New(rand.NewPCG(1, 2))
	known := map[*int]int{} // of each that was put back
	var out []share.Shelved[*int]
	for range 10_000 {
		if len(out) < 6 && random.IntN(2) == 0 {
			v, ok := shelf.Take()
			if !ok {
				v.Value = new(int)
			}
			out = append(out, v)
		} else if len(out) > 0 {
			v, knows := out[0], random.IntN(400)
			out = out[1:]
			if !shelf.Put(v, knows) {
				if knows = 0; !shelf.Put(v, 0) {
					t.Fatal("one that knows nothing is not taken")
				}
			}
			known[v.Value] = knows
		}
		// Those that come back from the shelf are the only ones that last.
		lasting, sum := []share.Shelved[*int]{}, 0
		for v, ok := shelf.Take(); ok; v, ok = shelf.Take() {
			sum += known[v.Value]
			lasting = append(lasting, v)
		}
		if sum > room || len(lasting) > most {
			t.Fatalf("%d values know %d bytes", len(lasting), sum)
		}
		for _, v := range lasting {
			shelf.Put(v, known[v.Value])
		}
	}
	alone := share.NewShelf[*int](most, room)
	if !alone.Put(share.Shelved[*int]{Value: new(int)}, room) || alone.Put(share.Shelved[*int]{Value: new(int)}, 1) {
		t.Error("one that is alone may not know all, or another one more than that")
	}
}
