package row

import (
	"context"
	"iter"
	"slices"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/query"
)

// SampledLines reads at most n whole rows of a range, spread evenly over it, the first and
// the last among them. Where there are no more than n, all come.
func SampledLines(ctx context.Context, src Source, run model.RunID, r Range, n int) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		sel := selection{run: run, Range: r}
		index, err := src.Describe(ctx, run, indexKey())
		if err == nil && index != nil {
			err = sel.spread(ctx, src, index, n)
		}
		if err != nil {
			yield(nil, err)
			return
		}
		if index == nil {
			return
		}
		for row, err := range rowsOf(ctx, src, sel) {
			if !yield(row.Line, err) || err != nil {
				return
			}
		}
	}
}

// spread chooses at most n steps of the rows that a series has points of. Where it has no
// more than n, all stay.
func (s *selection) spread(ctx context.Context, src Source, series *query.SeriesEnd, n int) error {
	if n < 1 || n > MaxRows {
		return model.Errorf(model.CodeInvalid, "a sample of %d rows", n).WithHint("ask for 1 to %d", MaxRows)
	}
	ask := query.BucketsRequest{Selector: query.Selector{Run: s.run, Metric: series.Key.Metric, Scale: series.Key.Scale, Labels: series.Key.LabelMap()}, X: s.request().Axis}
	total, xs, err := spread(ctx, src, ask, s.Range, uint64(n))
	if err != nil || total <= uint64(n) {
		return err
	}
	s.at, s.single = slices.Compact(xs), true
	s.From, s.To = xs[0], xs[len(xs)-1]
	return nil
}

// spread finds the x of n points of a series, evenly by their number, from the first to the
// last. It reads summaries, and again where many of those points are in one of them.
func spread(ctx context.Context, src Source, ask query.BucketsRequest, r Range, n uint64) (total uint64, xs []int64, err error) {
	const least, each = 64, 4
	ask.From, ask.To, ask.N = &r.From, &r.To, int(min(query.MaxBuckets, max(least, each*n)))
	result, err := src.Buckets(ctx, ask)
	if err != nil {
		return 0, nil, err
	}
	for i := range result.Buckets {
		total += points(&result.Buckets[i])
	}
	if total <= n {
		return total, nil, nil
	}
	before, taken := uint64(0), uint64(0)
	for i := range result.Buckets {
		b := &result.Buckets[i]
		end, first := before+points(b), taken
		for taken < n && rank(taken, n, total) < end {
			taken++
		}
		switch got := taken - first; {
		case got == 0:
		case got == 1 && end == total && n > 1:
			xs = append(xs, b.Hi)
		case got == 1 || b.Lo == b.Hi:
			xs = append(xs, b.Lo)
		default:
			_, more, err := spread(ctx, src, ask, Range{b.Lo, b.Hi}, got)
			if err != nil {
				return 0, nil, err
			}
			xs = append(xs, more...)
			if more == nil { // it has no more points than that
				xs = append(xs, b.Lo, b.Hi)
			}
		}
		before = end
	}
	return total, xs, nil
}

// rank is the number of the i-th of n points among all.
func rank(i, n, total uint64) uint64 {
	if n == 1 {
		return 0
	}
	return uint64(float64(i) / float64(n-1) * float64(total-1))
}

// points are all of a bucket, of any value.
func points(b *query.Bucket) uint64 { return b.Count + b.NaN + b.PosInf + b.NegInf }
