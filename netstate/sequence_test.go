package netstate

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/state"
)

// Sequences of two lanes never meet, each is above what was seen and not below the
// time in ms, whatever clocks say.
func TestSequencesOfTwoLanesNeverMeet(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	clocks := []time.Time{{}, time.Unix(-5, 0), time.Unix(0, 0), time.UnixMilli(1_795_000_000_999), time.Unix(1<<40, 0)}
	for range 2_000 {
		one, other := random.Uint64N(lanes), random.Uint64N(lanes)
		now := clocks[random.IntN(len(clocks))]
		head := random.Uint64N(1 << random.IntN(52))
		a, b := nextSequence(head, now, one), nextSequence(head, now, other)
		if a <= head || b <= head || (a == b) != (one == other) {
			t.Fatalf("lanes %d and %d above %d: %d and %d", one, other, head, a, b)
		}
		if ms := now.UnixMilli(); now.Year() < 2072 && int64(a) < ms {
			t.Fatalf("%d at %d ms", a, ms)
		}
		if c := nextSequence(a, now, other); c <= a {
			t.Fatalf("%d after %d", c, a)
		}
	}
}

// A clock that was wrong once does not end a hotkey: a run's million records find a
// number each.
func TestAWrongClockLeavesNumbers(t *testing.T) {
	worst := nextSequence(0, time.Unix(1<<50, 0), lanes-1)
	if after := worst + 1_000_000*lanes; after > state.MaxNumber {
		t.Errorf("from %d on there are not enough", worst)
	}
}
