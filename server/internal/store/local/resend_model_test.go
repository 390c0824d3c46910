package local_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wal/faultfs"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/local"
)

// said is a value that somebody gave a key, to the bit.
type said struct {
	attempt uint32
	key     int64
	bits    uint64
}

// resending is a run that points are sent to, again and again, and all that was said of it.
type resending struct {
	fs     *faultfs.FS
	e      *local.Engine
	random *rand.Rand
	rule   model.Uniqueness
	now    time.Time
	resume int64             // attempt 2 hides what 1 has from this step on; -1: it did not resume
	all    map[string][]said // by series, as they came
}

func (r *resending) open(t *testing.T) {
	t.Helper()
	r.e = must(local.Open(t.Context(), local.Config{Dir: "/data", FS: r.fs, SegmentBytes: 1 << 20, CompactFiles: 4, Now: func() time.Time { return r.now }}))
	r.e.Eager()
}

// send sends rows in requests of a size, with both series or each by itself.
func (r *resending) send(t *testing.T, rows map[string][]said, size int, together bool) {
	t.Helper()
	names := slices.Sorted(maps.Keys(rows))
	for at := 0; at < len(rows["a"]); at += size {
		var groups []model.RowGroup
		for _, name := range names {
			part := rows[name][at:min(at+size, len(rows[name]))]
			g := model.RowGroup{Unique: r.rule, Columns: []model.Column{{Series: model.NewSeriesKey(name, "", nil), Kind: model.KindFloat}}}
			if r.rule != model.UniqueTime {
				g.Axes = []model.AxisColumn{{Axis: model.AxisStep}}
			}
			for _, s := range part {
				g.TimeNs, g.Columns[0].Floats = append(g.TimeNs, s.key*1000), append(g.Columns[0].Floats, math.Float64frombits(s.bits))
				if r.rule != model.UniqueTime {
					g.Axes[0].Values = append(g.Axes[0].Values, s.key)
				}
			}
			r.all[name] = append(r.all[name], part...)
			if together && len(groups) > 0 {
				groups[0].Columns = append(groups[0].Columns, g.Columns...)
				continue
			}
			groups = append(groups, g)
		}
		attempt := rows["a"][at].attempt
		must(r.e.Append(t.Context(), &model.Batch{Run: model.RunID{1}, Writer: model.WriterID{byte(attempt)}, Attempt: attempt, Groups: groups}))
		r.upkeep(t)
	}
}

// upkeep does what a server does meanwhile, or nothing.
func (r *resending) upkeep(t *testing.T) {
	t.Helper()
	if r.random.IntN(3) == 0 {
		if err := r.e.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if r.random.IntN(6) == 0 {
		r.now = r.now.Add(time.Duration(r.random.IntN(60)) * time.Second)
		if err := r.e.Compact(t.Context(), r.random.IntN(8) == 0); err != nil {
			t.Fatal(err)
		}
	}
	switch r.random.IntN(40) {
	case 0:
		r.e.Forget()
	case 1:
		if err := r.e.Close(); err != nil {
			t.Fatal(err)
		}
		r.open(t)
	}
}

// fresh are new rows of an attempt: most go on, others give old keys new values.
func (r *resending) fresh(attempt uint32) map[string][]said {
	out := map[string][]said{}
	from, rows := int64(r.random.IntN(900)), 20+r.random.IntN(120)
	if attempt == 2 && r.resume >= 0 { // what it says before that does not hide what is there
		from += r.resume
	}
	odd := []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1), 0, math.Float64frombits(0x7ff8000000000123)}
	for i := range int64(rows) {
		for _, name := range []string{"a", "b"} {
			v := r.random.NormFloat64()
			if r.random.IntN(6) == 0 {
				v = odd[r.random.IntN(len(odd))]
			}
			out[name] = append(out[name], said{attempt, from + i, math.Float64bits(v)})
		}
	}
	return out
}

// again is a part of what an attempt said, or all of it, in its order.
func (r *resending) again(attempt uint32) map[string][]said {
	out := map[string][]said{"a": nil, "b": nil}
	others := r.random.IntN(3) == 0 // a second attempt says what the first one did
	for name, list := range r.all {
		for _, s := range list {
			if others && attempt == 2 && s.key >= r.resume {
				s.attempt = attempt
			}
			if s.attempt == attempt {
				out[name] = append(out[name], s)
			}
		}
	}
	n := len(out["a"])
	if n == 0 {
		return r.fresh(attempt)
	}
	if r.random.IntN(3) == 0 {
		return out
	}
	from := r.random.IntN(n)
	to := min(n, from+1+r.random.IntN(400))
	for name := range out {
		out[name] = out[name][from:to]
	}
	return out
}

// curve is what the rules of a point say of a series: of one attempt, or 0 for all.
func (r *resending) curve(name string, attempt uint32) map[int64]uint64 {
	last, by := map[int64]uint64{}, map[int64]uint32{}
	for _, s := range r.all[name] {
		hidden := attempt == 0 && r.rule == model.UniqueAxes && (s.attempt < by[s.key] || s.attempt == 1 && r.resume >= 0 && s.key >= r.resume)
		if attempt != 0 && s.attempt != attempt || hidden {
			continue
		}
		last[s.key], by[s.key] = s.bits, s.attempt
	}
	return last
}

