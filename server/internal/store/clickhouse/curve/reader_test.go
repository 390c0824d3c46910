package curve_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse/curve"
	"github.com/kymogram/kymogram/server/internal/store/storetest"
)

// seeds is how many pairs of runs are compared.
const seeds = 1

// Every read agrees with the rules, looked at point by point.
func TestReadsAgree(t *testing.T) {
	t.Parallel()
	tables := open(t)
	for seed := range uint64(seeds) {
		f := &fixture{Rand: rand.New(rand.NewPCG(seed, 1)), tables: tables}
		runs := ledger{}
		for n := range byte(2) {
			id := model.RunID{byte(seed*2) + n + 1, byte(seed)}
			runs[id] = f.fill(t, id, 60+f.IntN(120))
		}
		c := &comparison{ledger: runs, reader: curve.New(tables.db, tables.name, runs).AtOnce(20), limit: 5 + f.IntN(30), Rand: f.Rand}
		for id := range runs {
			t.Run(fmt.Sprintf("seed %d run %s", seed, id), func(t *testing.T) { c.compareRun(t, id) })
		}
		t.Run(fmt.Sprintf("seed %d forks", seed), func(t *testing.T) {
			if os.Getenv("CLUSTER") == "" {
				t.Skip("forks take most of the time: make test-cluster")
			}
			c.compareForks(t)
		})
	}
}

type comparison struct {
	ledger
	reader *curve.Reader
	limit  int
	*rand.Rand
}

func (c *comparison) compareRun(t *testing.T, id model.RunID) {
	h := c.ledger[id]
	for _, s := range h.series {
		sels := []store.Attempts{{}, {All: true}}
		for _, a := range h.facts.Attempts {
			sels = append(sels, store.Attempts{Number: a.Number})
		}
		for _, sel := range sels {
			q := store.CurveRequest{Run: id, Series: s.ID}
			c.compareReads(t, fmt.Sprintf("series %d, %+v", s.ID, sel), q, s, sel, h.selected(s.ID, sel))
		}
	}
	c.compareList(t, id)
}

func (c *comparison) compareReads(t *testing.T, what string, q store.CurveRequest, s curve.Series, sel store.Attempts, points []point) {
	t.Helper()
	for _, axis := range []model.Axis{model.AxisStep, model.AxisTime, model.AxisRLStep, model.AxisEpisode, model.AxisWindow} {
		for _, gaps := range []bool{false, true} {
			if c.IntN(6) > 0 {
				continue // all would take minutes
			}
			want := along(points, axis, gaps)
			for _, r := range stretches(want, axis, gaps) {
				part := slices.DeleteFunc(slices.Clone(want), func(p point) bool { x, _ := p.x(axis, gaps); return x < r[0] || x > r[1] })
				scan := store.ScanRequest{Run: q.Run, Series: q.Series, Ancestors: q.Ancestors, Axis: axis, Gaps: gaps, From: r[0], To: r[1], Attempts: sel, Limit: c.limit}
				if err := c.compareScan(t, scan, s, part); err != nil {
					t.Fatalf("%s: scan by %s, gaps %v, in %v: %v", what, axis, gaps, r, err)
				}
				if gaps || s.Kind != model.KindFloat && s.Kind != model.KindInt {
					continue
				}
				for _, n := range []int{[]int{1, 3, 1000}[c.IntN(3)]} {
					b := store.BucketsRequest{Run: q.Run, Series: q.Series, Ancestors: q.Ancestors, Axis: axis, From: r[0], To: r[1], N: n, Attempts: sel}
					if err := c.compareBuckets(t, b, s.Kind, part); err != nil {
						t.Fatalf("%s: %d buckets by %s in %v: %v", what, n, axis, r, err)
					}
				}
			}
		}
	}
}

func stretches(want []point, axis model.Axis, gaps bool) [][2]int64 {
	out := [][2]int64{{math.MinInt64, math.MaxInt64}}
	if len(want) > 4 {
		from, _ := want[1].x(axis, gaps)
		to, _ := want[len(want)-2].x(axis, gaps)
		out = append(out, [2]int64{from, to})
	}
	return out
}

func (c *comparison) compareScan(t *testing.T, q store.ScanRequest, s curve.Series, want []point) error {
	t.Helper()
	for {
		rows, err := c.reader.Scan(t.Context(), q)
		if err != nil {
			return err
		}
		n := len(rows.TimeNs)
		if n > q.Limit || n > len(want) || rows.Next == nil && n != len(want) || rows.Next != nil && n != q.Limit {
			return fmt.Errorf("a page of %d rows, %d to come, next %v", n, len(want), rows.Next)
		}
		if err := compareRows(rows, s, want[:n], len(q.Ancestors) > 0); err != nil {
			return err
		}
		if want = want[n:]; rows.Next == nil {
			return nil
		}
		q.After = rows.Next
	}
}

