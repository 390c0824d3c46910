package mcp

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/read"
)

const (
	usualLooked, mostLooked = 20, 100 // series of a call
	mostListed              = 1_000   // series to choose them from
	looksAtOnce             = 4
	readable                = 2_000 // points that are read one by one to find one of them
	mostPauses              = 3
	pauseShare              = 0.01 // of the run's time
	pauseTimes              = 20   // the usual time between two points
)

type anomaliesIn struct {
	Run    string `json:"run" jsonschema:"id, workspace/project/name, or a name or display name that one run has"`
	Metric string `json:"metric,omitempty" jsonschema:"regular expression (RE2, unanchored) on the metric's name; default all but those of the machine (system/)"`
	Limit  int    `json:"limit,omitempty" jsonschema:"how many series to look at: default 20, at most 100; metrics with a known direction as loss and accuracy come first"`
}

type anomaliesOut struct {
	Run      runLine   `json:"run"`
	Findings []finding `json:"findings" jsonschema:"nan, infinity and diverged first"`
	Pauses   []pause   `json:"pauses" jsonschema:"the longest times without a point of the series that has most points, at most 3"`
	Looked   []string  `json:"looked" jsonschema:"the series that were looked at"`
	LeftOut  string    `json:"left_out,omitempty" jsonschema:"what was not looked at"`
}

type finding struct {
	Series string `json:"series"`
	Kind   string `json:"kind" jsonschema:"nan, infinity, diverged, spike, no_improvement or flat"`
	Axis   string `json:"axis" jsonschema:"of at and to"`
	At     any    `json:"at" jsonschema:"the exact place of a nan, infinity or spike; where the others begin, to a thousandth of the axis"`
	To     any    `json:"to,omitempty" jsonschema:"where it ends"`
	Value  number `json:"value" jsonschema:"there; of diverged at the end, of no_improvement the best"`
	Detail string `json:"detail"`
}

type pause struct {
	From       string  `json:"from"`
	To         string  `json:"to"`
	Seconds    float64 `json:"seconds"`
	AfterStep  any     `json:"after_step,omitempty"`
	BeforeStep any     `json:"before_step,omitempty"`
}

