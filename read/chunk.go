package read

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"github.com/kymogram/kymogram/internal/model"
)

// mostRows is how many points a request brings at most.
const mostRows = 1_000_000

// Chunk is a part of a series by column. Row i is element i of every column.
type Chunk struct {
	Metric string            `json:"metric"`
	Scale  string            `json:"scale"`
	Labels map[string]string `json:"labels"`
	Kind   string            `json:"kind"` // float64, int64, text, histogram, scatter
	Axis   AxisName          `json:"axis"` // the order of the rows

	// Axes are those that the series has.
	Axes   map[AxisName]AxisColumn `json:"-"`
	TimeNs []int64                 `json:"-"`
	// One of these is set, by Kind; Docs of a histogram or scatter are JSON.
	Floats  []float64         `json:"-"`
	Ints    []int64           `json:"-"`
	Texts   []string          `json:"-"`
	Docs    []json.RawMessage `json:"-"`
	Attempt []int64           `json:"-"`
	Writer  []string          `json:"-"` // 32 hexadecimal characters
	Run     []string          `json:"-"` // the ids of the runs that logged them, with IncludeInherited
}

// AxisColumn is where points stand on an axis.
type AxisColumn struct {
	Values []int64
	Has    []bool // false where a point lacks the axis; nil where none does
}

// Rows is how many points the chunk has.
func (c *Chunk) Rows() int { return len(c.TimeNs) }

// Point is row i.
func (c *Chunk) Point(i int) Point {
	out := Point{Axes: make(map[AxisName]int64, len(c.Axes)), TimeNs: c.TimeNs[i], Attempt: c.Attempt[i], Writer: c.Writer[i]}
	for name, axis := range c.Axes {
		if axis.Has == nil || axis.Has[i] {
			out.Axes[name] = axis.Values[i]
		}
	}
	switch {
	case c.Floats != nil:
		out.Float = c.Floats[i]
	case c.Ints != nil:
		out.Int = c.Ints[i]
	case c.Texts != nil:
		out.Text = c.Texts[i]
	default:
		out.Doc = c.Docs[i]
	}
	if c.Run != nil {
		out.Run = c.Run[i]
	}
	return out
}

// Chunks ranges over the points of one series in parts of at most rows points, 1 to
// 1,000,000, in the order of [Run.Points]. Only one part is in memory at a time. A series
// without points gives one empty part. An error is the last thing that it yields.
func (r *Run) Chunks(ctx context.Context, metric string, rows int, options ...Option) iter.Seq2[*Chunk, error] {
	return func(yield func(*Chunk, error) bool) {
		query, err := pointsQuery(metric, rows, options)
		if err != nil {
			yield(nil, err)
			return
		}
		for {
			chunk, next, err := r.chunk(ctx, query)
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(chunk, nil) || next == "" {
				return
			}
			query.Set("cursor", next)
		}
	}
}

// chunk reads one page of points.
func (r *Run) chunk(ctx context.Context, query url.Values) (*Chunk, string, error) {
	var page pointsPageDoc
	if err := r.client.get(ctx, r.path("/points"), query, &page); err != nil {
		return nil, "", err
	}
	return &page.Chunk, page.Next, page.decode()
}

// Chunks ranges over the points of the series in parts.
func (s *Series) Chunks(ctx context.Context, rows int, options ...Option) iter.Seq2[*Chunk, error] {
	return s.run.Chunks(ctx, s.Metric, rows, s.options(options)...)
}

// nextHeader carries the next page's cursor, for which Arrow has no place.
const nextHeader = "Kymogram-Next"

// Arrow ranges over the points of one series as [Run.Chunks] does. Each part is an Arrow IPC
// stream as the server writes it, for programs with an Arrow library. This package needs
// none. The package read/record makes record batches of it. A stream can be read until
// the next one is asked for; one that breaks off fails with an error that is not io.EOF.
func (r *Run) Arrow(ctx context.Context, metric string, rows int, options ...Option) iter.Seq2[io.Reader, error] {
	return func(yield func(io.Reader, error) bool) {
		query, err := pointsQuery(metric, rows, options)
		if err != nil {
			yield(nil, err)
			return
		}
		query.Set("format", "arrow")
		for next := true; next; next = query.Get("cursor") != "" {
			response, err := r.client.server.Send(ctx, http.MethodGet, r.path("/points"), query, nil)
			if err != nil {
				yield(nil, err)
				return
			}
			more := yield(response.Body, nil)
			response.Body.Close()
			if !more {
				return
			}
			query.Set("cursor", response.Header.Get(nextHeader))
		}
	}
}