func compareRows(rows *store.Rows, s curve.Series, want []point, fork bool) error {
	if rows.Values.Kind != s.Kind || rows.Values.Series.String() != s.Text || rows.Values.Len() != len(want) {
		return fmt.Errorf("%d values of %q", rows.Values.Len(), rows.Values.Series)
	}
	for i := range want {
		p := &want[i]
		if rows.TimeNs[i] != p.time || rows.Attempt[i] != p.attempt || rows.Writer[i] != p.writer || rows.Seq[i] != p.seq || fork && rows.Depth[i] != p.depth {
			return fmt.Errorf("row %d is (%d, %d, %s, %d), want %+v", i, rows.TimeNs[i], rows.Attempt[i], rows.Writer[i], rows.Seq[i], p)
		}
		if v := valueAt(&rows.Values, i); !sameNumber(v, p.value) {
			return fmt.Errorf("row %d holds %+v, want %+v", i, v, p.value)
		}
		left := len(p.axes)
		for k, a := range rows.Axes {
			x, ok := p.axes[a.Axis]
			if has := rows.Has[k] == nil || rows.Has[k][i]; has != ok || ok && a.Values[i] != x {
				return fmt.Errorf("row %d has %s %d (%v), want %d (%v)", i, a.Axis, a.Values[i], has, x, ok)
			}
			if ok {
				left--
			}
		}
		if left > 0 {
			return fmt.Errorf("row %d lacks axes", i)
		}
	}
	return nil
}

func valueAt(c *model.Column, i int) store.Number {
	switch c.Kind {
	case model.KindFloat:
		return store.Number{Float: c.Floats[i]}
	case model.KindInt:
		return store.Number{Int: c.Ints[i]}
	case model.KindText:
		return store.Number{Doc: []byte(c.Texts[i])}
	}
	return store.Number{Doc: c.Docs[i]}
}

func sameNumber(a, b store.Number) bool {
	return math.Float64bits(a.Float) == math.Float64bits(b.Float) && a.Int == b.Int && bytes.Equal(a.Doc, b.Doc)
}

func (c *comparison) compareBuckets(t *testing.T, q store.BucketsRequest, kind model.Kind, want []point) error {
	t.Helper()
	var xs []int64
	var values []store.Number
	for i := range want {
		x, _ := want[i].x(q.Axis, false)
		xs, values = append(xs, x), append(values, want[i].value)
	}
	got, err := c.reader.Buckets(t.Context(), q)
	if err != nil {
		return err
	}
	for i := range got {
		inherited := uint64(0)
		for k := range want {
			if want[k].depth > 0 && xs[k] >= got[i].Lo && xs[k] <= got[i].Hi {
				inherited++
			}
		}
		if got[i].Inherited != inherited {
			return fmt.Errorf("bucket %d inherits %d, want %d", i, got[i].Inherited, inherited)
		}
		got[i].Inherited = 0
	}
	if err := storetest.CheckBuckets(got, q.N, kind, xs, values); err != nil {
		return err
	}
	if len(xs) == 0 || q.From == math.MinInt64 && (xs[0] < math.MinInt64+9 || xs[len(xs)-1] > math.MaxInt64-9) {
		return nil
	}
	q.Grid, q.From, q.To = true, xs[0]-3, xs[len(xs)-1]+5
	if q.From > xs[0] || q.To < xs[len(xs)-1] {
		return nil // past the end of int64
	}
	return c.compareGrid(t, q, kind)
}

func (c *comparison) compareGrid(t *testing.T, q store.BucketsRequest, kind model.Kind) error {
	t.Helper()
	var points []point
	if len(q.Ancestors) > 0 {
		points = c.line(store.CurveRequest{Run: q.Run, Series: q.Series, Ancestors: q.Ancestors})
	} else {
		points = c.ledger[q.Run].selected(q.Series, q.Attempts)
	}
	var xs []int64
	var values []store.Number
	for _, p := range along(points, q.Axis, false) {
		if x, _ := p.x(q.Axis, false); x >= q.From && x <= q.To {
			xs, values = append(xs, x), append(values, p.value)
		}
	}
	got, err := c.reader.Buckets(t.Context(), q)
	for i := range got {
		got[i].Inherited = 0
	}
	if err != nil {
		return err
	}
	if err := storetest.CheckGrid(got, q.From, q.To, q.N, kind, xs, values); err != nil {
		return fmt.Errorf("grid: %w", err)
	}
	return nil
}

