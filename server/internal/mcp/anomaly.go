package mcp

import (
	"fmt"
	"math"
	"slices"

	"github.com/kymogram/kymogram/read"
	"github.com/kymogram/kymogram/server/internal/catalog/filter"
)

// What counts as unusual. The curve is looked at in at most curveBuckets buckets; a
// neighbourhood is a number of buckets on each side.
const (
	curveBuckets  = 1_000
	neighbourhood = 20
	leftOfSpike   = 5    // buckets that a spike must have on its left: before is the start of training
	rightOfSpike  = 3    // and on its right: what stays up is no spike
	spikeSpans    = 12   // robust spans (1.4826 MAD) above the neighbours' median
	mostSpikes    = 5    // the greatest are named, the others counted
	flatPoints    = 20   // points of one value
	flatShare     = 0.1  // of all points
	smoothShare   = 0.05 // width of the smoothed curve
	noBestShare   = 0.25 // of the points, without a new best
	progressShare = 0.01 // of the progress until then, which counts as a new best
	worseShare    = 0.5  // of the progress, lost again: divergence
)

// The kinds of findings, most severe first.
const (
	kindNaN       = "nan"
	kindInf       = "infinity"
	kindDiverged  = "diverged"
	kindSpike     = "spike"
	kindNoBest    = "no_improvement"
	kindFlat      = "flat"
	infinityWords = "infinite"
)

// unusual is something unusual between two places of the axis, both of buckets: where it
// is exactly is then looked up.
type unusual struct {
	kind     string
	from, to int64
	value    float64
	detail   string
	seek     func(float64) bool // the point that is meant; nil: from is exact enough
	inRange  func(read.Bucket) bool
}

// judge finds what is unusual in a curve. The name tells which way is better.
func judge(metric string, buckets []read.Bucket) []unusual {
	finite := slices.DeleteFunc(slices.Clone(buckets), func(b read.Bucket) bool { return b.Count == 0 })
	out := append(notNumbers(buckets), spikes(finite)...)
	if way := better(metric); way != 0 {
		out = append(out, progress(finite, way)...)
	}
	return append(out, flat(finite)...)
}

// better is 1 where more is better, -1 where less is, 0 where the name does not tell.
func better(metric string) float64 {
	m, known := filter.Metric{Name: metric, Of: filter.Best}.Resolved()
	switch {
	case !known:
		return 0
	case m.Of == filter.Max:
		return 1
	}
	return -1
}

// notNumbers are the first NaN and the first infinity.
func notNumbers(buckets []read.Bucket) (out []unusual) {
	var nans, infs, all uint64
	for _, b := range buckets {
		nans, infs, all = nans+b.NaN, infs+b.PosInf+b.NegInf, all+b.NaN+b.PosInf+b.NegInf+b.Count
	}
	first := func(kind, words string, n uint64, has func(read.Bucket) bool, is func(float64) bool) {
		if i := slices.IndexFunc(buckets, has); i >= 0 {
			out = append(out, unusual{kind, buckets[i].Lo, buckets[i].Hi, math.NaN(), fmt.Sprintf("the first of %d %s values among %d points", n, words, all), is, has})
		}
	}
	first(kindNaN, "NaN", nans, func(b read.Bucket) bool { return b.NaN > 0 }, math.IsNaN)
	first(kindInf, infinityWords, infs, func(b read.Bucket) bool { return b.PosInf+b.NegInf > 0 }, func(v float64) bool { return math.IsInf(v, 0) })
	return out
}

// spikes are values far outside of what lies on both sides of them. The greatest and least
// values of buckets are compared with those of their neighbours, so that a bucket of many
// points is no spike for being one.
func spikes(buckets []read.Bucket) []unusual {
	type spike struct {
		unusual
		spans float64
	}
	var found []spike
	floor := spread(buckets) / 1_000
	for _, side := range []float64{1, -1} {
		ends := make([]float64, len(buckets))
		for i, b := range buckets {
			if ends[i] = b.Max; side < 0 {
				ends[i] = -b.Min
			}
		}
		for i := leftOfSpike; i < len(ends)-rightOfSpike; i++ {
			spans := min(beyond(ends[i], ends[max(0, i-neighbourhood):i], floor), beyond(ends[i], ends[i+1:min(len(ends), i+1+neighbourhood)], floor))
			if spans < spikeSpans {
				continue
			}
			want := side * ends[i]
			is := func(v float64) bool { return v == want }
			in := func(b read.Bucket) bool { return b.Count > 0 && (b.Max == want || b.Min == want) }
			found = append(found, spike{unusual{kindSpike, buckets[i].Lo, buckets[i].Hi, want, fmt.Sprintf("%.3g robust spans from the points around it", spans), is, in}, spans})
		}
	}
	slices.SortStableFunc(found, func(a, b spike) int {
		switch {
		case a.spans > b.spans:
			return -1
		case a.spans < b.spans:
			return 1
		}
		return 0
	})
	var out []unusual
	for _, s := range found[:min(len(found), mostSpikes)] {
		out = append(out, s.unusual)
	}
	if len(found) > mostSpikes {
		out[mostSpikes-1].detail += fmt.Sprintf("; %d more spikes are less far", len(found)-mostSpikes)
	}
	return out
}

