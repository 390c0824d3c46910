package query

import (
	"context"
	"fmt"
	"iter"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/store"
)

// Contents is a run with some of its series and what is known of it, for languages that
// select series of many runs.
type Contents struct {
	Run        *catalog.Run
	Series     []store.Series
	Attributes iter.Seq2[catalog.Attribute, error] // by path, those under config/ too
}

// Contents yields the runs of a project that have series which match, newest first. Where the
// metrics are known by name, these make the look-up direct; none mean all. Nothing
// comes before the caller's right to read was checked. The caller bounds what it keeps.
func (s *Service) Contents(ctx context.Context, workspace, project string, metrics []string, match func(model.SeriesKey) bool) iter.Seq2[Contents, error] {
	return func(yield func(Contents, error) bool) {
		if err := s.Allow(ctx, workspace, project); err != nil {
			yield(Contents{}, err)
			return
		}
		filter := catalog.RunFilter{Workspace: workspace, Project: project, Limit: MaxRuns}
		for next := true; next; next = filter.Cursor != "" {
			page, cursor, err := s.runs.ListRuns(ctx, filter)
			if err != nil {
				yield(Contents{}, fmt.Errorf("list runs: %w", err))
				return
			}
			for i := range page {
				for c, err := range s.contentsOf(ctx, &page[i], metrics, match) {
					if !yield(c, err) || err != nil {
						return
					}
				}
			}
			filter.Cursor = cursor
		}
	}
}

// contentsOf yields a run's series, a page at a time.
func (s *Service) contentsOf(ctx context.Context, run *catalog.Run, metrics []string, match func(model.SeriesKey) bool) iter.Seq2[Contents, error] {
	return func(yield func(Contents, error) bool) {
		var page []store.Series
		if len(metrics) == 0 {
			metrics = []string{""}
		}
		for _, metric := range metrics {
			filter := store.SeriesFilter{Match: match, Metric: metric}
			for more := true; more; {
				filter.Limit = MaxSeries - len(page)
				list, rest, err := s.listOf(ctx, run.ID, filter)
				if err != nil {
					yield(Contents{}, err)
					return
				}
				if page = append(page, list...); len(page) == MaxSeries {
					if !yield(Contents{Run: run, Series: page, Attributes: s.attributesOf(ctx, run.ID)}, nil) {
						return
					}
					page = nil
				}
				if more = rest; more {
					filter.After = list[len(list)-1].Key.String()
				}
			}
		}
		if len(page) > 0 {
			yield(Contents{Run: run, Series: page, Attributes: s.attributesOf(ctx, run.ID)}, nil)
		}
	}
}

// Attributes lists the attributes of a run by path.
func (s *Service) Attributes(ctx context.Context, id model.RunID) iter.Seq2[catalog.Attribute, error] {
	return func(yield func(catalog.Attribute, error) bool) {
		ctx, cancel := s.bounded(ctx)
		defer cancel()
		run, err := s.open(ctx, id)
		if err != nil {
			yield(catalog.Attribute{}, s.finish(ctx, err))
			return
		}
		for a, err := range s.attributesOf(ctx, run.ID) {
			if !yield(a, s.finish(ctx, err)) {
				return
			}
		}
	}
}

func (s *Service) attributesOf(ctx context.Context, run model.RunID) iter.Seq2[catalog.Attribute, error] {
	return func(yield func(catalog.Attribute, error) bool) {
		cursor := ""
		for next := true; next; next = cursor != "" {
			page, after, err := s.runs.Attributes(ctx, run, cursor)
			if err != nil {
				yield(catalog.Attribute{}, fmt.Errorf("read the attributes of run %s: %w", run, err))
				return
			}
			for _, a := range page {
				if !yield(a, nil) {
					return
				}
			}
			cursor = after
		}
	}
}

// Rows reads a page of a series that [Service.Contents] gave to the same caller.
func (s *Service) Rows(ctx context.Context, r store.ScanRequest) (*store.Rows, error) {
	rows, err := s.store.Scan(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("read a series of run %s: %w", r.Run, err)
	}
	return rows, nil
}

// HasProject says whether a project is there, to a caller that may read it.
func (s *Service) HasProject(ctx context.Context, workspace, project string) (bool, error) {
	if err := s.Allow(ctx, workspace, project); err != nil {
		return false, err
	}
	there, err := s.runs.HasProject(ctx, workspace, project)
	if err != nil {
		return false, fmt.Errorf("find project %s/%s: %w", workspace, project, err)
	}
	return there, nil
}
