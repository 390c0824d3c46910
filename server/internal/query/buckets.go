package query

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/store"
)

// Buckets down-samples one series to at most N disjoint buckets.
func (s *Service) Buckets(ctx context.Context, r BucketsRequest) (*BucketsResult, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	result, err := s.bucketsOf(ctx, s.open, r)
	return result, s.finish(ctx, err)
}

func (s *Service) bucketsOf(ctx context.Context, open opener, r BucketsRequest) (*BucketsResult, error) {
	if err := ctx.Err(); err != nil { // one of many, and the time is up
		return nil, err
	}
	if err := checkBuckets(&r); err != nil {
		return nil, err
	}
	c, err := s.openSeries(ctx, open, r.Selector, r.Attempts, r.IncludeInherited)
	if err != nil {
		return nil, err
	}
	return s.readBuckets(ctx, c, r)
}

func checkBuckets(r *BucketsRequest) error {
	if r.N == 0 {
		r.N = DefaultBucket
	}
	if r.N < 1 || r.N > MaxBuckets {
		return model.Errorf(model.CodeInvalid, "n is %d, it must be from 1 to %d", r.N, MaxBuckets)
	}
	_, _, err := rangeOf(r.From, r.To)
	return err
}

func (s *Service) readBuckets(ctx context.Context, c *curve, r BucketsRequest) (*BucketsResult, error) {
	series := c.series
	if !isNumeric(series.Kind) {
		return nil, model.Errorf(model.CodeInvalid, "series %s holds %s, which has no buckets", seriesText(series.Key), series.Kind).
			WithHint("read it with points")
	}
	axis, err := axisOf(series, r.X)
	if err != nil {
		return nil, err
	}
	from, to, err := rangeOf(r.From, r.To)
	if err != nil {
		return nil, err
	}
	buckets, err := s.store.Buckets(ctx, store.BucketsRequest{
		Run: c.Run, Series: c.Series, Ancestors: c.Ancestors, Axis: axis, From: from, To: to, N: r.N, Attempts: r.Attempts, Grid: r.grid,
	})
	if err != nil {
		return nil, fmt.Errorf("read buckets of series %s of run %s: %w", seriesText(series.Key), c.run.ID, err)
	}
	return &BucketsResult{Run: c.run.ID, Series: series, X: axis, Inherited: r.IncludeInherited, Buckets: buckets}, nil
}

// BucketsMany answers many requests, a few at a time, in their order. One that
// fails does not fail the others.
func (s *Service) BucketsMany(ctx context.Context, requests []BucketsRequest) ([]BucketsOutcome, error) {
	if err := checkMany(requests); err != nil {
		return nil, err
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	out := make([]BucketsOutcome, len(requests))
	open := once(s.open)
	var group errgroup.Group
	group.SetLimit(s.limits.Parallel)
	for i, r := range requests {
		group.Go(func() error {
			result, err := s.bucketsOf(ctx, open, r)
			out[i] = BucketsOutcome{result, s.finish(ctx, err)}
			return nil
		})
	}
	return out, group.Wait()
}

// once opens each run once: the charts of a page are mostly of few runs.
func once(open opener) opener {
	type opened struct {
		sync.Once
		run *catalog.Run
		err error
	}
	var runs sync.Map
	return func(ctx context.Context, id model.RunID) (*catalog.Run, error) {
		found, _ := runs.LoadOrStore(id, new(opened))
		o := found.(*opened)
		o.Do(func() { o.run, o.err = open(ctx, id) })
		return o.run, o.err
	}
}

func checkMany(requests []BucketsRequest) error {
	if len(requests) > MaxQueries {
		return model.Errorf(model.CodeInvalid, "%d queries at once, there may be %d", len(requests), MaxQueries).
			WithHint("send several requests")
	}
	total := 0
	for _, r := range requests {
		total += max(r.N, 0)
		if r.N == 0 {
			total += DefaultBucket
		}
	}
	if total > MaxPoints {
		return model.Errorf(model.CodeInvalid, "the queries ask for %d buckets together, there may be %d", total, MaxPoints).
			WithHint("lower n: a chart needs no more buckets than it has pixels")
	}
	return nil
}

// Mean is the mean of a bucket's finite values; false when it has none.
func Mean(b Bucket) (float64, bool) {
	return b.Mean()
}
