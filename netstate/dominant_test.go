package netstate_test

import (
	"testing"

	"github.com/kymogram/kymogram/netstate"
)

func report(gpu string, count int, score, weight float64) netstate.Report {
	r := netstate.Report{Stat: netstate.Stat{UID: 3, Score: score, Hotkey: gpu}, Weight: weight}
	if gpu != "" {
		r.GPU = &netstate.GPU{Name: gpu, Count: count}
	}
	return r
}

func TestPickDominant(t *testing.T) {
	type reports []netstate.Report
	for name, tt := range map[string]struct {
		of    reports
		want  string
		score float64
		none  bool
	}{
		"nothing":                   {none: true},
		"only zeros":                {of: reports{report("A", 1, 0, 1)}, none: true},
		"one":                       {of: reports{report("A", 1, 5, 1)}, want: "A", score: 5},
		"the most frequent":         {of: reports{report("A", 1, 9, 1), report("B", 1, 5, 1), report("B", 1, 5, 1)}, want: "B", score: 5},
		"a zero has no vote":        {of: reports{report("B", 1, 0, 1), report("B", 1, 0, 1), report("A", 1, 5, 1)}, want: "A", score: 5},
		"a tie: the highest":        {of: reports{report("A", 1, 5, 1), report("B", 1, 9, 1)}, want: "B", score: 9},
		"a tie of equals: first":    {of: reports{report("A", 1, 5, 1), report("B", 1, 5, 1)}, want: "A", score: 5},
		"other counts differ":       {of: reports{report("A", 1, 5, 1), report("A", 2, 5, 1), report("A", 2, 5, 1), report("A", 1, 5, 1)}, want: "A", score: 5},
		"without specs":             {of: reports{report("", 0, 5, 1), report("", 0, 5, 1), report("A", 1, 9, 1)}, want: "", score: 5},
		"one of several has none":   {of: reports{report("", 0, 5, 1), report("A", 1, 5, 1)}, want: "", score: 5},
		"weight counts, not number": {of: reports{report("A", 1, 5, 1), report("A", 1, 5, 1), report("B", 1, 4, 3)}, want: "B", score: 4},
	} {
		got, ok := netstate.PickDominant(tt.of)
		if ok == tt.none || got.Hotkey != tt.want || got.Score != tt.score || ok && !got.OwnScore {
			t.Errorf("%s: %+v, %v", name, got, ok)
		}
	}
}

// A liar copies what honest validators say of a miner, and puts his own hotkey and
// reliability there.
func TestALiarDoesNotRideOnTheMajority(t *testing.T) {
	honest := netstate.Report{Stat: netstate.Stat{UID: 5, Hotkey: "m5", GPU: &netstate.GPU{Name: "H100", Count: 1}, Score: 50, Reliability: 1}, Weight: 1}
	swapped, unreliable := honest, honest
	swapped.Hotkey, swapped.Reliability = "a-liar", -7
	unreliable.Reliability = -7
	got, ok := netstate.PickDominant([]netstate.Report{swapped, unreliable, honest, honest})
	if !ok || got.Hotkey != "m5" || got.Reliability != 1 {
		t.Errorf("%+v, %v", got, ok)
	}
}
