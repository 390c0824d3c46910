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

// A carrier that says what all say is first, and sorts into the middle: what nobody
// votes on is still not its own. At a tie of two it can lower a number to 0, no further.
func TestACarrierDoesNotChooseWhatNobodyVotesOn(t *testing.T) {
	honest := netstate.Report{Stat: netstate.Stat{UID: 5, Hotkey: "m5", Score: 50, Reliability: 0.75, CreatedAt: "2026-11-22 10:00:00", Allocated: true}, Weight: 1}
	copied := honest
	copied.CreatedAt, copied.Allocated = "1970-01-01 00:00:00", false
	for name, tt := range map[string]struct {
		reliability, want float64
		reports           int // honest ones
		created           string
		allocated         bool
	}{
		"sorts first":         {0.75, 0.75, 2, honest.CreatedAt, true},
		"a tie of two, low":   {-7, 0, 1, copied.CreatedAt, false},
		"a tie of two, high":  {1e9, 0.75, 1, copied.CreatedAt, false},
		"two against one":     {-7, 0.75, 2, honest.CreatedAt, true},
		"two against one, up": {1e9, 0.75, 2, honest.CreatedAt, true},
	} {
		copied.Reliability = tt.reliability
		reports := []netstate.Report{copied, honest, honest}[:1+tt.reports]
		got, ok := netstate.PickDominant(reports)
		if !ok || got.Reliability != tt.want || got.CreatedAt != tt.created || got.Allocated != tt.allocated {
			t.Errorf("%s: %+v, %v", name, got, ok)
		}
	}
	copied.CreatedAt = ""
	if got, _ := netstate.PickDominant([]netstate.Report{copied, honest}); got.CreatedAt != honest.CreatedAt {
		t.Errorf("who says no time chooses it: %+v", got)
	}
}
