package netstate

import (
	"cmp"
	"slices"
)

// claim is what votes are counted by. The hotkey is part of it: who says the same of
// another machine does not agree.
type claim struct {
	hotkey string
	gpu    GPU
	known  bool
	score  float64
}

func claimOf(s Stat) claim {
	if s.GPU == nil {
		return claim{hotkey: s.Hotkey, score: s.Score}
	}
	return claim{s.Hotkey, *s.GPU, true, s.Score}
}

// Report is one validator's word about a miner, and what its vote weighs.
type Report struct {
	Stat
	Weight float64
}

// PickDominant chooses among reports about one miner: those with score 0 do not
// count; of the others the most frequent (hotkey, GPU, number of GPUs, score) wins,
// each counted by its weight, then the highest score, then the first. Of those that
// carry the winner the first with the median reliability is returned: none of them
// alone chooses that number. ok is false when none is left.
func PickDominant(reports []Report) (winner Stat, ok bool) {
	votes, carriers := map[claim]float64{}, map[claim][]Report{}
	var order []claim
	for _, r := range reports {
		if r.Score == 0 {
			continue
		}
		c := claimOf(r.Stat)
		if carriers[c] == nil {
			order = append(order, c)
		}
		carriers[c] = append(carriers[c], r)
		votes[c] += r.Weight
	}
	if len(order) == 0 {
		return Stat{}, false
	}
	best := order[0]
	for _, c := range order[1:] {
		if votes[c] > votes[best] || votes[c] == votes[best] && c.score > best.score {
			best = c
		}
	}
	winner = middle(carriers[best], votes[best])
	winner.OwnScore = true
	return winner, true
}

// middle is the first report whose reliability is their weighted median.
func middle(reports []Report, total float64) Stat {
	slices.SortStableFunc(reports, func(a, b Report) int { return cmp.Compare(a.Reliability, b.Reliability) })
	sum, at := 0.0, 0
	for i, r := range reports {
		if r.Reliability != reports[at].Reliability {
			at = i
		}
		if sum += r.Weight; sum >= total/2 {
			break
		}
	}
	return reports[at].Stat
}
