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
	total, xs, err := spread(ctx, src, s.buckets(series), s.Range, uint64(n))
	if err != nil || total <= uint64(n) {
		return err
	}
	s.at, s.single = slices.Compact(xs), true
	s.From, s.To = xs[0], xs[len(xs)-1]
	return nil
}

// buckets asks for summaries of a series.
func (s *selection) buckets(series *query.SeriesEnd) query.BucketsRequest {
	of := query.Selector{Run: s.run, Metric: series.Key.Metric, Scale: series.Key.Scale, Labels: series.Key.LabelMap()}
	return query.BucketsRequest{Selector: of, X: s.request().Axis}
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

// manyRows is from how many rows on it pays not to look at each of them.
const manyRows = 100_000

// someSteps are steps that have what a sample of n rows needs: rows spread evenly, and
// those of the ends of each key, which are given too. There are none where not every row
// holds all keys, as far as their number tells: then each has to be looked at. The least
// and the greatest time are taken to be those of the first and the last row.
func (s *selection) someSteps(ctx context.Context, src Source, n int) (at []int64, expected []ends, err error) {
	index, err := src.Describe(ctx, s.run, indexKey())
	if err != nil || index == nil || index.Count < manyRows || uint64(n) > index.Count/10 {
		return nil, nil, err
	}
	some := *s
	if err := some.spread(ctx, src, index, min(n, MaxRows)); err != nil || some.at == nil {
		return nil, nil, err
	}
	at = some.at
	for _, key := range s.keys {
		if key == StepKey || key == TimestampKey {
			continue
		}
		series, err := src.Describe(ctx, s.run, model.SeriesKey{Metric: key, Scale: model.ScaleStep})
		if err != nil || series == nil || series.Kind != model.KindFloat || series.Count != index.Count {
			return nil, nil, err
		}
		least, err := s.endOf(ctx, src, series, 1)
		if err != nil {
			return nil, nil, err
		}
		most, err := s.endOf(ctx, src, series, -1)
		if err != nil {
			return nil, nil, err
		}
		if least != nil && most != nil {
			at = append(at, least.Lo, most.Lo)
			expected = append(expected, ends{known: true, least: least.Min, most: most.Max})
		}
	}
	slices.Sort(at)
	return slices.Compact(at), expected, nil
}

// endOf is a bucket of one step with the least finite value of a series, or the greatest
// where sign is -1; nil where there is none.
func (s *selection) endOf(ctx context.Context, src Source, series *query.SeriesEnd, sign float64) (*query.Bucket, error) {
	ask, in := s.buckets(series), s.Range
	for ask.N = 1_000; ; {
		ask.From, ask.To = &in.From, &in.To
		result, err := src.Buckets(ctx, ask)
		if err != nil {
			return nil, err
		}
		var best *query.Bucket
		for i := range result.Buckets {
			if b := &result.Buckets[i]; b.Count > 0 && (best == nil || end(b, sign) < end(best, sign)) {
				best = b
			}
		}
		if best == nil || best.Lo == best.Hi {
			return best, nil
		}
		in = Range{best.Lo, best.Hi}
	}
}

// end is the least value of a bucket, or the greatest with its sign turned.
func end(b *query.Bucket, sign float64) float64 {
	if sign < 0 {
		return -b.Max
	}
	return b.Min
}
