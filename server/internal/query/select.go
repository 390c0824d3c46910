package query

import (
	"context"
	"fmt"
	"iter"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/store"
)

// RunsFilter selects the runs of a selection.
type RunsFilter struct {
	Workspace, Project string               // both empty: every project that the caller may read
	Match              func(PlacedRun) bool // nil: all
}

// PlacedRun is a run as a selection sees it.
type PlacedRun struct {
	ID                       model.RunID
	Workspace, Project, Name string
}

// Selection asks for numeric series of many runs by time.
type Selection struct {
	Runs     []PlacedRun // that [Service.PlacedRuns] gave to the same caller
	Metric   string      // exact name when not empty; makes the look-up direct
	Match    func(model.SeriesKey) bool
	From, To int64 // Unix ns, inclusive
	Last     bool  // one point of each series, one of its latest
}

// Selected is a piece of a series, see [store.Selected].
type Selected struct {
	Run    *PlacedRun
	Series *store.Series
	Rows   *store.Rows
}

// PlacedRuns yields the runs that the caller may read and that match, project by project.
func (s *Service) PlacedRuns(ctx context.Context, f RunsFilter) iter.Seq2[PlacedRun, error] {
	return func(yield func(PlacedRun, error) bool) {
		for at, err := range s.readable(ctx, f) {
			if err != nil {
				yield(PlacedRun{}, err)
				return
			}
			filter := catalog.RunFilter{Workspace: at.Workspace, Project: at.Name, Limit: MaxRuns}
			for next := true; next; next = filter.Cursor != "" {
				page, cursor, err := s.listRuns(ctx, filter, nil)
				if err != nil {
					yield(PlacedRun{}, fmt.Errorf("list runs: %w", err))
					return
				}
				for i := range page {
					run := PlacedRun{page[i].ID, at.Workspace, at.Name, page[i].Name}
					if (f.Match == nil || f.Match(run)) && !yield(run, nil) {
						return
					}
				}
				filter.Cursor = cursor
			}
		}
	}
}

// readable yields the projects of a filter that the caller may read.
func (s *Service) readable(ctx context.Context, f RunsFilter) iter.Seq2[catalog.Project, error] {
	return func(yield func(catalog.Project, error) bool) {
		if f.Project != "" || f.Workspace != "" {
			err := s.Allow(ctx, f.Workspace, f.Project)
			if err == nil {
				err = s.checkProject(ctx, f.Workspace, f.Project)
			}
			yield(catalog.Project{Workspace: f.Workspace, Name: f.Project}, err)
			return
		}
		p := Page{Limit: MaxRuns}
		for next := true; next; next = p.Cursor != "" {
			page, err := s.Projects(ctx, p)
			if err != nil {
				yield(catalog.Project{}, err)
				return
			}
			for _, project := range page.Projects {
				if !yield(project, nil) {
					return
				}
			}
			p.Cursor = page.Next
		}
	}
}

// Select yields points, in the order of the runs, of a run by key, of a series by time.
func (s *Service) Select(ctx context.Context, q Selection) iter.Seq2[Selected, error] {
	return func(yield func(Selected, error) bool) {
		ids := make([]model.RunID, len(q.Runs))
		for i := range q.Runs {
			ids[i] = q.Runs[i].ID
		}
		at := 0
		request := store.SelectRequest{Runs: ids, Metric: q.Metric, Match: q.Match, From: q.From, To: q.To, Last: q.Last, Numeric: true}
		for piece, err := range s.store.Select(ctx, request) {
			if err != nil {
				yield(Selected{}, fmt.Errorf("select series: %w", err))
				return
			}
			for ids[at] != piece.Run {
				at++
			}
			if !yield(Selected{&q.Runs[at], piece.Series, piece.Rows}, nil) {
				return
			}
		}
	}
}

// SelectSeries yields the series of a selection without their points: those whose curve
// begins before To and ends after From.
func (s *Service) SelectSeries(ctx context.Context, q Selection) iter.Seq2[Selected, error] {
	return func(yield func(Selected, error) bool) {
		for i := range q.Runs {
			filter := store.SeriesFilter{Match: q.Match, Metric: q.Metric, Limit: DefaultSeries}
			for more := true; more; {
				var page []store.Series
				var err error
				if page, more, err = s.listOf(ctx, q.Runs[i].ID, filter); err != nil {
					yield(Selected{}, err)
					return
				}
				for k := range page {
					series := &page[k]
					if series.Last == nil || !isNumeric(series.Kind) || series.MaxTimeNs < q.From || series.MinTimeNs > q.To {
						continue
					}
					if !yield(Selected{Run: &q.Runs[i], Series: series}, nil) {
						return
					}
				}
				if more {
					filter.After = page[len(page)-1].Key.String()
				}
			}
		}
	}
}

// Configs reads the attributes under config/ of a run that [Service.PlacedRuns] gave to the
// same caller. Those of more than 256 KiB are left out: each of them becomes a label.
func (s *Service) Configs(ctx context.Context, run model.RunID) ([]catalog.Attribute, error) {
	config, err := s.runs.Config(ctx, run, smallTexts)
	if err != nil {
		return nil, fmt.Errorf("read the config of run %s: %w", run, err)
	}
	return config, nil
}
