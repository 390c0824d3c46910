package netstate

import "github.com/kymogram/kymogram/internal/report"

// Report is one validator's word about a miner, and what its vote weighs.
type Report = report.Vote

// PickDominant chooses among reports about one miner. Those with score 0 do not count.
// Of the others the most frequent (hotkey, GPU, number of GPUs, score) wins, each counted
// by its weight. Between equals the highest score wins, then the first report.
//
// Reliability, time and mark of the winner come from all reports that carry it: they are
// weighted medians. Where two halves differ, the number nearest to 0 wins, the earlier
// time, and not allocated. ok is false when no report counts.
func PickDominant(reports []Report) (winner Stat, ok bool) {
	winner, carried := report.Dominant(reports)
	return winner, len(carried) > 0
}
