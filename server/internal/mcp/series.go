package mcp

import (
	"context"
	"math"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/read"
)

// How many entries answers have.
const (
	usualSeries, mostSeries   = 50, 500
	usualPoints, mostPoints   = 200, 2_000
	mostDocuments             = 50 // texts, histograms and scatters are long
	longestDocument           = 4_000
	usualBuckets, mostBuckets = 50, 1_000
)

type seriesIn struct {
	Run    string `json:"run" jsonschema:"id, workspace/project/name, or a name or display name that one run has"`
	Metric string `json:"metric,omitempty" jsonschema:"regular expression (RE2, unanchored) on the metric's name"`
	Limit  int    `json:"limit,omitempty" jsonschema:"how many: default 50, at most 500"`
	Cursor string `json:"cursor,omitempty" jsonschema:"next of the page before"`
}

type seriesOut struct {
	Series []seriesLine `json:"series"`
	Next   string       `json:"next,omitempty" jsonschema:"cursor of the next page; absent on the last"`
}

type seriesLine struct {
	Metric string            `json:"metric"`
	Labels map[string]string `json:"labels,omitempty"`
	Scale  string            `json:"scale,omitempty" jsonschema:"what the steps count, where it is not ML_STEP"`
	Kind   string            `json:"kind" jsonschema:"float64, int64, text, histogram or scatter"`
	Axes   []string          `json:"axes" jsonschema:"step, time_ns, …"`
	Points uint64            `json:"points"`
	Last   *value            `json:"last,omitempty"`
}

func (s *Server) listSeries(ctx context.Context, in seriesIn) (out seriesOut, err error) {
	limit, err := limited(in.Limit, usualSeries, mostSeries)
	if err != nil {
		return out, err
	}
	if _, err := matcher("metric", in.Metric); err != nil {
		return out, err
	}
	run, err := s.client.Run(ctx, in.Run)
	if err != nil {
		return out, err
	}
	list, next, err := run.SeriesPage(ctx, in.Metric, limit, in.Cursor)
	if err != nil {
		return out, err
	}
	out.Series, out.Next = make([]seriesLine, len(list)), next
	for i, one := range list {
		line := seriesLine{Metric: one.Metric, Labels: one.Labels, Kind: one.Kind, Axes: []string{}, Points: one.Count}
		if one.Scale != model.ScaleStep {
			line.Scale = one.Scale
		}
		for _, axis := range one.Axes {
			line.Axes = append(line.Axes, string(axis))
		}
		if one.Last != nil {
			last := lastOf(*one.Last)
			line.Last = &last
		}
		out.Series[i] = line
	}
	return out, nil
}

// selection names a series, and a part of it.
type selection struct {
	Run    string            `json:"run" jsonschema:"id, workspace/project/name, or a name or display name that one run has"`
	Metric string            `json:"metric" jsonschema:"the exact name"`
	Labels map[string]string `json:"labels,omitempty" jsonschema:"all labels of the series, where a metric has several"`
	Scale  string            `json:"scale,omitempty" jsonschema:"what the steps count, where a metric has several"`
	Axis   string            `json:"axis,omitempty" jsonschema:"order of the points: step, time_ns, episode, …; default step where the series has it"`
	From   position          `json:"from,omitzero" jsonschema:"first place on the axis: a step, or a time as 2026-01-31T12:00:00Z"`
	To     position          `json:"to,omitzero" jsonschema:"last place on the axis, inclusive"`
}

func (in *selection) options() []read.Option {
	var out []read.Option
	if len(in.Labels) > 0 {
		out = append(out, read.Labels(in.Labels))
	}
	if in.Scale != "" {
		out = append(out, read.Scale(in.Scale))
	}
	if in.Axis != "" {
		out = append(out, read.Axis(read.AxisName(in.Axis)))
	}
	if in.From.set || in.To.set {
		out = append(out, read.Between(in.From.or(math.MinInt64), in.To.or(math.MaxInt64)))
	}
	return out
}

// onAxis refuses times as bounds of an axis that has none.
func (in *selection) onAxis(axis read.AxisName) error {
	if axis == read.TimeAxis || !in.From.time && !in.To.time {
		return nil
	}
	return model.Errorf(model.CodeInvalid, "from and to are times, and the points go by %s", axis).WithHint("give axis time_ns, or places on the axis %s", axis)
}

type pointsIn struct {
	selection

	Attempt string `json:"attempt,omitempty" jsonschema:"the number of an attempt, or all; default the curve, in which later attempts win"`
	Limit   int    `json:"limit,omitempty" jsonschema:"how many: default 200, at most 2000; 50 of texts and documents"`
	Cursor  string `json:"cursor,omitempty" jsonschema:"next of the page before"`
}

