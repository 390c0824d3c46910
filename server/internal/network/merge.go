package network

import (
	"cmp"
	"slices"
)

// vote is one validator's report on a miner that counts.
type vote struct {
	validator int // place in Document.Validators
	score     float64
	gpu       int
	other     *string // the hotkey it names, where that is not the miner's
}

func (v vote) triple() triple {
	t := triple{score: v.score, gpu: v.gpu}
	if v.other != nil {
		t.other, t.hotkey = true, *v.other
	}
	return t
}

// triple is what votes are counted by.
type triple struct {
	score  float64
	gpu    int
	other  bool
	hotkey string
}

// merge finds the report that most votes carry: the same hotkey, GPU, number and score.
// Of those with as many votes the higher score wins, then the one that was seen first.
// A report without a GPU is one like any other.
func merge(votes []vote) *Result {
	if len(votes) == 0 {
		return nil
	}
	carried := make(map[triple][]int, 1)
	order := make([]triple, 0, 1)
	for _, v := range votes {
		t := v.triple()
		if carried[t] == nil {
			order = append(order, t)
		}
		carried[t] = append(carried[t], v.validator)
	}
	best := order[0]
	for _, t := range order[1:] {
		if cmp.Or(len(carried[t])-len(carried[best]), cmp.Compare(t.score, best.score)) > 0 {
			best = t
		}
	}
	slices.Sort(carried[best])
	return &Result{Score: best.score, GPU: best.gpu, Carried: carried[best], Against: len(votes) - len(carried[best])}
}
