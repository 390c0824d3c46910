package top

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/remote"
	"github.com/kymogram/kymogram/read"
)

const (
	mostQueries = 500   // of one request, by the API's contract
	mostPattern = 2_000 // characters of a pattern that selects rows: the server refuses much larger ones
	patience    = 10 * time.Second
)

// source reads one run.
type source struct {
	server *remote.Client
	id     string
}

// about is what the head says of the run.
type about struct {
	ID          string          `json:"id"`
	Workspace   string          `json:"workspace"`
	Project     string          `json:"project"`
	Name        string          `json:"name"`
	DisplayName string          `json:"display_name"`
	Status      model.RunStatus `json:"status"`
	DurationMs  int64           `json:"duration_ms"`
	Points      uint64          `json:"points"`
	Series      uint64          `json:"series"`
}

// curve is a metric's picture: buckets of the whole axis or of its end.
type curve struct {
	lo, hi      []int64
	min, max    []float64
	mean        []float64
	count, nans []uint64
	infinite    uint64
}

// span is a stretch of an axis.
type span struct{ from, to *int64 }

func (s *source) about(ctx context.Context) (out about, err error) {
	body, err := s.server.Document(ctx, http.MethodGet, remote.RunPath(s.id), nil)
	if err != nil {
		return out, err
	}
	if err := json.Unmarshal(body, &out); err != nil {
		return out, fmt.Errorf("read the run: %w", err)
	}
	return out, nil
}

// list reads all series whose metric matches.
func (s *source) list(ctx context.Context, pattern string) (out []*read.Series, err error) {
	for one, err := range read.Over(s.server).ByID(s.id).Series(ctx, pattern) {
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

// ends reads the same series again, and no others.
func (s *source) ends(ctx context.Context, rows []*read.Series) (out []*read.Series, err error) {
	for _, pattern := range patterns(rows) {
		some, err := s.list(ctx, pattern)
		if err != nil {
			return nil, err
		}
		out = append(out, some...)
	}
	return out, nil
}

// patterns select the metrics of rows.
func patterns(rows []*read.Series) (out []string) {
	seen, text := map[string]bool{}, ""
	for _, row := range rows {
		if seen[row.Metric] {
			continue
		}
		seen[row.Metric] = true
		if name := regexp.QuoteMeta(row.Metric); text == "" {
			text = name
		} else if text += "|" + name; len(text) > mostPattern {
			out, text = append(out, `\A(?:`+text+`)\z`), ""
		}
	}
	if text != "" {
		out = append(out, `\A(?:`+text+`)\z`)
	}
	return out
}

// question asks for the curve of one series.
type question struct {
	Run    string            `json:"run"`
	Metric string            `json:"metric"`
	Scale  string            `json:"scale"`
	Labels map[string]string `json:"labels"`
	X      string            `json:"x,omitempty"`
	N      int               `json:"n"`
	From   *int64            `json:"from,omitempty"`
	To     *int64            `json:"to,omitempty"`
}

// curves reads n buckets of each series along an axis, "" for the usual one. A series that
// has none, or not this axis, has no curve.
func (s *source) curves(ctx context.Context, rows []*read.Series, axis string, n int, of func(*read.Series) span) (map[string]*curve, error) {
	out := map[string]*curve{}
	for len(rows) > 0 {
		some := rows[:min(len(rows), mostQueries)]
		rows = rows[len(some):]
		body := struct {
			Queries []question `json:"queries"`
		}{make([]question, 0, len(some))}
		var asked []string
		for _, row := range some {
			if numeric(row) {
				part := of(row)
				body.Queries = append(body.Queries, question{s.id, row.Metric, row.Scale, row.Labels, axis, n, part.from, part.to})
				asked = append(asked, key(row))
			}
		}
		if len(asked) == 0 {
			continue
		}
		var answer struct {
			Results []struct {
				Columns remote.Buckets `json:"columns"` // none: there is an error
			} `json:"results"`
		}
		if err := s.server.Exchange(ctx, http.MethodPost, "/api/v1/buckets", body, &answer); err != nil {
			return nil, err
		}
		if len(answer.Results) != len(asked) {
			return nil, model.Errorf(model.CodeInternal, "the server gave %d curves, asked for %d", len(answer.Results), len(asked))
		}
		for i := range answer.Results {
			columns := &answer.Results[i].Columns
			if err := columns.Check(); err != nil {
				return nil, err
			}
			if c := newCurve(columns); c != nil {
				out[asked[i]] = c
			}
		}
	}
	return out, nil
}

// newCurve is nil where there is no bucket: the series has none, or not this axis.
func newCurve(c *remote.Buckets) *curve {
	if len(c.Lo) == 0 {
		return nil
	}
	out := &curve{lo: c.Lo, hi: c.Hi, min: c.Min, max: c.Max, mean: c.Mean, count: c.Count, nans: c.NaN}
	for i := range c.Lo {
		out.infinite += c.PosInf[i] + c.NegInf[i]
	}
	return out
}

// numeric reports whether a series has a curve.
func numeric(s *read.Series) bool { return s.Kind == "float64" || s.Kind == "int64" }
