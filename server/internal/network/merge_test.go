package network

import (
	"slices"
	"testing"
)

// Who says the same of another machine does not carry the result.
func TestAVoteForAnotherHotkeyIsAnotherVote(t *testing.T) {
	a, b := "a", "b"
	honest := []vote{{validator: 1, score: 50}, {validator: 2, score: 50}}
	for _, tt := range []struct {
		votes   []vote
		carried []int
	}{
		{append([]vote{{0, 50, 0, &a}}, honest...), []int{1, 2}},
		{append([]vote{{0, 50, 0, &a}, {3, 50, 0, &b}, {4, 50, 0, new(string)}}, honest...), []int{1, 2}},
		{append([]vote{{0, 50, 0, &a}, {3, 50, 0, &a}, {4, 50, 0, &a}}, honest...), []int{0, 3, 4}},
	} {
		got := merge(tt.votes)
		if !slices.Equal(got.Carried, tt.carried) || got.Against != len(tt.votes)-len(tt.carried) {
			t.Errorf("%+v", got)
		}
	}
}
