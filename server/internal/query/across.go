package query

import (
	"context"
	"fmt"
	"iter"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
)

// AcrossRequest asks for what the series of one run have in a range.
type AcrossRequest = store.AcrossRequest

// Rows are points by column.
type Rows = store.Rows

// SeriesEnd is a series and the end of its curve.
type SeriesEnd = store.Series

// Across reads many series of a run at once, in the order of their keys, for readers of rows
// that lie over them. Those without a point in the range cost next to nothing. A run
// without a point has none. See [store.Selector].
func (s *Service) Across(ctx context.Context, r AcrossRequest) iter.Seq2[*Rows, error] {
	return func(yield func(*Rows, error) bool) {
		ctx, cancel := s.bounded(ctx)
		defer cancel()
		run, err := s.open(ctx, r.Run)
		if err != nil {
			yield(nil, s.finish(ctx, err))
			return
		}
		r.Run = run.ID
		for rows, err := range s.store.Across(ctx, r) {
			if model.CodeOf(err) == model.CodeNotFound {
				return
			}
			if err != nil {
				err = s.finish(ctx, fmt.Errorf("read across the series of run %s: %w", run.ID, err))
			}
			if !yield(rows, err) || err != nil {
				return
			}
		}
	}
}

// Describe describes one series and the end of its curve, without its last text; nil
// where the run does not have it.
func (s *Service) Describe(ctx context.Context, id model.RunID, key model.SeriesKey) (*SeriesEnd, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	run, err := s.open(ctx, id)
	if err != nil {
		return nil, s.finish(ctx, err)
	}
	text := key.String()
	list, _, err := s.listOf(ctx, run.ID, store.SeriesFilter{Metric: key.Metric, Match: func(k model.SeriesKey) bool { return k.String() == text }, Limit: 1})
	if err != nil || len(list) == 0 {
		return nil, s.finish(ctx, err)
	}
	return &list[0], nil
}

// Having tells which of some metrics a run has a series of that is taken. It looks the run
// up once, so it is for many names.
func (s *Service) Having(ctx context.Context, id model.RunID, metrics iter.Seq[string], take func(key model.SeriesKey) bool) (map[string]bool, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	run, err := s.open(ctx, id)
	if err != nil {
		return nil, s.finish(ctx, err)
	}
	found := map[string]bool{}
	for metric := range metrics {
		if metric == "" {
			continue // no series is called so; to a filter it is every name
		}
		list, _, err := s.listOf(ctx, run.ID, store.SeriesFilter{Metric: metric, Match: take, Limit: 1})
		if err != nil {
			return nil, s.finish(ctx, err)
		}
		if len(list) > 0 {
			found[metric] = true
		}
	}
	return found, nil
}
