package read

import (
	"context"
	"net/url"
	"strconv"
)

// For programs that hand pages on, as to a person: each reads at most limit entries, after
// the cursor that the page before gave, "" for the first, and gives the next cursor, "" at
// the end. To read everything, range over [Client.Runs], [Run.Series] or [Run.Points].

// RunPage reads a page of the runs of a workspace's project, of at most 1,000.
func (c *Client) RunPage(ctx context.Context, workspace, project string, filter RunFilter, limit int, cursor string) ([]*Run, string, error) {
	runs, next, err := page[*Run](ctx, c, runsPath(workspace, project), "runs", paged(filter.query(), limit, cursor))
	for _, run := range runs {
		run.client = c
	}
	return runs, next, err
}

// SeriesPage reads a page of the run's series, of at most 1,000.
func (r *Run) SeriesPage(ctx context.Context, regex string, limit int, cursor string, options ...Option) ([]*Series, string, error) {
	query := seriesQuery(regex, options)
	list, next, err := page[*Series](ctx, r.client, r.path("/series"), "series", paged(query, limit, cursor))
	for _, s := range list {
		s.run, s.inherited = r, query.Has(inheritedParam)
	}
	return list, next, err
}

// PointPage reads a page of the points of a series, of at most 1,000,000.
func (r *Run) PointPage(ctx context.Context, metric string, limit int, cursor string, options ...Option) (*Chunk, string, error) {
	query, err := pointsQuery(metric, limit, options)
	if err != nil {
		return nil, "", err
	}
	return r.chunk(ctx, paged(query, limit, cursor))
}

// PointPage reads a page of the points of the series.
func (s *Series) PointPage(ctx context.Context, limit int, cursor string, options ...Option) (*Chunk, string, error) {
	return s.run.PointPage(ctx, s.Metric, limit, cursor, s.options(options)...)
}

func paged(query url.Values, limit int, cursor string) url.Values {
	query.Set("limit", strconv.Itoa(limit))
	if cursor != "" {
		query.Set("cursor", cursor)
	}
	return query
}
