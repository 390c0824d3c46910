package netstate

import "github.com/kymogram/kymogram/internal/report"

// Report is one validator's word about a miner, and what its vote weighs.
type Report = report.Vote

// PickDominant chooses among reports about one miner: those with score 0 do not
// count; of the others the most frequent (hotkey, GPU, number of GPUs, score) wins,
// each counted by its weight, then the highest score, then the first. Reliability,
// time and mark of what is returned are of all who carry it together: the weighted
// median, and of two halves that differ the number nearest to 0, the earlier time,
// and not allocated. ok is false when no report counts.
func PickDominant(reports []Report) (winner Stat, ok bool) {
	winner, carried := report.Dominant(reports)
	return winner, len(carried) > 0
}