// Arrow ranges over the points of the series as Arrow IPC streams.
func (s *Series) Arrow(ctx context.Context, rows int, options ...Option) iter.Seq2[io.Reader, error] {
	return s.run.Arrow(ctx, s.Metric, rows, s.options(options)...)
}

func pointsQuery(metric string, rows int, options []Option) (url.Values, error) {
	if rows < 1 || rows > mostRows {
		return nil, model.Errorf(model.CodeInvalid, "chunks of %d points", rows).WithHint("ask for 1 to %d points at a time", mostRows)
	}
	query := url.Values{"metric": {metric}, "limit": {strconv.Itoa(rows)}}
	for _, option := range options {
		option(query)
	}
	return query, nil
}

// pointsPageDoc is one answer of GET …/points.
type pointsPageDoc struct {
	Chunk   `json:"series"`
	Columns map[string]json.RawMessage `json:"columns"`
	Next    string                     `json:"next"`
}

// decode fills the chunk from the columns.
func (p *pointsPageDoc) decode() error {
	p.Axes = map[AxisName]AxisColumn{}
	for name, raw := range p.Columns {
		var err error
		switch name {
		case "time_ns":
			err = json.Unmarshal(raw, &p.TimeNs)
		case "attempt":
			err = json.Unmarshal(raw, &p.Attempt)
		case "writer":
			p.Writer, err = names(raw)
		case "run":
			p.Run, err = names(raw)
		case "value":
			err = p.decodeValues(raw)
		default:
			p.Axes[AxisName(name)], err = decodeAxis(raw)
		}
		if err != nil {
			return fmt.Errorf("read the column %s: %w", name, err)
		}
		delete(p.Columns, name) // its text is as long as the column
	}
	return p.check()
}

func (p *pointsPageDoc) decodeValues(raw json.RawMessage) error {
	switch p.Kind {
	case "float64":
		if !bytes.ContainsAny(raw, `"n`) { // neither NaN nor null
			return json.Unmarshal(raw, &p.Floats)
		}
		var odd []model.JSONFloat
		err := json.Unmarshal(raw, &odd)
		p.Floats = make([]float64, len(odd))
		for i := range odd {
			p.Floats[i] = float64(odd[i])
		}
		return err
	case "int64":
		return json.Unmarshal(raw, &p.Ints)
	case "text":
		return json.Unmarshal(raw, &p.Texts)
	}
	return json.Unmarshal(raw, &p.Docs)
}

// names are texts of which many rows share one.
func names(raw json.RawMessage) (out []string, err error) {
	if err := json.Unmarshal(raw, &out); err != nil {
		return nil, err
	}
	known := map[string]string{}
	for i, name := range out {
		if one, ok := known[name]; ok {
			out[i] = one
		} else {
			known[name] = name
		}
	}
	return out, nil
}

func decodeAxis(raw json.RawMessage) (out AxisColumn, err error) {
	if !bytes.Contains(raw, []byte("null")) {
		return out, json.Unmarshal(raw, &out.Values)
	}
	var gaps []*int64
	err = json.Unmarshal(raw, &gaps)
	out.Values, out.Has = make([]int64, len(gaps)), make([]bool, len(gaps))
	for i, value := range gaps {
		if out.Has[i] = value != nil; out.Has[i] {
			out.Values[i] = *value
		}
	}
	return out, err
}

// check wants columns of one length.
func (p *pointsPageDoc) check() error {
	n := len(p.TimeNs)
	same := len(p.Attempt) == n && len(p.Writer) == n && (p.Run == nil || len(p.Run) == n) &&
		len(p.Floats)+len(p.Ints)+len(p.Texts)+len(p.Docs) == n
	for _, axis := range p.Axes {
		same = same && len(axis.Values) == n
	}
	if !same {
		return model.Errorf(model.CodeInternal, "the server's columns differ in length")
	}
	return nil
}
