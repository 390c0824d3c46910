package report

import (
	"cmp"
	"slices"
)

// Vote is one validator's word about a miner, and what it weighs.
type Vote struct {
	Stat
	Weight float64
}

// claim is what votes are counted by. The hotkey is part of it: who says the same of
// another machine does not agree.
type claim struct {
	hotkey string
	gpu    GPU
	known  bool
	score  float64
}

func (v *Vote) claim() claim {
	if v.GPU == nil {
		return claim{hotkey: v.Hotkey, score: v.Score}
	}
	return claim{v.Hotkey, *v.GPU, true, v.Score}
}

// Dominant chooses among votes about one miner: those with score 0 do not count; of
// the others the most frequent (hotkey, GPU, number of GPUs, score) wins, each counted
// by its weight, then the highest score, then the first. What nobody votes on is of
// all who carry the winner together: none of them alone chooses it. Carried are the
// places of these votes; none says that no vote counts.
func Dominant(votes []Vote) (winner Stat, carried []int) {
	carriers := make(map[claim][]int, 1)
	var order []claim
	for i := range votes {
		if votes[i].Score == 0 {
			continue
		}
		c := votes[i].claim()
		if carriers[c] == nil {
			order = append(order, c)
		}
		carriers[c] = append(carriers[c], i)
	}
	if len(order) == 0 {
		return Stat{}, nil
	}
	weight := func(c claim) (sum float64) {
		for _, i := range carriers[c] {
			sum += votes[i].Weight
		}
		return sum
	}
	best, most := order[0], weight(order[0])
	for _, c := range order[1:] {
		if w := weight(c); cmp.Or(cmp.Compare(w, most), cmp.Compare(c.score, best.score)) > 0 {
			best, most = c, w
		}
	}
	carried = carriers[best]
	return together(votes, carried), carried
}

// together is what the carriers of one claim say: its parts, and of each other part
// what the half of their weight has on either side.
func together(votes []Vote, carried []int) Stat {
	s := votes[carried[0]].Stat // uid, and what the claim holds
	s.OwnScore = true
	ballot := make([]Vote, 0, len(carried))
	for _, i := range carried {
		ballot = append(ballot, votes[i])
	}
	// Between two halves that differ lies a range: what is nearest to none, so that
	// half of the votes can lower a number to 0 and no further.
	low, high := middle(ballot, func(v *Vote) float64 { return v.Reliability })
	s.Reliability = min(max(0, low), high)
	no, yes := middle(ballot, func(v *Vote) int { return rank(v.Allocated) })
	s.Allocated = no+yes == 2
	dated := slices.DeleteFunc(ballot, func(v Vote) bool { return v.CreatedAt == "" })
	s.CreatedAt, _ = middle(dated, func(v *Vote) string { return v.CreatedAt })
	return s
}

func rank(b bool) int {
	if b {
		return 1
	}
	return 0
}

// middle is the weighted median: two values where the halves differ.
func middle[T cmp.Ordered](ballot []Vote, of func(*Vote) T) (low, high T) {
	slices.SortStableFunc(ballot, func(a, b Vote) int { return cmp.Compare(of(&a), of(&b)) })
	total := 0.0
	for i := range ballot {
		total += ballot[i].Weight
	}
	sum, found := 0.0, false
	for i := range ballot {
		high = of(&ballot[i])
		if sum += ballot[i].Weight; sum >= total/2 && !found {
			low, found = high, true
		}
		if sum > total/2 {
			return low, high
		}
	}
	return low, high
}
