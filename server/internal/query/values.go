package query

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/catalog/filter"
)

// RunRow is a run with named values, as a file has it.
type RunRow struct {
	catalog.Run
	Values []model.Value // of RunsRequest.Columns
}

// RowsPage is a part of a list of runs with named values.
type RowsPage struct {
	Rows []RunRow
	Next string
	Hint string // as RunsPage has it, and of columns that no run has
}

// RunRows lists runs as [Service.Runs] does, with nothing but the columns that are named.
func (s *Service) RunRows(ctx context.Context, r RunsRequest) (*RowsPage, error) {
	limit, err := pageSize(r.Limit, MaxRuns, MaxRuns)
	if err != nil {
		return nil, err
	}
	if err := s.checkList(ctx, &r, MaxRunColumns); err != nil {
		return nil, err
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	runs, values, next, err := s.valuedPage(ctx, &r, limit, false)
	if err != nil {
		return nil, s.finish(ctx, err)
	}
	page := &RowsPage{Rows: make([]RunRow, len(runs)), Next: next}
	for i := range runs {
		page.Rows[i] = RunRow{runs[i], values[i]}
	}
	if page.Hint, err = s.hint(ctx, &r, runs); err == nil && page.Hint == "" {
		page.Hint, err = s.columnHint(ctx, &r, values)
	}
	return page, s.finish(ctx, err)
}

// mostCells bounds the named values of a page: runs and columns multiplied.
const mostCells = MaxRuns * MaxColumns

// valuedPage reads a page with a row of named columns for each run. It has fewer runs where
// these values are too many, or their texts too long; one run fits always.
func (s *Service) valuedPage(ctx context.Context, r *RunsRequest, limit int, configs bool) (page []catalog.Run, values [][]model.Value, next string, err error) {
	limit = min(limit, max(1, mostCells/max(1, len(r.Columns))))
	for texts := int64(smallTexts); ; {
		page, next, err = s.runPage(ctx, r, limit, configs)
		if err != nil {
			return nil, nil, "", err
		}
		ids := make([]model.RunID, len(page))
		for i := range page {
			ids[i] = page[i].ID
		}
		values, err = s.columnValues(ctx, ids, r.Columns, texts)
		switch {
		case !errors.Is(err, catalog.ErrLarge):
			return page, values, next, err
		case texts == smallTexts:
			texts, err = s.limits.Page, r.Texts.need(ctx)
		case len(page) > 1:
			limit = len(page) / 2
		default:
			texts = 0
		}
		if err != nil && !errors.Is(err, catalog.ErrLarge) {
			return nil, nil, "", err
		}
	}
}

// spellings are what a column may be called in the catalog; the first that a run has counts. As in
// filters config/ may be left out, and summary/ names the last value of a metric.
func spellings(column string) []string {
	if _, ok := filter.ParseMetric(column); ok || strings.HasPrefix(column, "config/") {
		return []string{column}
	}
	if metric, ok := strings.CutPrefix(column, "summary/"); ok && metric != "" {
		return []string{column, filter.Metric{Name: metric, Of: filter.Last}.String()}
	}
	return []string{column, "config/" + column}
}

// columnValues has a row for each run, with at most so many bytes of texts; 0: any.
func (s *Service) columnValues(ctx context.Context, ids []model.RunID, columns []string, texts int64) ([][]model.Value, error) {
	var names []string
	var places []int
	steps := map[int]filter.Metric{}
	out := make([][]model.Value, len(ids))
	for at := range out {
		out[at] = make([]model.Value, len(columns))
	}
	for i, column := range columns {
		m, resolved, err := readColumn(column)
		if err != nil {
			return nil, err
		}
		if m.Of != filter.AtStep {
			for _, name := range spellings(resolved) {
				names, places = append(names, name), append(places, i)
			}
			continue
		}
		steps[i] = m
	}
	if len(names) > 0 {
		rows, err := s.runs.Values(ctx, ids, names, texts)
		if err != nil {
			return nil, fmt.Errorf("read columns of runs: %w", err)
		}
		for at, row := range rows {
			for i, v := range row {
				if out[at][places[i]].Type == "" {
					out[at][places[i]] = v
				}
			}
		}
	}
	for i, m := range steps {
		values, err := s.valuesAt(ctx, ids, m)
		if err != nil {
			return nil, err
		}
		for at := range ids {
			if v, ok := values[ids[at]]; ok {
				out[at][i] = *model.FloatValue(v)
			}
		}
	}
	return out, nil
}