func (r *resending) check(t *testing.T) {
	t.Helper()
	list, _, err := r.e.ListSeries(t.Context(), model.RunID{1}, store.SeriesFilter{Limit: 9})
	if err != nil || len(list) != 2 {
		t.Fatal(list, err)
	}
	for i := range list {
		s := &list[i]
		for attempt := range uint32(3) {
			want := r.curve(s.Key.Metric, attempt)
			r.checkCurve(t, s, store.Attempts{Number: attempt}, want)
			if attempt == 0 && s.Count != uint64(len(want)) {
				t.Fatalf("%s has %d points, want %d", s.Key.Metric, s.Count, len(want))
			}
		}
		r.checkAll(t, s)
	}
}

func (r *resending) checkCurve(t *testing.T, s *store.Series, sel store.Attempts, want map[int64]uint64) {
	t.Helper()
	q := store.ScanRequest{Run: model.RunID{1}, Series: s.ID, Axis: model.AxisTime, Attempts: sel, From: 0, To: 1 << 40, Limit: 1 + r.random.IntN(2000)}
	got := map[int64]uint64{}
	for n := 0; ; n++ {
		page := must(r.e.Scan(t.Context(), q))
		for i, at := range page.TimeNs {
			if _, twice := got[at/1000]; twice {
				t.Fatalf("%s, %v: key %d comes twice; limit %d page %d row %d", s.Key.Metric, sel, at/1000, q.Limit, n, i)
			}
			got[at/1000] = math.Float64bits(page.Values.Floats[i])
		}
		if q.After = page.Next; q.After == nil {
			break
		}
	}
	if !maps.Equal(got, want) {
		t.Fatalf("%s, %v: %d points differ from %d that were said", s.Key.Metric, sel, len(got), len(want))
	}
	var sum store.Bucket
	for _, b := range must(r.e.Buckets(t.Context(), store.BucketsRequest{Run: model.RunID{1}, Series: s.ID, Axis: model.AxisTime, Attempts: sel, From: 0, To: 1 << 40, N: 1 + r.random.IntN(300)})) {
		sum.Count, sum.NaN, sum.PosInf, sum.NegInf = sum.Count+b.Count, sum.NaN+b.NaN, sum.PosInf+b.PosInf, sum.NegInf+b.NegInf
	}
	var naive store.Bucket
	for _, bits := range want {
		switch v := math.Float64frombits(bits); {
		case v != v:
			naive.NaN++
		case math.IsInf(v, 1):
			naive.PosInf++
		case math.IsInf(v, -1):
			naive.NegInf++
		default:
			naive.Count++
		}
	}
	if sum != naive {
		t.Fatalf("%s, %v: buckets of %+v, want %+v", s.Key.Metric, sel, sum, naive)
	}
}

// checkAll: superseded points stay readable, each that was said at least once.
func (r *resending) checkAll(t *testing.T, s *store.Series) {
	t.Helper()
	rows := must(r.e.Scan(t.Context(), store.ScanRequest{Run: model.RunID{1}, Series: s.ID, Axis: model.AxisTime, Attempts: store.Attempts{All: true}, From: 0, To: 1 << 40, Limit: 1 << 20}))
	got, want := map[said]bool{}, map[said]bool{}
	for i, at := range rows.TimeNs {
		got[said{rows.Attempt[i], at / 1000, math.Float64bits(rows.Values.Floats[i])}] = true
	}
	for _, one := range r.all[s.Key.Metric] {
		want[one] = true
	}
	if !maps.Equal(got, want) {
		t.Fatalf("%s: %d different points are left, of %d", s.Key.Metric, len(got), len(want))
	}
}

// TestSentAgainInAnyWay sends points of two attempts, some again: all or a part, cut in
// other ways, with new ones in between. Meanwhile segments are flushed and merged, and the
// server starts anew. Every read says what a list of all that was sent says, and some is kept once.
func TestSentAgainInAnyWay(t *testing.T) {
	for _, rule := range []model.Uniqueness{model.UniqueTime, model.UniqueAxes} {
		for seed := range uint64(8) {
			t.Run(fmt.Sprint(rule, seed), func(t *testing.T) {
				t.Parallel()
				r := &resending{fs: faultfs.New(), random: rand.New(rand.NewPCG(seed, 14)), rule: rule, now: time.Now(), resume: -1, all: map[string][]said{}}
				r.open(t)
				defer func() { _ = r.e.Close() }()
				for n := range uint32(2) {
					a := model.Attempt{Number: n + 1, Precedence: int64(n)}
					if n == 1 && seed%2 == 0 {
						r.resume = 300
						a.ResumeFrom = &r.resume
					}
					if err := r.e.PutAttempt(t.Context(), model.RunID{1}, a); err != nil {
						t.Fatal(err)
					}
				}
				for round := range 14 {
					attempt := uint32(1 + r.random.IntN(1+round/7))
					rows := r.fresh(attempt)
					if round > 0 && r.random.IntN(2) == 0 && len(r.all["a"]) < 30_000 {
						rows = r.again(attempt)
					}
					r.send(t, rows, 10+r.random.IntN(300), r.random.IntN(3) > 0)
					r.check(t)
				}
				last := r.fresh(1) // at least these are said twice in a row
				r.send(t, last, 100, true)
				r.send(t, last, 70, true)
				if err := errors.Join(r.e.Flush(t.Context()), r.e.Compact(t.Context(), true)); err != nil {
					t.Fatal(err)
				}
				r.check(t)
				if sent := uint64(len(r.all["a"]) + len(r.all["b"])); r.e.Stats().Points >= sent {
					t.Errorf("all of %d points are kept", sent)
				}
			})
		}
	}
}
