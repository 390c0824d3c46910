package query

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/store"
)

// MaxMetrics is how many metrics are named at once.
const MaxMetrics = 50_000

// MetricsBytes is what the names of metrics take, with a page of the series that they come from.
func MetricsBytes() int64 { return answerBytes + (MaxMetrics/10+MaxSeries)*seriesBytes }

// Metric is what series with numbers of several runs share.
type Metric struct {
	Name  string
	Scale string
}

// Metrics names the metrics with numbers of runs, in order. Runs that cannot be read have none. More
// than [MaxMetrics] are cut.
func (s *Service) Metrics(ctx context.Context, runs []model.RunID, inherited bool) (list []Metric, cut bool, err error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	found := map[Metric]struct{}{}
	for _, id := range runs {
		run, err := s.open(ctx, id)
		if err != nil {
			continue
		}
		if cut, err = s.addMetrics(ctx, found, run, inherited); err != nil {
			return nil, false, s.finish(ctx, err)
		}
		if cut {
			break
		}
	}
	list = slices.SortedFunc(maps.Keys(found), func(a, b Metric) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Scale, b.Scale))
	})
	return list, cut, s.finish(ctx, ctx.Err())
}

// addMetrics adds those of a run; cut: there are more than [MaxMetrics].
func (s *Service) addMetrics(ctx context.Context, found map[Metric]struct{}, run *catalog.Run, inherited bool) (cut bool, err error) {
	for filter := (store.SeriesFilter{Limit: MaxSeries}); ; {
		curves, more, err := s.listCurves(ctx, run, filter, inherited)
		if err != nil {
			return false, err
		}
		for i := range curves {
			key := curves[i].series.Key
			m := Metric{key.Metric, key.Scale}
			if _, known := found[m]; known || !isNumeric(curves[i].series.Kind) {
				continue
			}
			if len(found) == MaxMetrics {
				return true, nil
			}
			found[m] = struct{}{}
		}
		if !more || len(curves) == 0 {
			return false, nil
		}
		filter.After = curves[len(curves)-1].series.Key.String()
	}
}
