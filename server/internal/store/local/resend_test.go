package local_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wal/faultfs"
	"github.com/kymogram/kymogram/server/internal/store/local"
)

// resender sends points of a run as a foreign client does: row n always has the same time
// and values.
type resender struct {
	e      *local.Engine
	random *rand.Rand
	alone  bool // nothing is flushed or merged meanwhile
}

func (r resender) send(t *testing.T, run byte, from, to int) {
	t.Helper()
	id := model.RunID{run}
	if err := r.e.PutAttempt(t.Context(), id, model.Attempt{Number: 1}); err != nil {
		t.Fatal(err)
	}
	for at := from; at < to; {
		g := model.RowGroup{Unique: model.UniqueTime}
		a, b := model.Column{Series: model.NewSeriesKey("a", "", nil), Kind: model.KindFloat}, model.Column{Series: model.NewSeriesKey("b", "", nil), Kind: model.KindFloat}
		for end := min(to, at+200+r.random.IntN(1500)); at < end; at++ {
			noise := rand.New(rand.NewPCG(uint64(run), uint64(at)))
			g.TimeNs = append(g.TimeNs, int64(at)*1_000_000_000+noise.Int64N(1000))
			a.Floats, b.Floats = append(a.Floats, noise.NormFloat64()), append(b.Floats, noise.NormFloat64())
		}
		g.Columns = []model.Column{a, b}
		must(r.e.Append(t.Context(), &model.Batch{Run: id, Writer: model.WriterID(id), Attempt: 1, Groups: []model.RowGroup{g}}))
		if !r.alone && r.random.IntN(4) == 0 {
			if err := r.e.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := r.e.Compact(t.Context(), false); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// minutes lets some go by; in each the engine does what it does by itself.
func minutes(t *testing.T, e *local.Engine, now *time.Time, n int) {
	t.Helper()
	for range n {
		*now = now.Add(time.Minute)
		if err := e.Compact(t.Context(), false); err != nil {
			t.Fatal(err)
		}
	}
}

// TestResentByItself sends points again: all of them, a part, one run of several, in another
// cut. Nobody asks for a merge. Soon the store takes at most 1.05 of what one copy takes. A
// count of every write says that it wrote at most four times what it kept and left out.
func TestResentByItself(t *testing.T) {
	const rows, largest = 40_000, 1 << 20
	type span struct {
		run      byte
		from, to int
	}
	all := []span{{1, 0, rows}, {2, 0, rows}, {3, 0, rows}}
	stored := func(t *testing.T, spans []span) (there int64, points uint64) {
		t.Helper()
		fs, now := newCounting(), time.Now()
		e := must(local.Open(t.Context(), local.Config{Dir: t.TempDir(), FS: fs, SegmentBytes: largest, Now: func() time.Time { return now }}))
		defer e.Close()
		r := resender{e, rand.New(rand.NewPCG(uint64(len(spans)), 7)), false}
		for _, s := range spans {
			r.send(t, s.run, s.from, s.to)
		}
		if err := e.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		minutes(t, e, &now, 3)
		there, most := fs.there()
		stats := e.Stats()
		t.Logf("%d bytes of %d segments, largest %d, written %.2f times what is kept", there, len(fs.sizes), most, float64(fs.written)/float64(stats.KeptBytes))
		if fs.written > 4*stats.KeptBytes || most > largest {
			t.Errorf("%d bytes written for %d, the largest segment has %d", fs.written, stats.KeptBytes, most)
		}
		return there, stats.Points
	}
	once, points := stored(t, all)
	for name, again := range map[string][]span{
		"all of it": all, "twice more": append(all[:3:3], all...), "a part of a run": {{2, 10_000, 30_000}}, "a run": {{3, 0, rows}},
		"in another order": {{3, 20_000, rows}, {1, 0, rows}, {3, 0, 20_000}, {2, 0, rows}},
	} {
		if testing.Short() && name != "a part of a run" { // as the race detector runs it, to which all are the same
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			twice, still := stored(t, append(all[:3:3], again...))
			if float64(twice) > 1.05*float64(once) || float64(still) > 1.05*float64(points) {
				t.Errorf("%d bytes and %d points, once %d and %d", twice, still, once, points)
			}
		})
	}
}

// TestResentInOtherCuts sends two segments, then a stretch again that ends or begins in one of
// them, a twelfth from its end. Half a minute later all of it is kept once.
func TestResentInOtherCuts(t *testing.T) {
	const rows, part = 120_000, 10_000
	stretches := [][2]int{{rows - part, rows + part}, {0, rows + part}, {rows - part, 2 * rows}, {part, rows}}
	if testing.Short() { // as the race detector runs it, to which all are the same
		stretches = stretches[:1]
	}
	for _, again := range stretches {
		now := time.Now()
		e := must(local.Open(t.Context(), local.Config{Dir: "/data", FS: faultfs.New(), Now: func() time.Time { return now }}))
		r := resender{e, rand.New(rand.NewPCG(8, 9)), true}
		for _, span := range [][2]int{{0, rows}, {rows, 2 * rows}, again} {
			r.send(t, 1, span[0], span[1])
			if err := e.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		minutes(t, e, &now, 2)
		if got := e.Stats().Points; got != 4*rows {
			t.Errorf("rows %v again: %d points are kept, want %d", again, got, 4*rows)
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestResentInBetween: a value that came between two that are the same stands no longer, and
// each one's copy is in a segment of its own. Whatever is left out, the last one wins.
func TestResentInBetween(t *testing.T) {
	now := time.Now()
	e := must(local.Open(t.Context(), local.Config{Dir: t.TempDir(), FS: newCounting(), SegmentBytes: 1 << 20, Now: func() time.Time { return now }}))
	defer e.Close()
	run := model.RunID{1}
	if err := e.PutAttempt(t.Context(), run, model.Attempt{Number: 1}); err != nil {
		t.Fatal(err)
	}
	const rows = 3000
	for _, round := range []float64{1, 2, 1, 1, 3, 2, 1, 2, 2} {
		g := model.RowGroup{Unique: model.UniqueTime}
		col := model.Column{Series: model.NewSeriesKey("x", "", nil), Kind: model.KindFloat}
		for i := range rows {
			g.TimeNs, col.Floats = append(g.TimeNs, int64(i)*1_000_003), append(col.Floats, round*float64(i%977)/7)
		}
		g.Columns = []model.Column{col}
		must(e.Append(t.Context(), &model.Batch{Run: run, Writer: model.WriterID(run), Attempt: 1, Groups: []model.RowGroup{g}}))
		if err := e.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		minutes(t, e, &now, 2)
		got := pages(t, e, rand.New(rand.NewPCG(1, 1)), "x")
		if len(got) != rows {
			t.Fatalf("%d values", len(got))
		}
		for i, v := range got {
			if v != round*float64(i%977)/7 {
				t.Fatalf("after %v: value %d is %v", round, i, v)
			}
		}
	}
}

// resentOn leaves a store on a disk that has rows twice, and what its curve says.
func resentOn(t *testing.T, fs *faultfs.FS, now *time.Time) (*local.Engine, []float64) {
	t.Helper()
	e := must(local.Open(t.Context(), local.Config{Dir: "/data", FS: fs, SegmentBytes: 1 << 20, Now: func() time.Time { return *now }}))
	r := resender{e, rand.New(rand.NewPCG(3, 4)), true}
	for range 2 {
		r.send(t, 1, 0, 6000)
		if err := e.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	*now = now.Add(time.Minute)
	return e, pages(t, e, r.random, "a")
}

// TestCrashWhileRepeatsAreLeftOut crashes before every operation on the disk while repeats
// are left out, and fails each of them. The curve is the same after a start, and in the end
// one copy is there.
func TestCrashWhileRepeatsAreLeftOut(t *testing.T) {
	now := time.Now()
	fs, random := faultfs.New(), rand.New(rand.NewPCG(5, 6))
	e, want := resentOn(t, fs, &now)
	var clones []*faultfs.FS
	fs.CloneAt(func(faultfs.Op) *rand.Rand { return random }, func(c *faultfs.FS) { clones = append(clones, c) })
	before := e.Stats().Points
	if err := e.Compact(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	fs.CloneAt(nil, nil)
	once := e.Stats().Points
	if once*10 > before*6 || len(clones) < 10 {
		t.Fatalf("%d points of %d, %d clones", once, before, len(clones))
	}
	check := func(disk *faultfs.FS, what string, n int) {
		t.Helper()
		e := must(local.Open(t.Context(), local.Config{Dir: "/data", FS: disk, SegmentBytes: 1 << 20, Now: func() time.Time { return now }}))
		defer e.Close()
		for stage := range 2 {
			if got := pages(t, e, random, "a"); !slices.Equal(got, want) || e.Stats().Quarantined > 0 {
				t.Fatalf("%s %d, stage %d: %d values of %d, %d damaged", what, n, stage, len(got), len(want), e.Stats().Quarantined)
			}
			minutes(t, e, &now, 1)
		}
		if got := e.Stats().Points; got != once {
			t.Errorf("%s %d: %d points are left, want %d", what, n, got, once)
		}
	}
	for n, c := range clones {
		check(c, "clone", n)
	}
	for n := range len(clones) {
		fs := faultfs.New()
		e, _ := resentOn(t, fs, &now)
		left := n
		fs.Hook(func(op faultfs.Op, _ string) error {
			if op == faultfs.OpRead {
				return nil
			}
			if left--; left == -1 {
				return errors.New("no such luck")
			}
			return nil
		})
		_ = e.Compact(t.Context(), false)
		fs.Hook(nil)
		_ = e.Close()
		check(fs.Crash(random), "operation", n)
	}
}

// TestDiskFullWhileRepeatsAreLeftOut: a disk that fills in a merge leaves the points, the
// unfinished file goes, and with room the merge is made.
func TestDiskFullWhileRepeatsAreLeftOut(t *testing.T) {
	now := time.Now()
	fs := faultfs.New()
	e, want := resentOn(t, fs, &now)
	defer e.Close()
	for _, room := range []int64{1, 1000, 20_000} {
		used := fs.Used()
		fs.Limit(used + room)
		err := e.Compact(t.Context(), false)
		if fs.Used() > used || err == nil && room == 1 {
			t.Errorf("%d bytes of room: %d bytes more are used, %v", room, fs.Used()-used, err)
		}
		if got := pages(t, e, rand.New(rand.NewPCG(1, 2)), "a"); !slices.Equal(got, want) {
			t.Fatalf("%d bytes of room: %d values of %d", room, len(got), len(want))
		}
	}
	fs.Limit(0)
	before := e.Stats().Points
	if err := e.Compact(t.Context(), false); err != nil || e.Stats().Points != 12_000 {
		t.Errorf("%d points of %d are left: %v", e.Stats().Points, before, err)
	}
}

// TestResentInOtherGroups: what was sent as rows of three series comes again with a flush for
// each series, or with one series behind the others. Its points are still kept once.
func TestResentInOtherGroups(t *testing.T) {
	const rows, request = 40_000, 2000
	for name, way := range map[string]struct {
		apart  bool
		behind int // rows that the last series is behind
	}{"each by itself": {apart: true}, "one behind the others": {behind: 300}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := time.Now()
			e := must(local.Open(t.Context(), local.Config{Dir: "/data", FS: faultfs.New(), Now: func() time.Time { return now }}))
			defer e.Close()
			if err := e.PutAttempt(t.Context(), model.RunID{1}, model.Attempt{Number: 1}); err != nil {
				t.Fatal(err)
			}
			upkeep := func() {
				t.Helper()
				if err := errors.Join(e.Flush(t.Context()), e.Compact(t.Context(), false)); err != nil {
					t.Fatal(err)
				}
			}
			send := func(size int, apart bool, behind int) {
				for at := 0; at < rows; at += size {
					for _, g := range threeSeries(at, min(at+size, rows), rows, apart, behind) {
						must(e.Append(t.Context(), &model.Batch{Run: model.RunID{1}, Writer: model.WriterID{1}, Attempt: 1, Groups: []model.RowGroup{g}}))
						if apart {
							upkeep()
						}
					}
					upkeep()
				}
			}
			send(request, false, 0)
			send(request-7, way.apart, way.behind)
			minutes(t, e, &now, 3)
			if got := e.Stats().Points; got < 3*rows || got > 3*rows*105/100 {
				t.Errorf("%d points are kept of %d that were sent twice", got, 3*rows)
			}
		})
	}
}

// threeSeries are rows of three series that have the same times, but for the last one, which
// may be behind the others, or which have groups of their own.
func threeSeries(from, to, all int, apart bool, behind int) (out []model.RowGroup) {
	for n, name := range []string{"a", "b", "c"} {
		g := model.RowGroup{Unique: model.UniqueTime, Columns: []model.Column{{Series: model.NewSeriesKey(name, "", nil), Kind: model.KindFloat}}}
		shift := 0
		if n == 2 {
			shift = behind
		}
		for i := from; i < to; i++ {
			row := (i + shift) % all
			g.TimeNs = append(g.TimeNs, int64(row)*1000+int64(row*7919%977))
			g.Columns[0].Floats = append(g.Columns[0].Floats, float64(row*7919%10_007)/7+float64(n))
		}
		if len(out) > 0 && !apart && shift == 0 {
			out[0].Columns = append(out[0].Columns, g.Columns...)
			continue
		}
		out = append(out, g)
	}
	return out
}
