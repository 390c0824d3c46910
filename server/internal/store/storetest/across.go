package storetest

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
)

// compareAcross reads all series of a run at once: all of an axis, a stretch of it, some x alone.
func compareAcross(ctx context.Context, e store.Engine, id model.RunID, r *naiveRun, limit int) error {
	for _, axis := range []model.Axis{model.AxisStep, model.AxisTime, model.AxisEpisode} {
		if err := compareAcrossBy(ctx, e, r, store.AcrossRequest{Run: id, Axis: axis, From: math.MinInt64, To: math.MaxInt64, Limit: limit}); err != nil {
			return err
		}
	}
	return nil
}

func compareAcrossBy(ctx context.Context, e store.Engine, r *naiveRun, all store.AcrossRequest) error {
	var xs []int64
	for _, s := range r.series {
		for _, p := range s.points {
			if x, ok := p.at(way{axis: all.Axis}); ok {
				xs = append(xs, x)
			}
		}
	}
	slices.Sort(xs)
	xs = slices.Compact(xs)
	asked := []store.AcrossRequest{all}
	if n := len(xs); n > 0 {
		some := slices.Clone(xs[n/3:])
		for i := range some {
			some[i] += int64(i % 2) // of these, every second one is there
		}
		part, last, those, none := all, all, all, all
		part.From, part.To = xs[n/4], xs[n/2]
		last.From, last.To = xs[n-1], xs[n-1]
		those.From, those.At = xs[n/4], slices.Compact(some)
		none.At = []int64{}
		asked = append(asked, part, last, those, none)
	}
	sels := []store.Attempts{{}, {All: true}}
	for number := range r.attempts {
		sels = append(sels, store.Attempts{Number: number})
	}
	texts := sortedTexts(r)
	for _, q := range asked {
		for _, sel := range sels {
			q.Attempts = sel
			if err := sameAcross(ctx, e, r, q, texts); err != nil {
				return fmt.Errorf("across %+v: %w", q, err)
			}
		}
		q.Attempts = store.Attempts{}
		if len(texts) > 1 {
			q.After = texts[0]
			q.Match = func(key model.SeriesKey) bool { return key.String() != texts[1] }
			if err := sameAcross(ctx, e, r, q, texts[2:]); err != nil {
				return fmt.Errorf("across some series, %+v: %w", q, err)
			}
			q.After, q.Match = "", nil
		}
		q.Metrics = []string{"", "nothing"}
		var named []string
		for i, text := range texts {
			metric := r.series[text].key.Metric
			if i%2 == 0 && !slices.Contains(q.Metrics, metric) {
				q.Metrics = append(q.Metrics, metric)
			}
		}
		slices.Sort(q.Metrics)
		q.Metrics = q.Metrics[1:] // an empty name would be all
		for _, text := range texts {
			if slices.Contains(q.Metrics, r.series[text].key.Metric) {
				named = append(named, text)
			}
		}
		if err := sameAcross(ctx, e, r, q, named); err != nil {
			return fmt.Errorf("across named series, %+v: %w", q, err)
		}
	}
	return nil
}

func sameAcross(ctx context.Context, e store.Engine, r *naiveRun, q store.AcrossRequest, texts []string) error {
	var pieces []*store.Rows
	for rows, err := range e.Across(ctx, q) {
		if err != nil {
			return err
		}
		if n := len(rows.TimeNs); n == 0 || n > q.Limit {
			return fmt.Errorf("a piece of %d rows", n)
		}
		pieces = append(pieces, rows)
	}
	for _, text := range texts {
		s := r.series[text]
		want := slices.DeleteFunc(on(r.selected(s, q.Attempts), way{axis: q.Axis}), func(p point) bool {
			x, _ := p.at(way{axis: q.Axis})
			return x < q.From || x > q.To || q.At != nil && !slices.Contains(q.At, x)
		})
		for len(want) > 0 {
			if len(pieces) == 0 || len(pieces[0].TimeNs) > len(want) {
				return fmt.Errorf("series %q: %d points are missing or not of it", text, len(want))
			}
			n := len(pieces[0].TimeNs)
			if err := compareRows(pieces[0], s, want[:n]); err != nil {
				return fmt.Errorf("series %q: %w", text, err)
			}
			if more := pieces[0].Next != nil; more != (n < len(want)) {
				return fmt.Errorf("series %q: more is %v with %d of %d points", text, more, n, len(want))
			}
			want, pieces = want[n:], pieces[1:]
		}
	}
	if len(pieces) > 0 {
		return fmt.Errorf("%d pieces more than there are, of %q", len(pieces), pieces[0].Values.Series)
	}
	return nil
}