func (s *Server) findAnomalies(ctx context.Context, in anomaliesIn) (out anomaliesOut, err error) {
	limit, err := limited(in.Limit, usualLooked, mostLooked)
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
	listed, next, err := run.SeriesPage(ctx, in.Metric, mostListed, "")
	if err != nil {
		return out, err
	}
	chosen := worthALook(listed, in.Metric == "")
	cut := max(0, len(chosen)-limit)
	chosen = chosen[:len(chosen)-cut]
	out = anomaliesOut{Run: lineOf(run), Findings: []finding{}, Pauses: []pause{}, Looked: []string{}}
	if out.LeftOut = leftOut(part{cut, "series; use metric or limit"}); next != "" {
		out.LeftOut = fmt.Sprintf("all but %d of more than %d series; use metric", len(chosen), mostListed)
	}
	found := make([][]finding, len(chosen))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(looksAtOnce)
	for i, one := range chosen {
		out.Looked = append(out.Looked, labelled(one.Metric, one.Labels))
		group.Go(func() (err error) {
			found[i], err = examine(ctx, one)
			return err
		})
	}
	if longest := longestOf(chosen); longest != nil {
		group.Go(func() (err error) {
			out.Pauses, err = pauses(ctx, longest)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return out, err
	}
	out.Findings = append(out.Findings, slices.Concat(found...)...)
	slices.SortStableFunc(out.Findings, func(a, b finding) int { return severity(a.Kind) - severity(b.Kind) })
	return out, nil
}

func severity(kind string) int {
	return slices.Index([]string{kindNaN, kindInf, kindDiverged, kindSpike, kindNoBest, kindFlat}, kind)
}

// worthALook are the numeric series, those first whose direction the name tells.
func worthALook(all []*read.Series, noMachine bool) []*read.Series {
	out := slices.DeleteFunc(all, func(s *read.Series) bool {
		return !isNumeric(s.Kind) || s.Count == 0 || noMachine && strings.HasPrefix(s.Metric, "system/")
	})
	slices.SortStableFunc(out, func(a, b *read.Series) int {
		return int(math.Abs(better(b.Metric)) - math.Abs(better(a.Metric)))
	})
	return out
}

func longestOf(list []*read.Series) (out *read.Series) {
	for _, s := range list {
		if out == nil || s.Count > out.Count {
			out = s
		}
	}
	return out
}

// examine finds what is unusual in a series, and where exactly.
func examine(ctx context.Context, s *read.Series) (out []finding, err error) {
	buckets, axis, err := s.BucketsOn(ctx, curveBuckets)
	if err != nil {
		return nil, err
	}
	for _, u := range judge(s.Metric, buckets) {
		one := finding{Series: labelled(s.Metric, s.Labels), Kind: u.kind, Axis: string(axis), Value: number(u.value), Detail: u.detail}
		if u.seek == nil {
			one.At, one.To = placed(axis, u.from), placed(axis, u.to)
		} else if err := locate(ctx, s, axis, u, &one); err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

// locate narrows the range of what is unusual until its points can be read, and finds the
// first that is meant. A place that has more points than can be read is exact enough.
func locate(ctx context.Context, s *read.Series, axis read.AxisName, u unusual, out *finding) error {
	for { // also where it is one place: what a bucket has does not tell its value
		chunk, next, err := s.PointPage(ctx, readable, "", read.Axis(axis), read.Between(u.from, u.to))
		if err != nil {
			return err
		}
		for i := range chunk.Rows() {
			if v := valueOf(chunk, i); u.seek(v) {
				out.At, out.Value = placed(axis, placeOf(chunk, axis, i)), number(v)
				return nil
			}
		}
		if next == "" {
			break // it was superseded meanwhile
		}
		buckets, err := s.Buckets(ctx, curveBuckets, read.Axis(axis), read.Between(u.from, u.to))
		if err != nil {
			return err
		}
		i := slices.IndexFunc(buckets, u.inRange)
		if i < 0 || buckets[i].Lo == u.from && buckets[i].Hi == u.to {
			break
		}
		u.from, u.to = buckets[i].Lo, buckets[i].Hi
	}
	out.At = placed(axis, u.from)
	if u.to > u.from {
		out.To = placed(axis, u.to)
	}
	return nil
}

func valueOf(c *read.Chunk, i int) float64 {
	if c.Ints != nil {
		return float64(c.Ints[i])
	}
	return c.Floats[i]
}

func placeOf(c *read.Chunk, axis read.AxisName, i int) int64 {
	if axis == read.TimeAxis {
		return c.TimeNs[i]
	}
	return c.Axes[axis].Values[i]
}

// pauses are the longest times without a point.
func pauses(ctx context.Context, s *read.Series) ([]pause, error) {
	out := []pause{}
	buckets, err := s.Buckets(ctx, curveBuckets, read.Axis(read.TimeAxis))
	if err != nil || len(buckets) < 2 {
		return out, err
	}
	type gap struct{ from, to int64 }
	var gaps []gap
	whole := buckets[len(buckets)-1].Hi - buckets[0].Lo
	least := max(int64(time.Second), int64(pauseShare*float64(whole)), pauseTimes*usualGap(buckets, whole))
	for i := 1; i < len(buckets); i++ {
		if from, to := buckets[i-1].Hi, buckets[i].Lo; to-from > least {
			gaps = append(gaps, gap{from, to})
		}
	}
	slices.SortStableFunc(gaps, func(a, b gap) int { return int(math.Copysign(1, float64((b.to-b.from)-(a.to-a.from)))) })
	for _, g := range gaps[:min(len(gaps), mostPauses)] {
		one := pause{From: moment(g.from), To: moment(g.to), Seconds: time.Duration(g.to - g.from).Seconds()}
		if one.AfterStep, err = stepAt(ctx, s, g.from); err != nil {
			return out, err
		}
		if one.BeforeStep, err = stepAt(ctx, s, g.to); err != nil {
			return out, err
		}
		out = append(out, one)
	}
	return out, nil
}

// usualGap is the median time between two points, as the buckets have it.
func usualGap(buckets []read.Bucket, whole int64) int64 {
	gaps := make([]float64, 0, len(buckets))
	for _, b := range buckets {
		if n := b.Count + b.NaN + b.PosInf + b.NegInf; n > 1 {
			gaps = append(gaps, float64(b.Hi-b.Lo)/float64(n-1))
		}
	}
	if len(gaps) == 0 { // a point a bucket
		return whole / int64(len(buckets))
	}
	return int64(median(gaps))
}

// stepAt is the step of the point of a time; nil where it has none.
func stepAt(ctx context.Context, s *read.Series, ns int64) (any, error) {
	chunk, _, err := s.PointPage(ctx, 1, "", read.Axis(read.TimeAxis), read.Between(ns, ns))
	if err != nil || chunk.Rows() == 0 {
		return nil, err
	}
	if axis, ok := chunk.Axes[model.AxisStep]; ok && (axis.Has == nil || axis.Has[0]) {
		return integer(axis.Values[0]), nil
	}
	return nil, nil
}
