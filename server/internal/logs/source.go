package logs

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"net/http"
	"net/url"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/remote"
	"github.com/kymogram/kymogram/read"
)

const (
	metric    = "console"
	pageLines = 2_000
)

// series is what the list of series says of one stream.
type series struct {
	Metric     string            `json:"metric"`
	Scale      string            `json:"scale"`
	Labels     map[string]string `json:"labels"`
	Kind       string            `json:"kind"`
	Count      uint64            `json:"count"`
	Superseded uint64            `json:"superseded"`
	Last       struct {
		Step   int64 `json:"step"`
		TimeNs int64 `json:"time_ns"`
	} `json:"last"`
}

// source reads the console of one run.
type source struct {
	server *remote.Client
	run    string
	stream string // "" for all
}

// list finds the streams.
func (s *source) list(ctx context.Context) (out []series, err error) {
	query := url.Values{"q": {"^" + metric + "$"}}
	for {
		var page struct {
			Series []json.RawMessage `json:"series"`
			Next   *string           `json:"next"`
		}
		body, err := s.server.Document(ctx, http.MethodGet, remote.RunPath(s.run, "series"), query)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(body, &page); err != nil {
			return nil, fmt.Errorf("read the list of series: %w", err)
		}
		for _, raw := range page.Series {
			var one series
			// A series of numbers may have that name too, and a last value without a step.
			if json.Unmarshal(raw, &one) == nil && one.Kind == "text" && (s.stream == "" || one.Labels["stream"] == s.stream) {
				out = append(out, one)
			}
		}
		if page.Next == nil {
			return out, nil
		}
		query.Set("cursor", *page.Next)
	}
}

// over says whether the run has ended.
func (s *source) over(ctx context.Context) (bool, error) {
	var doc struct {
		Status model.RunStatus `json:"status"`
	}
	body, err := s.server.Document(ctx, http.MethodGet, remote.RunPath(s.run), nil)
	if err != nil {
		return false, err
	}
	err = json.Unmarshal(body, &doc)
	return doc.Status != model.StatusRunning && doc.Status != model.StatusSilent, err
}

// lines ranges over the lines of a stream, page by page, from a number or a time on.
func (s *source) lines(ctx context.Context, of *series, step, timeNs int64) iter.Seq2[Line, error] {
	options := []read.Option{read.Scale(of.Scale), read.Labels(of.Labels)}
	if timeNs > 0 {
		options = append(options, read.Axis(read.TimeAxis), read.Between(timeNs, math.MaxInt64))
	} else {
		options = append(options, read.Axis(read.StepAxis), read.Between(step, math.MaxInt64))
	}
	return func(yield func(Line, error) bool) {
		for chunk, err := range read.Over(s.server).ByID(s.run).Chunks(ctx, of.Metric, pageLines, options...) {
			if err != nil {
				yield(Line{}, err)
				return
			}
			for i := range chunk.Rows() {
				point := chunk.Point(i)
				number, _ := point.Step()
				if !yield(Line{of.Labels["stream"], of.Labels["process"], number, point.TimeNs, point.Text}, nil) {
					return
				}
			}
		}
	}
}
