package query

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/store"
)

// RunsFilter selects the runs of a selection.
type RunsFilter struct {
	Workspace, Project string // both empty: every project that the caller may read
	Configs            bool   // read their configs
}

// PlacedRun is a run as a selection sees it.
type PlacedRun struct {
	ID                       model.RunID
	Workspace, Project, Name string
	// Config are the attributes under config/, the first 100 by path, if asked for. Those of
	// a run with more than 256 KiB of them are left out.
	Config []catalog.Attribute
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

// PlacedRuns yields the runs that the caller may read, project by project.
func (s *Service) PlacedRuns(ctx context.Context, f RunsFilter) iter.Seq2[PlacedRun, error] {
	return func(yield func(PlacedRun, error) bool) {
		for at, err := range s.readable(ctx, f) {
			if err != nil {
				yield(PlacedRun{}, err)
				return
			}
			for run, err := range s.runsOf(ctx, at, f.Configs) {
				if !yield(run, err) || err != nil {
					return
				}
			}
		}
	}
}

// runsOf yields the runs of a project, of which it holds little at a time.
func (s *Service) runsOf(ctx context.Context, at catalog.Project, configs bool) iter.Seq2[PlacedRun, error] {
	return func(yield func(PlacedRun, error) bool) {
		filter := catalog.RunFilter{Workspace: at.Workspace, Project: at.Name, Limit: MaxRuns, Bytes: smallTexts, Configs: configs}
		for next := true; next; next = filter.Cursor != "" {
			page, cursor, err := s.runs.ListRuns(ctx, filter)
			if errors.Is(err, catalog.ErrLarge) { // of its texts, which are not needed
				large := filter
				large.Limit, large.Bytes, large.Configs = 1, 0, false
				page, cursor, err = s.runs.ListRuns(ctx, large)
			}
			if err != nil {
				yield(PlacedRun{}, fmt.Errorf("list runs: %w", err))
				return
			}
			for i := range page {
				if !yield(PlacedRun{page[i].ID, at.Workspace, at.Name, page[i].Name, page[i].Config}, nil) {
					return
				}
			}
			filter.Cursor = cursor
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
