package netstate

// claim is what votes are counted by.
type claim struct {
	gpu   GPU
	known bool
	score float64
}

func claimOf(s Stat) claim {
	if s.GPU == nil {
		return claim{score: s.Score}
	}
	return claim{*s.GPU, true, s.Score}
}

// Report is one validator's word about a miner, and what its vote weighs.
type Report struct {
	Stat
	Weight float64
}

// PickDominant chooses among reports about one miner: those with score 0 do not
// count; of the others the most frequent (GPU, number of GPUs, score) wins, each
// counted by its weight, then the highest score, then the first. ok is false when
// none is left.
func PickDominant(reports []Report) (winner Stat, ok bool) {
	votes, first := map[claim]float64{}, map[claim]Stat{}
	var order []claim
	for _, r := range reports {
		if r.Score == 0 {
			continue
		}
		c := claimOf(r.Stat)
		if _, seen := first[c]; !seen {
			first[c], order = r.Stat, append(order, c)
		}
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
	winner = first[best]
	winner.OwnScore = true
	return winner, true
}
