package importer

import (
	"math"

	"github.com/kymogram/kymogram/internal/model"
)

// bin is one bin of a foreign histogram.
type bin struct{ left, right, count float64 }

// histogramOf makes a histogram of bins that follow one another. Bins without a
// width join their neighbour, more than a server takes are joined in groups,
// and infinite edges become the values' ends.
func histogramOf(bins []bin, stats *model.HistogramStats) *model.Histogram {
	if stats != nil && !finite(stats.Min, stats.Max, stats.Sum, stats.SumOfSquares) {
		stats = nil
	}
	var edges, counts []float64
	for _, one := range trim(bins) {
		left, right := bound(one.left), bound(one.right)
		if !(one.count >= 0) || math.IsInf(one.count, 0) || math.IsNaN(left) || math.IsNaN(right) {
			return nil
		}
		if edges == nil {
			edges = []float64{left}
		}
		switch last := edges[len(edges)-1]; {
		case right > last:
			edges, counts = append(edges, right), append(counts, one.count)
		case len(counts) == 0: // all values are equal
			edges, counts = append(edges, math.Nextafter(last, math.Inf(1))), append(counts, one.count)
		default:
			counts[len(counts)-1] += one.count
		}
	}
	if edges, counts = merge(edges, counts); counts == nil {
		return nil
	}
	return &model.Histogram{BinEdges: edges, Counts: counts, Stats: stats}
}

// merge joins neighbours until there are no more bins than a server takes.
func merge(edges, counts []float64) ([]float64, []float64) {
	if len(counts) <= model.MaxBins {
		return edges, counts
	}
	group := (len(counts) + model.MaxBins - 1) / model.MaxBins
	outEdges, outCounts := []float64{edges[0]}, []float64(nil)
	for from := 0; from < len(counts); from += group {
		to, sum := min(from+group, len(counts)), 0.0
		for _, c := range counts[from:to] {
			sum += c
		}
		outEdges, outCounts = append(outEdges, edges[to]), append(outCounts, sum)
	}
	return outEdges, outCounts
}

// bound keeps an edge finite.
func bound(edge float64) float64 { return min(max(edge, -math.MaxFloat64), math.MaxFloat64) }

func finite(values ...float64) bool {
	for _, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return false
		}
	}
	return true
}

// trim drops the empty bins at both ends; one stays.
func trim(bins []bin) []bin {
	for len(bins) > 1 && bins[0].count == 0 {
		bins = bins[1:]
	}
	for len(bins) > 1 && bins[len(bins)-1].count == 0 {
		bins = bins[:len(bins)-1]
	}
	return bins
}
