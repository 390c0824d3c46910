package read

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/url"
	"strconv"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/remote"
)

// How much one request brings: about 1 MB of runs, 10 MB of points.
const (
	listPage   = 1_000
	pointsPage = 100_000
)

// AxisName names what orders points: step, time_ns, rl_step, episode, window, ….
type AxisName = model.Axis

// The axes that most series have.
const (
	StepAxis = model.AxisStep
	TimeAxis = model.AxisTime
)

// Series is one series of a run.
type Series struct {
	Metric     string            `json:"metric"`
	Scale      string            `json:"scale"`
	Labels     map[string]string `json:"labels"`
	Kind       string            `json:"kind"` // float64, int64, text, histogram, scatter
	Axes       []AxisName        `json:"axes"`
	Count      uint64            `json:"count"`      // points of the curve
	Superseded uint64            `json:"superseded"` // points left out of it
	Inherited  uint64            `json:"inherited"`  // of Count, those of ancestors, with [IncludeInherited]
	Last       *Last             `json:"-"`          // of a float64 or int64 series; nil for others, and when there is none

	run       *Run
	inherited bool
}

// UnmarshalJSON reads a series of a list.
func (s *Series) UnmarshalJSON(text []byte) error {
	type fields Series // without this method
	doc := struct {
		*fields
		Last json.RawMessage `json:"last"`
	}{fields: (*fields)(s)}
	if err := json.Unmarshal(text, &doc); err != nil {
		return fmt.Errorf("read a series: %w", err)
	}
	if s.Last = nil; s.Kind != "float64" && s.Kind != "int64" {
		return nil
	}
	return decode(doc.Last, &s.Last)
}

// Series lists the series whose metric matches a regular expression (RE2,
// unanchored), "" for all, in the order of metric, scale and labels. With
// [IncludeInherited], its only option, those of the run's ancestors are among
// them, and what is read of them has the points of ancestors.
func (r *Run) Series(ctx context.Context, regex string, options ...Option) iter.Seq2[*Series, error] {
	query := seriesQuery(regex, options)
	return func(yield func(*Series, error) bool) {
		for s, err := range pages[Series](ctx, r.client, r.path("/series"), "series", query) {
			if err != nil {
				yield(nil, err)
				return
			}
			s.run, s.inherited = r, query.Has(inheritedParam)
			if !yield(&s, nil) {
				return
			}
		}
	}
}

func seriesQuery(regex string, options []Option) url.Values {
	query := url.Values{}
	for _, option := range options {
		option(query)
	}
	if regex != "" {
		query.Set("q", regex)
	}
	return query
}

// Option is a detail of reading points or buckets: [Scale], [Labels], [Axis],
// [Between], [Attempt], [IncludeInherited].
type Option func(url.Values)

// Scale picks among series that differ by scale.
func Scale(scale string) Option { return func(q url.Values) { q.Set("scale", scale) } }

// Labels are the whole label set of the series; without them it is the one that
// has none.
func Labels(labels map[string]string) Option {
	return func(q url.Values) {
		for name, value := range labels {
			q.Set("label."+name, value)
		}
	}
}

// Axis orders and bounds points: by default step, time_ns for a series without, episode
// for the steps of an RL environment.
func Axis(axis AxisName) Option { return func(q url.Values) { q.Set("axis", string(axis)) } }

// Between bounds the axis, both ends inclusive.
func Between(first, last int64) Option {
	return func(q url.Values) {
		q.Set("from", strconv.FormatInt(first, 10))
		q.Set("to", strconv.FormatInt(last, 10))
	}
}

// Attempt reads one attempt instead of the curve, "all" for every stored point.
func Attempt(attempt string) Option { return func(q url.Values) { q.Set("attempt", attempt) } }

const inheritedParam = "include_inherited"

// IncludeInherited continues the curves of the runs that a fork goes on from: their
// points up to the fork step that the fork does not have itself. Not with Attempt.
func IncludeInherited() Option { return func(q url.Values) { q.Set(inheritedParam, "1") } }