// beyond is how many robust spans v is above values; floor is the least span.
func beyond(v float64, values []float64, floor float64) float64 {
	middle := median(values)
	off := make([]float64, len(values))
	for i, x := range values {
		off[i] = math.Abs(x - middle)
	}
	span := max(1.4826*median(off), floor, math.Abs(middle)*1e-9, math.SmallestNonzeroFloat64)
	return (v - middle) / span
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return sorted[(n-1)/2]/2 + sorted[n/2]/2
}

// spread is the range of the means without the outer twentieths.
func spread(buckets []read.Bucket) float64 {
	means := make([]float64, len(buckets))
	for i, b := range buckets {
		means[i] = b.Mean
	}
	slices.Sort(means)
	if len(means) == 0 {
		return 0
	}
	last := len(means) - 1
	return means[last-last/20] - means[last/20]
}

// progress looks at the smoothed curve: its best place, what came after it, and what of the
// progress until there was lost again.
func progress(buckets []read.Bucket, way float64) []unusual {
	curve, points := smoothed(buckets, way)
	if len(curve) < 4 {
		return nil
	}
	best, gained := 0, 0.0
	for i, v := range curve {
		if gain := v - curve[0]; gain > gained+progressShare*gained || i == 0 {
			best, gained = i, gain
		}
	}
	last := len(curve) - 1
	lost, after := curve[best]-curve[last], 1-points[best]
	noise := noiseOf(buckets)
	switch {
	case lost > worseShare*gained && lost > 6*noise:
		over := best + slices.IndexFunc(curve[best:], func(v float64) bool { return curve[best]-v > worseShare*gained })
		return []unusual{{
			kind: kindDiverged, from: buckets[over].Lo, to: buckets[last].Hi, value: buckets[last].Mean,
			detail: fmt.Sprintf("smoothed, it was best near %d (%.6g) and ended at %.6g", buckets[best].Lo, way*curve[best], way*curve[last]),
		}}
	case after >= noBestShare && gained > 0:
		return []unusual{{
			kind: kindNoBest, from: buckets[best].Lo, to: buckets[last].Hi, value: way * curve[best],
			detail: fmt.Sprintf("smoothed, it was best near %d; the last %.0f %% of the points brought less than %g %% more", buckets[best].Lo, 100*after, 100*progressShare),
		}}
	}
	return nil
}

// smoothed is the curve as running means of a twentieth of the buckets, in the direction
// where more is better, and the share of the points until each bucket.
func smoothed(buckets []read.Bucket, way float64) (curve, share []float64) {
	half := max(0, int(smoothShare*float64(len(buckets))/2))
	sums, counts := make([]float64, len(buckets)+1), make([]float64, len(buckets)+1)
	for i, b := range buckets {
		sums[i+1], counts[i+1] = sums[i]+b.Mean*float64(b.Count), counts[i]+float64(b.Count)
	}
	for i := range buckets {
		lo, hi := max(0, i-half), min(len(buckets), i+half+1)
		curve = append(curve, way*(sums[hi]-sums[lo])/(counts[hi]-counts[lo]))
		share = append(share, counts[i+1]/counts[len(buckets)])
	}
	return curve, share
}

// noiseOf is the robust span of what the means do from one bucket to the next.
func noiseOf(buckets []read.Bucket) float64 {
	steps := make([]float64, 0, len(buckets))
	for i := 1; i < len(buckets); i++ {
		steps = append(steps, math.Abs(buckets[i].Mean-buckets[i-1].Mean))
	}
	if len(steps) == 0 {
		return 0
	}
	return 1.4826 * median(steps) / math.Sqrt2
}

// flat is the longest stretch of one value, of a metric that has others too.
func flat(buckets []read.Bucket) []unusual {
	total, longest, begin, end := uint64(0), uint64(0), 0, 0
	for i := 0; i < len(buckets); {
		n, j := uint64(0), i
		for ; j < len(buckets) && buckets[j].Min == buckets[i].Min && buckets[j].Max == buckets[i].Min; j++ {
			n += buckets[j].Count
		}
		if n > longest {
			longest, begin, end = n, i, j-1
		}
		for j = max(j, i+1); i < j; i++ {
			total += buckets[i].Count
		}
	}
	if longest < flatPoints || float64(longest) < flatShare*float64(total) || longest == total {
		return nil
	}
	return []unusual{{kind: kindFlat, from: buckets[begin].Lo, to: buckets[end].Hi, value: buckets[begin].Min, detail: fmt.Sprintf("%d points in a row have this value", longest)}}
}
