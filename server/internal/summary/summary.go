// Package summary reduces runs to the values that tables of runs show, filter and sort by:
// of each metric the last value, the least and the greatest.
//
// In: news of runs, and the series of a store. Out: [Of] one run, at once; and what a
// [Keeper] stores in the catalog, a moment after the news. What is stored follows from the
// store alone, so it may be lost, and is made again.
//
// Start reading at [Keeper.Run].
package summary

import (
	"context"
	"fmt"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
)

// Lister is the part of a store that [Of] reads.
type Lister interface {
	ListSeries(ctx context.Context, run model.RunID, f store.SeriesFilter) (page []store.Series, more bool, err error)
}

// Metric is a run's metric, and the series that stands for it.
type Metric struct {
	Name   string
	Series *store.Series
}

// Of lists the plain numeric series of a run that have a point, at most limit. Where a
// metric has several scales ML_STEP stands for it; where it has a training and an evaluation
// series the latter is called "METRIC (evaluation)". It may be cut where there are more.
func Of(ctx context.Context, s Lister, run model.RunID, limit int) (out []Metric, cut bool, err error) {
	page, more, err := s.ListSeries(ctx, run, store.SeriesFilter{Match: isPlain, Limit: 2 * limit})
	if model.CodeOf(err) == model.CodeNotFound || model.CodeOf(err) == model.CodeRunDeleted {
		return nil, false, nil // a run without a point yet, or one in the trash
	}
	if err != nil {
		return nil, false, fmt.Errorf("list series of run %s: %w", run, err)
	}
	trained := map[string]bool{}
	for i := range page {
		trained[page[i].Key.Metric] = trained[page[i].Key.Metric] || !isEvaluation(page[i].Key)
	}
	at := map[string]int{}
	for i := range page {
		series := &page[i]
		if series.Last == nil || !isNumeric(series.Kind) {
			continue
		}
		name := series.Key.Metric
		if isEvaluation(series.Key) && trained[name] {
			name += evaluation
		}
		if place, ok := at[name]; !ok {
			at[name] = len(out)
			out = append(out, Metric{name, series})
		} else if series.Key.Scale == model.ScaleStep {
			out[place] = Metric{name, series}
		}
	}
	return out[:min(len(out), limit)], more || len(out) > limit, nil
}

// Find is the series that [Of] gives a metric, nil where the run has none.
func Find(ctx context.Context, s Lister, run model.RunID, name string) (*store.Series, error) {
	short, evaluated := strings.CutSuffix(name, evaluation)
	for _, metric := range []string{name, short} {
		found, _, err := Of(ctx, only{s, metric}, run, 4)
		if err != nil {
			return nil, err
		}
		for _, m := range found {
			if m.Name == name {
				return m.Series, nil
			}
		}
		if !evaluated {
			break
		}
	}
	return nil, nil
}

// only lists one metric.
type only struct {
	Lister
	metric string
}

func (o only) ListSeries(ctx context.Context, run model.RunID, f store.SeriesFilter) ([]store.Series, bool, error) {
	f.Metric = o.metric
	return o.Lister.ListSeries(ctx, run, f)
}

const evaluation = " (evaluation)"

// isPlain holds for series that stand for their metric: without labels, of the
// default environment, or logged with evaluation=True.
func isPlain(key model.SeriesKey) bool {
	switch len(key.Labels) {
	case 0:
		return true
	case 1:
		return key.Labels[0] == model.Label{Name: model.LabelEnv, Value: "default"} || isEvaluation(key)
	}
	return false
}

func isEvaluation(key model.SeriesKey) bool {
	return len(key.Labels) == 1 && key.Labels[0] == model.Label{Name: "evaluation", Value: "true"}
}

func isNumeric(k model.Kind) bool { return k == model.KindFloat || k == model.KindInt }
