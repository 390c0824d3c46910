package series

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/kymogram/kymogram/internal/rule"
)

// Steps against what a list of all steps says.
func TestStepsCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		known := rapid.Bool().Draw(t, "known")
		next, relative := int64(0), !known
		if known {
			next = rapid.Int64Range(0, 100).Draw(t, "start")
		}
		var s Steps
		s.Begin(next, known)
		for range rapid.IntRange(1, 50).Draw(t, "calls") {
			n := rapid.Int64Range(1, 5).Draw(t, "n")
			if rapid.IntRange(0, 9).Draw(t, "given") == 0 {
				step := rapid.SampledFrom([]int64{0, 7, 1000, rule.MaxStep - 2, rule.MaxStep}).Draw(t, "step")
				s.Follow(step, n)
				next, relative = min(step+n, rule.MaxStep), false
			} else {
				got, isRelative := s.Take(n)
				if got != next || isRelative != relative {
					t.Fatalf("took %d (relative %v), want %d (%v)", got, isRelative, next, relative)
				}
				next = min(next+n, rule.MaxStep)
			}
			if last, ok := s.Last(); last != next-1 || ok != (next > 0) {
				t.Fatalf("the last step is %d %v, want %d", last, ok, next-1)
			}
			if (s.Next() < 0) != relative || !relative && s.Next() != next {
				t.Fatalf("the next step is %d, want %d (relative %v)", s.Next(), next, relative)
			}
		}
	})
}

// An episode that is taken up again goes on where it was left; a new one begins
// where the server says.
func TestEpisodesCountApart(t *testing.T) {
	var s Steps
	s.Begin(0, false)
	e := NewEpisodes()
	start := func(episode int64) (int64, bool) { return 10 * episode, episode < 3 }
	for i, want := range []struct {
		episode, step int64
		relative      bool
	}{{NoEpisode, 0, true}, {1, 10, false}, {2, 20, false}, {1, 12, false}, {3, 0, true}, {3, 2, true}, {2, 22, false}, {NoEpisode, 2, true}} {
		if step, relative := e.Take(&s, want.episode, 2, start); step != want.step || relative != want.relative {
			t.Errorf("call %d: %d %v, want %+v", i, step, relative, want)
		}
	}
}
