package storetest

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

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

// testAcross reads a stretch of time whose points another one hides, far behind it.
func testAcross(t *testing.T, open func(t testing.TB) *Harness) {
	ctx := t.Context()
	h := open(t)
	defer func() { _ = h.Engine.Close() }()
	run := model.RunID{1}
	for number := range uint32(2) {
		w := model.WriterID{byte(number + 1)}
		if err := h.Engine.PutOpen(ctx, run, model.Attempt{Number: number + 1, OpenedNs: int64(number)}, w, nil); err != nil {
			t.Fatal(err)
		}
		g := model.RowGroup{
			Unique: model.UniqueTime, Axes: []model.AxisColumn{{Axis: model.AxisStep, Values: []int64{5, 6}}},
			TimeNs:  []int64{int64(number)*1000 + 1, int64(number)*1000 + 2},
			Columns: []model.Column{{Series: model.NewSeriesKey("x", "", nil), Kind: model.KindFloat, Floats: []float64{1, 2}}},
		}
		if _, err := h.Engine.Append(ctx, &model.Batch{Run: run, Writer: w, Attempt: number + 1, Groups: []model.RowGroup{g}}); err != nil {
			t.Fatal(err)
		}
		if err := h.Upkeep(h.Engine, 0); err != nil { // in groups of their own
			t.Fatal(err)
		}
	}
	for to, want := range map[int64]int{500: 0, 1001: 1, math.MaxInt64: 2} {
		got := 0
		for rows, err := range h.Engine.Across(ctx, store.AcrossRequest{Run: run, Axis: model.AxisTime, From: 0, To: to}) {
			if err != nil {
				t.Fatal(err)
			}
			got += len(rows.TimeNs)
		}
		if got != want {
			t.Errorf("%d points up to %d, want %d", got, to, want)
		}
	}
	for _, q := range []store.AcrossRequest{{Run: run, Axis: "nonsense"}, {Run: model.RunID{9}, Axis: model.AxisStep}} {
		failed := false
		for _, err := range h.Engine.Across(ctx, q) {
			failed = err != nil
		}
		if !failed {
			t.Errorf("%+v is read", q)
		}
	}
}
