package local_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wal/faultfs"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/local"
)

// singles is a run of a client that gives each value a line and a time of its own, and what
// the run should say. Of a time that comes again the later value counts.
type singles struct {
	random *rand.Rand
	want   map[string]map[int64]float64
	writer map[string]model.WriterID
	now    int64
}

// batch is some values of two kinds, by one of two writers, each of which has series of its
// own. Now and then a row that two series share lies between them.
func (s *singles) batch() *model.Batch {
	writer := s.random.IntN(2)
	b := &model.Batch{Run: model.RunID{1}, Writer: model.WriterID{1, byte(writer)}, Attempt: 1}
	for range 1 + s.random.IntN(200) {
		if s.now++; s.random.IntN(50) == 0 {
			s.now -= s.random.Int64N(300)
		}
		value := float64(s.random.IntN(1 << 20))
		g := model.RowGroup{Unique: model.UniqueTime, TimeNs: []int64{s.now}, Columns: []model.Column{s.column(b.Writer, 20*writer+s.random.IntN(20), value)}}
		if s.random.IntN(40) == 0 {
			g.Columns = append(g.Columns, s.column(b.Writer, 40+writer, value))
		}
		b.Groups = append(b.Groups, g)
	}
	return b
}

// column is one value of a series; of those with an even number it is whole.
func (s *singles) column(writer model.WriterID, n int, value float64) model.Column {
	name := fmt.Sprint("m", n)
	s.writer[name] = writer
	if s.want[name] == nil {
		s.want[name] = map[int64]float64{}
	}
	s.want[name][s.now] = value
	c := model.Column{Series: model.NewSeriesKey(name, "", nil), Kind: model.KindFloat, Floats: []float64{value}}
	if n%2 == 0 {
		c.Kind, c.Floats, c.Ints = model.KindInt, nil, []int64{int64(value)}
	}
	return c
}

// check compares every series, and where it ends.
func (s *singles) check(t *testing.T, e *local.Engine, when string) {
	t.Helper()
	list, _, err := e.ListSeries(t.Context(), model.RunID{1}, store.SeriesFilter{Limit: 100})
	if err != nil || len(list) != len(s.want) {
		t.Fatalf("%s: %d series of %d, %v", when, len(list), len(s.want), err)
	}
	for _, l := range list {
		want := s.want[l.Key.Metric]
		times := slices.Sorted(maps.Keys(want))
		last := times[len(times)-1]
		if l.Count != uint64(len(want)) || l.MinTimeNs != times[0] || l.MaxTimeNs != last || l.Last.TimeNs != last || l.Last.Value.Float+float64(l.Last.Value.Int) != want[last] {
			t.Fatalf("%s: %s is listed as %+v with the end %+v; want %d points, the last %v at %d", when, l.Key.Metric, l, l.Last, len(want), want[last], last)
		}
		got, writers := readAll(t, e, l)
		if !maps.Equal(got, want) {
			t.Fatalf("%s: %s is\n%v, want\n%v", when, l.Key.Metric, got, want)
		}
		if by := []model.WriterID{s.writer[l.Key.Metric]}; !slices.Equal(writers, by) {
			t.Fatalf("%s: %s is by %v, want %v", when, l.Key.Metric, writers, by)
		}
	}
}

// readAll reads a series page by page, and who wrote it.
func readAll(t *testing.T, e *local.Engine, l store.Series) (out map[int64]float64, writers []model.WriterID) {
	t.Helper()
	out = map[int64]float64{}
	for q := (store.ScanRequest{Run: model.RunID{1}, Series: l.ID, Axis: model.AxisTime, From: -1 << 40, To: 1 << 40, Limit: 1000}); ; {
		rows := must(e.Scan(t.Context(), q))
		for i, at := range rows.TimeNs {
			if !slices.Contains(writers, rows.Writer[i]) {
				writers = append(writers, rows.Writer[i])
			}
			if l.Kind == model.KindInt {
				out[at] = float64(rows.Values.Ints[i])
			} else {
				out[at] = rows.Values.Floats[i]
			}
		}
		if q.After = rows.Next; q.After == nil {
			return out, writers
		}
	}
}

// TestSinglePoints: points that share their rows with no other are read as they were sent.
// They are few, or more than wait at once; in memory, flushed, merged, or read from the log.
func TestSinglePoints(t *testing.T) {
	alone(t)
	for seed := range uint64(3) {
		disk := faultfs.New()
		open := func() *local.Engine {
			return must(local.Open(t.Context(), local.Config{Dir: "/data", FS: disk, CompactFiles: 3}))
		}
		e, s := open(), &singles{random: rand.New(rand.NewPCG(seed, 7)), want: map[string]map[int64]float64{}, writer: map[string]model.WriterID{}}
		if err := e.PutAttempt(t.Context(), model.RunID{1}, model.Attempt{Number: 1}); err != nil {
			t.Fatal(err)
		}
		for round, batches := range []int{1, 3, 300, 20, 400} {
			for range batches {
				must(e.Append(t.Context(), s.batch()))
			}
			if round%2 == 0 {
				s.check(t, e, "in memory")
			}
			must(e.Append(t.Context(), s.batch()))
			if round == 2 {
				disk = disk.Crash(s.random)
				e = open()
				s.check(t, e, "from the log")
				continue
			}
			if err := e.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			s.check(t, e, "flushed")
			if err := e.Compact(t.Context(), true); err != nil {
				t.Fatal(err)
			}
			s.check(t, e, "merged")
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestReadsBesideSinglePoints: a read has all that was acknowledged before it began, while
// points go on to come.
func TestReadsBesideSinglePoints(t *testing.T) {
	e := must(local.Open(t.Context(), local.Config{Dir: "/data", FS: faultfs.New()}))
	defer e.Close()
	if err := e.PutAttempt(t.Context(), model.RunID{1}, model.Attempt{Number: 1}); err != nil {
		t.Fatal(err)
	}
	var acked atomic.Int64
	var reader sync.WaitGroup
	const all = 2000
	reader.Go(func() {
		for least := int64(0); least < all; {
			least = acked.Load()
			list, _, err := e.ListSeries(t.Context(), model.RunID{1}, store.SeriesFilter{Limit: 10})
			if err != nil || least > 0 && (len(list) != 1 || int64(list[0].Count) < least) {
				t.Errorf("%d points were acknowledged and the list is %+v, %v", least, list, err)
				return
			}
		}
	})
	for n := range int64(all) {
		c := model.Column{Series: model.NewSeriesKey("m", "", nil), Kind: model.KindFloat, Floats: []float64{1}}
		must(e.Append(t.Context(), &model.Batch{Run: model.RunID{1}, Writer: model.WriterID{1}, Attempt: 1, Groups: []model.RowGroup{{Unique: model.UniqueTime, TimeNs: []int64{n}, Columns: []model.Column{c}}}}))
		acked.Store(n + 1)
	}
	reader.Wait()
}
