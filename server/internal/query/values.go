package query

import (
	"context"
	"fmt"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/catalog/filter"
)

// RunRow is a run with named values, as a file has it.
type RunRow struct {
	catalog.Run
	Values []model.Value // of RunsRequest.Columns
}

// RunRows lists runs as [Service.Runs] does, with nothing but the columns that are named.
func (s *Service) RunRows(ctx context.Context, r RunsRequest) (page []RunRow, next string, err error) {
	limit, err := pageSize(r.Limit, MaxRuns, MaxRuns)
	if err != nil {
		return nil, "", err
	}
	if err := s.checkList(ctx, &r); err != nil {
		return nil, "", err
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	runs, next, err := s.runPage(ctx, &r, limit, false)
	if err != nil || len(runs) == 0 {
		return nil, next, s.finish(ctx, err)
	}
	ids := make([]model.RunID, len(runs))
	for i := range runs {
		ids[i] = runs[i].ID
	}
	values, err := s.columnValues(ctx, ids, r.Columns)
	if err != nil {
		return nil, "", s.finish(ctx, err)
	}
	page = make([]RunRow, len(runs))
	for i := range runs {
		page[i] = RunRow{runs[i], values[i]}
	}
	return page, next, nil
}

// addValues reads named columns of the runs of a page.
func (s *Service) addValues(ctx context.Context, lines []RunLine, columns []string) error {
	if len(columns) == 0 {
		return nil
	}
	ids := make([]model.RunID, len(lines))
	for i := range lines {
		ids[i] = lines[i].ID
	}
	values, err := s.columnValues(ctx, ids, columns)
	for i := range values {
		lines[i].Values = values[i]
	}
	return err
}

// columnValues has a row for each run.
func (s *Service) columnValues(ctx context.Context, ids []model.RunID, columns []string) ([][]model.Value, error) {
	var names []string
	var places []int
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
			names, places = append(names, resolved), append(places, i)
			continue
		}
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
	rows, err := s.runs.Values(ctx, ids, names)
	if err != nil {
		return nil, fmt.Errorf("read columns of runs: %w", err)
	}
	for at, row := range rows {
		for i, v := range row {
			out[at][places[i]] = v
		}
	}
	return out, nil
}
