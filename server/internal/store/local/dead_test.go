package local_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wal/faultfs"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/local"
)

// TestSentAgainInAnyWay sends stretches of a series again and again, whole or in part, with
// the old values or others, and compares each read with a list of what was said last. Groups
// of which every point was said again are left out of reads: none may be that still has one.
func TestSentAgainInAnyWay(t *testing.T) {
	for _, rule := range []model.Uniqueness{model.UniqueTime, model.UniqueStep, model.UniqueAxes} {
		for seed := range uint64(12) {
			t.Run(fmt.Sprint(rule, seed), func(t *testing.T) {
				s := &sayings{random: rand.New(rand.NewPCG(seed, 4)), rule: rule, said: map[int64]float64{}}
				s.e = must(local.Open(t.Context(), local.Config{Dir: "/data", FS: faultfs.New()}))
				defer s.e.Close()
				s.e.Eager()
				for n := range uint32(2) {
					if err := s.e.PutAttempt(t.Context(), model.RunID{1}, model.Attempt{Number: n + 1, Precedence: int64(n)}); err != nil {
						t.Fatal(err)
					}
				}
				for range 40 {
					s.say(t)
					s.check(t)
				}
			})
		}
	}
}

// sayings is a series whose points are said more than once, in steps of 0 to 399.
type sayings struct {
	e      *local.Engine
	random *rand.Rand
	rule   model.Uniqueness
	said   map[int64]float64
	stored int
}

func (s *sayings) say(t *testing.T) {
	t.Helper()
	from, rows := s.random.Int64N(20)*20, 20*(1+s.random.Int64N(3))
	g := model.RowGroup{Unique: s.rule, Axes: []model.AxisColumn{{Axis: model.AxisStep}}, Columns: []model.Column{{Series: model.NewSeriesKey("loss", "", nil), Kind: model.KindFloat}}}
	again := s.random.IntN(3) > 0
	for step := from; step < from+rows; step++ {
		if s.random.IntN(40) == 0 {
			continue // so that an old point is left
		}
		v, known := s.said[step]
		if !again || !known {
			v = s.random.Float64()
		}
		s.said[step] = v
		s.stored++
		g.Axes[0].Values, g.TimeNs = append(g.Axes[0].Values, step), append(g.TimeNs, step*1000)
		g.Columns[0].Floats = append(g.Columns[0].Floats, v)
	}
	must(s.e.Append(t.Context(), &model.Batch{Run: model.RunID{1}, Writer: model.WriterID{1}, Attempt: 1, Groups: []model.RowGroup{g}}))
	if s.random.IntN(4) > 0 {
		if err := s.e.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if s.random.IntN(12) == 0 {
		s.e.Forget()
	}
}

func (s *sayings) check(t *testing.T) {
	t.Helper()
	axis := []model.Axis{model.AxisStep, model.AxisTime}[s.random.IntN(2)]
	for _, sel := range []store.Attempts{{}, {Number: 1}} {
		rows := must(s.e.Scan(t.Context(), store.ScanRequest{Run: model.RunID{1}, Axis: axis, Attempts: sel, To: 1 << 40, Limit: 1000}))
		if len(rows.TimeNs) != len(s.said) {
			t.Fatalf("%d points by %s, want %d", len(rows.TimeNs), axis, len(s.said))
		}
		for i, at := range rows.TimeNs {
			if rows.Values.Floats[i] != s.said[at/1000] {
				t.Fatalf("step %d has %v, want %v", at/1000, rows.Values.Floats[i], s.said[at/1000])
			}
		}
		count, buckets := 0, must(s.e.Buckets(t.Context(), store.BucketsRequest{Run: model.RunID{1}, Axis: axis, Attempts: sel, To: 1 << 40, N: 7}))
		for _, b := range buckets {
			count += int(b.Count)
		}
		if count != len(s.said) {
			t.Fatalf("buckets of %d points by %s, want %d", count, axis, len(s.said))
		}
	}
	all := must(s.e.Scan(t.Context(), store.ScanRequest{Run: model.RunID{1}, Axis: axis, Attempts: store.Attempts{All: true}, To: 1 << 40, Limit: 10_000}))
	list, _, err := s.e.ListSeries(t.Context(), model.RunID{1}, store.SeriesFilter{Limit: 2})
	if err != nil || len(list) != 1 || len(all.TimeNs) != s.stored || list[0].Count != uint64(len(s.said)) || list[0].Superseded != uint64(s.stored-len(s.said)) {
		t.Fatalf("%d points of all, want %d; the list says %+v of %d; %v", len(all.TimeNs), s.stored, list, len(s.said), err)
	}
}