func describe(id store.SeriesID, s curve.Series, points []point) store.Series {
	out := store.Series{ID: id, Key: s.Key, Kind: s.Kind, Count: uint64(len(points))}
	ordered := along(points, model.AxisStep, false)
	if len(ordered) == 0 {
		ordered = along(points, model.AxisTime, false)
	}
	for i, p := range points {
		if i == 0 {
			out.MinTimeNs, out.MaxTimeNs = p.time, p.time
		}
		out.MinTimeNs, out.MaxTimeNs = min(out.MinTimeNs, p.time), max(out.MaxTimeNs, p.time)
		if p.depth > 0 {
			out.Inherited++
		}
	}
	if len(ordered) > 0 {
		last := ordered[len(ordered)-1]
		out.Last = &store.Point{TimeNs: last.time, Value: last.value}
		if last.stepped() {
			at := last.axes[model.AxisStep]
			out.Last.Step = &at
		}
	}
	return out
}

func axesOf(lists ...[]point) (out []model.Axis) {
	for _, a := range model.Axes() {
		if slices.ContainsFunc(slices.Concat(lists...), func(p point) bool { _, ok := p.axes[a]; return ok }) {
			out = append(out, a)
		}
	}
	return out
}

func (c *comparison) compareList(t *testing.T, id model.RunID) {
	t.Helper()
	h := c.ledger[id]
	list, more, err := c.reader.ListSeries(t.Context(), id, store.SeriesFilter{Limit: 100})
	if err != nil || more || len(list) != len(h.series) {
		t.Fatalf("%d series listed, more %v: %v", len(list), more, err)
	}
	var stats store.RunStats
	for _, got := range list {
		at := slices.IndexFunc(h.series, func(s curve.Series) bool { return s.ID == got.ID })
		s := h.series[at]
		want := describe(s.ID, s, h.curve(s.ID))
		want.Axes, want.Superseded = axesOf(h.points[s.ID]), uint64(len(h.points[s.ID]))-want.Count
		full, err := c.reader.Curve(t.Context(), store.CurveRequest{Run: id, Series: s.ID})
		if diff := gocmp.Diff(want, full, gocmp.Comparer(sameNumber)); err != nil || diff != "" {
			t.Fatalf("series %d (-want +got): %v\n%s", s.ID, err, diff)
		}
		if want.Last != nil {
			want.Last.Value.Doc = nil
		}
		if diff := gocmp.Diff(want, got, gocmp.Comparer(sameNumber)); diff != "" {
			t.Fatalf("listed series %d (-want +got):\n%s", s.ID, diff)
		}
		stats.Superseded += want.Superseded
		for _, p := range h.points[s.ID] {
			if stats.Stored == 0 {
				stats.MinTimeNs, stats.MaxTimeNs = p.time, p.time
			}
			stats.Stored++
			stats.MinTimeNs, stats.MaxTimeNs = min(stats.MinTimeNs, p.time), max(stats.MaxTimeNs, p.time)
		}
		stats.Series++
	}
	got, err := c.reader.RunStats(t.Context(), id)
	if diff := gocmp.Diff(stats, got); err != nil || diff != "" {
		t.Fatalf("run: %v\n%s", err, diff)
	}
}

func (c *comparison) compareForks(t *testing.T) {
	for own, h := range c.ledger {
		for parent, p := range c.ledger {
			for i, s := range p.series {
				if own == parent || h.series[i].Text != s.Text {
					continue
				}
				for _, upTo := range []int64{0, 4, math.MaxInt64} {
					q := store.CurveRequest{Run: own, Series: s.ID, Ancestors: []store.Ancestor{{Run: parent, Series: s.ID, UpTo: upTo}}}
					c.compareFork(t, q, s)
					q.Run, q.Ancestors = model.RunID{}, []store.Ancestor{{Run: own, Series: s.ID, UpTo: 5}, {Run: parent, Series: s.ID, UpTo: upTo}}
					c.compareFork(t, q, s)
				}
			}
		}
	}
}

func (c *comparison) compareFork(t *testing.T, q store.CurveRequest, s curve.Series) {
	t.Helper()
	points := c.line(q)
	c.compareReads(t, fmt.Sprintf("fork %+v", q), q, s, store.Attempts{}, points)
	want := describe(s.ID, s, points)
	want.Axes = axesOf(points)
	if q.Run.IsZero() {
		want.ID = 0
	} else {
		h := c.ledger[q.Run]
		want.Axes = axesOf(points, h.points[s.ID])
		want.Superseded = uint64(len(h.points[s.ID]) - len(h.curve(s.ID)))
	}
	got, err := c.reader.Curve(t.Context(), q)
	if diff := gocmp.Diff(want, got, gocmp.Comparer(sameNumber)); err != nil || diff != "" {
		t.Fatalf("fork %+v (-want +got): %v\n%s", q, err, diff)
	}
}
