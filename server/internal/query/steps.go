package query

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/catalog/filter"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/summary"
)

// steps reads what a filter and a sort name with at(METRIC, STEP) from the store.
func (s *Service) steps(ctx context.Context, r RunsRequest) (catalog.Steps, error) {
	e, err := filter.Parse(r.Query)
	if err != nil {
		return nil, err
	}
	named := e.Metrics(nil)
	if m, ok := filter.ParseMetric(strings.TrimPrefix(r.Sort, "-")); ok {
		named = append(named, m)
	}
	var out catalog.Steps
	for _, m := range named {
		if _, ok := out[m]; ok || m.Of != filter.AtStep {
			continue
		}
		if out == nil {
			out = catalog.Steps{}
		}
		if out[m], err = s.atStep(ctx, r.Workspace, r.Project, m); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// atStep reads a metric at a step of all runs of a project that have it there.
func (s *Service) atStep(ctx context.Context, workspace, project string, m filter.Metric) (map[model.RunID]float64, error) {
	runs, err := s.runs.RunsWith(ctx, workspace, project, m.Name)
	if err != nil {
		return nil, fmt.Errorf("list the runs with %s: %w", model.Clip(m.Name), err)
	}
	var mu sync.Mutex
	out := make(map[model.RunID]float64, len(runs))
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(s.limits.Parallel)
	for _, run := range runs {
		group.Go(func() error {
			v, ok, err := s.valueAt(gctx, run, m)
			if ok && err == nil {
				mu.Lock()
				out[run] = v
				mu.Unlock()
			}
			return err
		})
	}
	return out, group.Wait()
}

// valueAt is the curve's last point at the step.
func (s *Service) valueAt(ctx context.Context, run model.RunID, m filter.Metric) (v float64, ok bool, err error) {
	series, err := summary.Find(ctx, s.store, run, m.Name)
	if err != nil || series == nil {
		return 0, false, err
	}
	rows, err := s.store.Scan(ctx, store.ScanRequest{Run: run, Series: series.ID, Axis: model.AxisStep, From: m.Step, To: m.Step, Limit: 100})
	if err != nil {
		return 0, false, fmt.Errorf("read %s of run %s: %w", model.Clip(m.Name), run, err)
	}
	if n := len(rows.Values.Ints); n > 0 {
		return float64(rows.Values.Ints[n-1]), true, nil
	}
	if n := len(rows.Values.Floats); n > 0 {
		return rows.Values.Floats[n-1], true, nil
	}
	return 0, false, nil
}
