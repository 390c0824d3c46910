package query

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/catalog/filter"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/summary"
)

// mostKept bounds the values that are kept for the further pages of sorted lists: 10 MB.
const mostKept = 200_000

// keptSteps has what the first pages of lists that are sorted by at(…) were read with. Their
// further pages go on in the same order, and read no run again.
type keptSteps struct {
	mu    sync.Mutex
	lists []keptList // the newest last
}

type keptList struct {
	workspace, project string
	metric             filter.Metric
	values             map[model.RunID]float64
}

func (k *keptSteps) find(workspace, project string, m filter.Metric) map[model.RunID]float64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range k.lists {
		if l := &k.lists[i]; l.workspace == workspace && l.project == project && l.metric == m {
			return l.values
		}
	}
	return nil
}

// keep takes the place of an older list of the same kind; the oldest go where there are too many.
func (k *keptSteps) keep(n keptList) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lists = slices.DeleteFunc(k.lists, func(l keptList) bool {
		return l.workspace == n.workspace && l.project == n.project && l.metric == n.metric
	})
	k.lists = append(k.lists, n)
	values := 0
	for i, l := range slices.Backward(k.lists) {
		if values += max(1, len(l.values)); values > mostKept {
			k.lists = slices.Delete(k.lists, 0, i+1)
			return
		}
	}
}

// orderSteps are the values at a step that a page of a sorted list needs.
func (s *Service) orderSteps(ctx context.Context, r *RunsRequest, m filter.Metric) (catalog.Steps, error) {
	if m.Of != filter.AtStep {
		return nil, nil
	}
	if r.Cursor != "" {
		if values := s.kept.find(r.Workspace, r.Project, m); values != nil {
			return catalog.Steps{m: values}, nil
		}
	}
	values, err := s.atStep(ctx, r.Workspace, r.Project, m)
	if err != nil {
		return nil, err
	}
	s.kept.keep(keptList{r.Workspace, r.Project, m, values})
	return catalog.Steps{m: values}, nil
}

// steps reads metrics at their step of all runs of a project.
func (s *Service) steps(ctx context.Context, r *RunsRequest, named []filter.Metric) (out catalog.Steps, err error) {
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

// stepCandidates is how many runs are looked at together, where a page is smaller.
const stepCandidates = 200

// listSteps lists runs. Where the filter has conditions at a step, it reads the values of the
// runs that may come next, not of all that have the metric. It takes runs in their order without
// these conditions, then asks for which of them the whole filter holds. Only those of the page
// are read with their texts, so that these stay within the memory of a page.
func (s *Service) listSteps(ctx context.Context, f catalog.RunFilter, texts Admit) (page []catalog.Run, next string, err error) {
	var at []filter.Metric
	for _, m := range f.Parsed.Metrics(nil) {
		if m.Of == filter.AtStep {
			at = append(at, m)
		}
	}
	if len(at) == 0 {
		return s.listRuns(ctx, f, texts)
	}
	wider := f
	wider.Query, wider.Parsed, wider.Configs = "", f.Parsed.Without(func(m filter.Metric) bool { return m.Of == filter.AtStep }), false
	wider.Limit = max(f.Limit, stepCandidates)
	chosen := f
	chosen.Query, chosen.Parsed, chosen.Only = "", nil, []model.RunID{}
	for {
		candidates, more, err := s.listRuns(ctx, wider, texts)
		if err != nil {
			return nil, "", err
		}
		kept, err := s.holding(ctx, f, candidates, at, texts)
		if err != nil {
			return nil, "", err
		}
		chosen.Only = append(chosen.Only, kept...)
		if more == "" || len(chosen.Only) >= f.Limit {
			page, next, err = s.listRuns(ctx, chosen, texts)
			return page, cmp.Or(next, more), err
		}
		wider.Cursor = more
	}
}

// holding are those of some runs for which the whole filter holds, in their order.
func (s *Service) holding(ctx context.Context, f catalog.RunFilter, candidates []catalog.Run, at []filter.Metric, texts Admit) (kept []model.RunID, err error) {
	if len(candidates) == 0 {
		return nil, nil
	}
	ids := make([]model.RunID, len(candidates))
	for i := range candidates {
		ids[i] = candidates[i].ID
	}
	f.Steps = catalog.Steps{}
	for _, m := range at {
		if f.Steps[m], err = s.valuesAt(ctx, ids, m); err != nil {
			return nil, err
		}
	}
	f.Only, f.Limit, f.Sort, f.Cursor, f.Configs = ids, len(ids), "", "", false
	holds := make(map[model.RunID]bool, len(ids))
	for { // a page of long texts ends early
		page, next, err := s.listRuns(ctx, f, texts)
		if err != nil {
			return nil, err
		}
		for i := range page {
			holds[page[i].ID] = true
		}
		if next == "" {
			break
		}
		f.Cursor = next
	}
	return slices.DeleteFunc(ids, func(id model.RunID) bool { return !holds[id] }), nil
}

// atStep reads a metric at a step of all runs of a project that have it there.
func (s *Service) atStep(ctx context.Context, workspace, project string, m filter.Metric) (map[model.RunID]float64, error) {
	runs, err := s.runs.RunsWith(ctx, workspace, project, m.Name)
	if err != nil {
		return nil, fmt.Errorf("list the runs with %s: %w", model.Clip(m.Name), err)
	}
	return s.valuesAt(ctx, runs, m)
}

// valuesAt reads a metric at a step of those runs that have it there.
func (s *Service) valuesAt(ctx context.Context, runs []model.RunID, m filter.Metric) (map[model.RunID]float64, error) {
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