type pointsOut struct {
	Axis   string  `json:"axis"`
	Points []point `json:"points"`
	Next   string  `json:"next,omitempty" jsonschema:"cursor of the next page; absent on the last"`
}

type point struct {
	At      any    `json:"at" jsonschema:"place on the axis: a whole number, or a time"`
	Value   any    `json:"value" jsonschema:"a number; NaN, Infinity, -Infinity and integers beyond 2^53 as text"`
	Time    string `json:"time,omitempty" jsonschema:"where the axis is another"`
	Attempt int64  `json:"attempt,omitempty" jsonschema:"with attempt=all"`
}

func (s *Server) getPoints(ctx context.Context, in pointsIn) (out pointsOut, err error) {
	limit, err := limited(in.Limit, usualPoints, mostPoints)
	if err != nil {
		return out, err
	}
	run, err := s.client.Run(ctx, in.Run)
	if err != nil {
		return out, err
	}
	options := in.options()
	if in.Attempt != "" {
		options = append(options, read.Attempt(in.Attempt))
	}
	chunk, next, err := run.PointPage(ctx, in.Metric, min(limit, mostDocuments), in.Cursor, options...)
	if err == nil {
		err = in.onAxis(chunk.Axis)
	}
	if err != nil {
		return out, err
	}
	if isNumeric(chunk.Kind) && limit > mostDocuments && next != "" {
		if chunk, next, err = run.PointPage(ctx, in.Metric, limit, in.Cursor, options...); err != nil {
			return out, err
		}
	}
	out.Axis, out.Points, out.Next = string(chunk.Axis), make([]point, chunk.Rows()), next
	for i := range out.Points {
		out.Points[i] = pointOf(chunk, i, in.Attempt == "all")
	}
	return out, nil
}

func isNumeric(kind string) bool { return kind == "float64" || kind == "int64" }

func pointOf(c *read.Chunk, i int, attempts bool) point {
	out := point{At: nil}
	if c.Axis == read.TimeAxis {
		out.At = moment(c.TimeNs[i])
	} else {
		out.Time = moment(c.TimeNs[i])
		if axis := c.Axes[c.Axis]; len(axis.Values) > 0 && (axis.Has == nil || axis.Has[i]) {
			out.At = integer(axis.Values[i])
		}
	}
	if attempts {
		out.Attempt = c.Attempt[i]
	}
	switch {
	case c.Floats != nil:
		out.Value = number(c.Floats[i])
	case c.Ints != nil:
		out.Value = integer(c.Ints[i])
	case c.Texts != nil:
		out.Value = short(c.Texts[i], longestPoint)
	case len(c.Docs[i]) > longestDocument:
		out.Value = short(string(c.Docs[i]), longestPoint)
	default:
		out.Value = c.Docs[i]
	}
	return out
}

type bucketsIn struct {
	selection

	N int `json:"n,omitempty" jsonschema:"how many ranges at most: default 50, at most 1000"`
}

type bucketsOut struct {
	Axis    string   `json:"axis"`
	Buckets []bucket `json:"buckets" jsonschema:"ranges of about equal width that have points; every point is in exactly one"`
}

type bucket struct {
	From   any    `json:"from" jsonschema:"place of the first point"`
	To     any    `json:"to" jsonschema:"place of the last point"`
	Min    number `json:"min" jsonschema:"of the finite values; NaN when there is none"`
	Max    number `json:"max"`
	Mean   number `json:"mean"`
	Count  uint64 `json:"count" jsonschema:"finite values"`
	NaN    uint64 `json:"nan,omitempty" jsonschema:"how many NaN; absent for none"`
	PosInf uint64 `json:"pos_inf,omitempty"`
	NegInf uint64 `json:"neg_inf,omitempty"`
}

func (s *Server) getBuckets(ctx context.Context, in bucketsIn) (out bucketsOut, err error) {
	n, err := limited(in.N, usualBuckets, mostBuckets)
	if err != nil {
		return out, err
	}
	run, err := s.client.Run(ctx, in.Run)
	if err != nil {
		return out, err
	}
	buckets, axis, err := run.BucketsOn(ctx, in.Metric, n, in.options()...)
	if err == nil {
		err = in.onAxis(axis)
	}
	if err != nil {
		return out, err
	}
	out.Axis, out.Buckets = string(axis), make([]bucket, len(buckets))
	for i, b := range buckets {
		out.Buckets[i] = bucket{
			placed(axis, b.Lo), placed(axis, b.Hi), number(b.Min), number(b.Max), number(b.Mean), b.Count, b.NaN, b.PosInf, b.NegInf,
		}
	}
	return out, nil
}
