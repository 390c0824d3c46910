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
}

// merge finds the report that most votes carry: the same GPU, number and score. Of
// those with as many votes the higher score wins, then the one that was seen first.
// A report without a GPU is one like any other.
func merge(votes []vote) *Result {
	if len(votes) == 0 {
		return nil
	}
	type triple struct {
		score float64
		gpu   int
	}
	carried := make(map[triple][]int, 1)
	order := make([]triple, 0, 1)
	for _, v := range votes {
		t := triple{v.score, v.gpu}
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
