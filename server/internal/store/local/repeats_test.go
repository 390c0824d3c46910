package local_test

import (
	"context"
	"fmt"
	"reflect"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wal/faultfs"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/local"
)

// A client sends rows in requests of so many, and the server flushes after so many.
type sending struct{ request, flush int }

// repeatedRows are two series of a run under a rule, sent in one way after the other.
func repeatedRows(t *testing.T, fs *faultfs.FS, rule model.Uniqueness, ways ...sending) *local.Engine {
	t.Helper()
	e := must(local.Open(t.Context(), local.Config{Dir: "/data", FS: fs}))
	run := model.RunID{1}
	if err := e.PutAttempt(t.Context(), run, model.Attempt{Number: 1}); err != nil {
		t.Fatal(err)
	}
	const rows = 20_000
	for _, way := range ways {
		for at := 0; at < rows; at += way.request {
			g := model.RowGroup{Unique: rule, Axes: []model.AxisColumn{{Axis: model.AxisStep}}}
			a, b := model.Column{Series: model.NewSeriesKey("a", "", nil), Kind: model.KindFloat}, model.Column{Series: model.NewSeriesKey("b", "", nil), Kind: model.KindInt}
			for i := at; i < min(at+way.request, rows); i++ {
				g.Axes[0].Values, g.TimeNs = append(g.Axes[0].Values, int64(i)), append(g.TimeNs, int64(i)*1_000_003)
				a.Floats, b.Ints = append(a.Floats, float64(i*7919%10_007)/7), append(b.Ints, int64(i*i%1009))
			}
			g.Columns = []model.Column{a, b}
			must(e.Append(t.Context(), &model.Batch{Run: run, Writer: model.WriterID(run), Attempt: 1, Groups: []model.RowGroup{g}}))
			if at/way.request%way.flush == way.flush-1 {
				if err := e.Flush(context.Background()); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if err := e.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	return e
}

// answers are what reads of the run's curves say.
func answers(t *testing.T, e *local.Engine) (out []any) {
	t.Helper()
	run := model.RunID{1}
	list, _, err := e.ListSeries(t.Context(), run, store.SeriesFilter{Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	for i := range list {
		list[i].Superseded = 0
		for _, axis := range []model.Axis{model.AxisStep, model.AxisTime} {
			for _, to := range []int64{1 << 60, 9_000, 700_000_000} {
				buckets := must(e.Buckets(t.Context(), store.BucketsRequest{Run: run, Series: list[i].ID, Axis: axis, From: 777, To: to, N: 13}))
				for i := range buckets {
					buckets[i].Sum = 0 // floats may be added in another order
				}
				rows := must(e.Scan(t.Context(), store.ScanRequest{Run: run, Series: list[i].ID, Axis: axis, From: 777, To: to, Limit: 30_000}))
				out = append(out, buckets, rows)
			}
		}
	}
	return append(out, list)
}

// TestSentTwiceIsSentOnce sends the same points once and twice, cut in another way the
// second time: every read answers the same, before a merge and after it, also after a
// restart. A merge keeps one copy.
func TestSentTwiceIsSentOnce(t *testing.T) {
	alone(t)
	for _, rule := range []model.Uniqueness{model.UniqueTime, model.UniqueStep, model.UniqueAxes} {
		t.Run(fmt.Sprint(rule), func(t *testing.T) {
			fs, other := faultfs.New(), faultfs.New()
			once := repeatedRows(t, other, rule, sending{1000, 3})
			twice := repeatedRows(t, fs, rule, sending{1000, 3}, sending{700, 2})
			defer func() { _ = once.Close(); _ = twice.Close() }()
			same := func(when string, stored uint64) {
				t.Helper()
				want, got := answers(t, once), answers(t, twice)
				for i := range want {
					if bucketsApart(want[i], got[i]) || !isBuckets(want[i]) && !reflect.DeepEqual(want[i], got[i]) {
						t.Errorf("%s: answer %d is another", when, i)
					}
				}
				stats := must(twice.RunStats(t.Context(), model.RunID{1}))
				if stats.Stored != stored || stats.Stored-stats.Superseded != 40_000 || twice.Stats().Points != stored {
					t.Errorf("%s: %+v, %d points", when, stats, twice.Stats().Points)
				}
			}
			reopen := func() {
				t.Helper()
				if err := twice.Close(); err != nil {
					t.Fatal(err)
				}
				twice = must(local.Open(t.Context(), local.Config{Dir: "/data", FS: fs}))
			}
			same("before", 80_000)
			reopen()
			same("after a restart", 80_000)
			for _, e := range []*local.Engine{once, twice} {
				if err := e.Compact(t.Context(), true); err != nil {
					t.Fatal(err)
				}
			}
			same("after a merge", 40_000)
			if one, two := once.LiveBytes(), twice.LiveBytes(); float64(two) > 1.05*float64(one) {
				t.Errorf("a merge left %d bytes, of one copy %d", two, one)
			}
			reopen()
			same("after a merge and a restart", 40_000)
		})
	}
}

func isBuckets(answer any) bool { _, ok := answer.([]store.Bucket); return ok }

// bucketsApart holds two answers beside each other: how groups are cut decides where
// buckets end, so no more than what is in all of them can be the same.
func bucketsApart(a, b any) bool {
	x, ok := a.([]store.Bucket)
	y, also := b.([]store.Bucket)
	if !ok || !also {
		return false
	}
	return joined(x) != joined(y)
}

func joined(list []store.Bucket) (out store.Bucket) {
	for i, b := range list {
		if i == 0 {
			out = b
		}
		out.Hi, out.Min, out.Max, out.MinInt, out.MaxInt = b.Hi, min(out.Min, b.Min), max(out.Max, b.Max), min(out.MinInt, b.MinInt), max(out.MaxInt, b.MaxInt)
		if i > 0 {
			out.Count += b.Count
		}
	}
	return out
}

// TestRepeatsThatDiffer: what differs in its value, its axes or its time is kept, and so are
// points that no rule makes one; the last to be said wins, as before the merge.
func TestRepeatsThatDiffer(t *testing.T) {
	e := must(local.Open(t.Context(), local.Config{Dir: "/data", FS: faultfs.New()}))
	defer e.Close()
	run := model.RunID{1}
	if err := e.PutAttempt(t.Context(), run, model.Attempt{Number: 1}); err != nil {
		t.Fatal(err)
	}
	send := func(name string, rule model.Uniqueness, time int64, axes []model.AxisColumn, v float64) {
		t.Helper()
		g := model.RowGroup{Unique: rule, Axes: axes, TimeNs: []int64{time}, Columns: []model.Column{{Series: model.NewSeriesKey(name, "", nil), Kind: model.KindFloat, Floats: []float64{v}}}}
		must(e.Append(t.Context(), &model.Batch{Run: run, Writer: model.WriterID{2}, Attempt: 1, Groups: []model.RowGroup{g}}))
		if err := e.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	step := func(at int64) []model.AxisColumn {
		return []model.AxisColumn{{Axis: model.AxisStep, Values: []int64{at}}}
	}
	for _, v := range []float64{1, 2, 1} {
		send("value", model.UniqueTime, 5, nil, v)
		send("value by step", model.UniqueStep, 5, step(3), v)
		send("axis", model.UniqueTime, 5, step(int64(v)), 1)
		send("time", model.UniqueStep, int64(v), step(3), 1)
		send("free", model.UniqueAxes, 5, nil, 1)
		send("same", model.UniqueTime, 5, step(1), 7)
	}
	want := map[string][2]uint64{"value": {1, 2}, "value by step": {1, 2}, "axis": {1, 2}, "time": {1, 1}, "free": {3, 0}, "same": {1, 0}}
	if err := e.Compact(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	list, _, err := e.ListSeries(t.Context(), run, store.SeriesFilter{Limit: 10})
	if err != nil || len(list) != len(want) {
		t.Fatal(list, err)
	}
	for _, s := range list {
		if w := want[s.Key.Metric]; s.Count != w[0] || s.Superseded != w[1] {
			t.Errorf("%s has %d points and %d superseded, want %v", s.Key.Metric, s.Count, s.Superseded, w)
		}
		if s.Key.Metric != "same" && s.Last.Value.Float != 1 {
			t.Errorf("%s ends with %v", s.Key.Metric, s.Last.Value.Float)
		}
	}
}