// Point is one point. Which value field counts is the series' kind.
type Point struct {
	Axes    map[AxisName]int64 // those that the point has
	TimeNs  int64
	Float   float64         // float64
	Int     int64           // int64
	Text    string          // text
	Doc     json.RawMessage // histogram, scatter
	Attempt int64
	Writer  string // 32 hexadecimal characters
	Run     string // the id of the run that logged it, with IncludeInherited
}

// Step is the point's step; false when it has none.
func (p *Point) Step() (int64, bool) {
	step, ok := p.Axes[StepAxis]
	return step, ok
}

// Points ranges over the points of one series in the order of the axis, then of
// time. Steps of an RL environment go by episode, then by step; those without an
// episode come first. An error is the last thing that it yields.
func (r *Run) Points(ctx context.Context, metric string, options ...Option) iter.Seq2[Point, error] {
	return func(yield func(Point, error) bool) {
		for chunk, err := range r.Chunks(ctx, metric, pointsPage, options...) {
			if err != nil {
				yield(Point{}, err)
				return
			}
			for i := range chunk.Rows() {
				if !yield(chunk.Point(i), nil) {
					return
				}
			}
		}
	}
}

// Points ranges over the points of the series.
func (s *Series) Points(ctx context.Context, options ...Option) iter.Seq2[Point, error] {
	return s.run.Points(ctx, s.Metric, s.options(options)...)
}

func (s *Series) options(more []Option) []Option {
	out := []Option{Scale(s.Scale), Labels(s.Labels)}
	if s.inherited {
		out = append(out, IncludeInherited())
	}
	return append(out, more...)
}

// Bucket holds the points of a stretch of the axis. Min, Max and Mean are of the
// finite values, NaN when there is none; Count counts those.
type Bucket struct {
	Lo, Hi              int64 // first and last x in it
	Min, Max, Mean      float64
	Count               uint64
	NaN, PosInf, NegInf uint64
	Inherited           uint64 // points of ancestors, of any value, with IncludeInherited
}

// Buckets reads at most n disjoint buckets of a numeric series; every point is in
// one of them.
func (r *Run) Buckets(ctx context.Context, metric string, n int, options ...Option) ([]Bucket, error) {
	out, _, err := r.BucketsOn(ctx, metric, n, options...)
	return out, err
}

// BucketsOn is [Run.Buckets], and the axis that Lo and Hi are on.
func (r *Run) BucketsOn(ctx context.Context, metric string, n int, options ...Option) ([]Bucket, AxisName, error) {
	query := url.Values{"metric": {metric}, "n": {strconv.Itoa(n)}}
	for _, option := range options {
		option(query)
	}
	if axis, ok := query["axis"]; ok { // the word is x here
		query["x"] = axis
		delete(query, "axis")
	}
	var doc struct {
		X       AxisName       `json:"x"`
		Columns remote.Buckets `json:"columns"`
	}
	if err := r.client.get(ctx, r.path("/buckets"), query, &doc); err != nil {
		return nil, "", err
	}
	c := &doc.Columns
	if err := c.Check(); err != nil {
		return nil, "", err
	}
	if c.Inherited == nil {
		c.Inherited = make([]uint64, len(c.Lo))
	}
	out := make([]Bucket, len(c.Lo))
	for i := range out {
		out[i] = Bucket{c.Lo[i], c.Hi[i], c.Min[i], c.Max[i], c.Mean[i], c.Count[i], c.NaN[i], c.PosInf[i], c.NegInf[i], c.Inherited[i]}
	}
	return out, doc.X, nil
}

// Buckets reads at most n buckets of the series.
func (s *Series) Buckets(ctx context.Context, n int, options ...Option) ([]Bucket, error) {
	return s.run.Buckets(ctx, s.Metric, n, s.options(options)...)
}

// BucketsOn reads at most n buckets of the series, and says which axis they are on.
func (s *Series) BucketsOn(ctx context.Context, n int, options ...Option) ([]Bucket, AxisName, error) {
	return s.run.BucketsOn(ctx, s.Metric, n, s.options(options)...)
}
