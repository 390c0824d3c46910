package local_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wal/faultfs"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/local"
)

// neighbours are series of one client that reads the clock for each of them: their times
// differ by µs. Each has its own groups.
type neighbours struct {
	run    model.RunID
	random *rand.Rand
	now    int64
	want   []map[int64]float64 // by series
}

func unlimited(fs *faultfs.FS) local.Config {
	c := config(fs)
	c.SeriesPerRunLimit = 0
	return c
}

func newNeighbours(series int) *neighbours {
	n := &neighbours{run: model.RunID{1}, random: rand.New(rand.NewPCG(3, 4)), now: 1_700_000_000_000_000_000}
	for range series {
		n.want = append(n.want, map[int64]float64{})
	}
	return n
}

// append sends calls of all series; the last series misses one call.
func (n *neighbours) append(t *testing.T, e *local.Engine, calls int) {
	t.Helper()
	b := &model.Batch{Run: n.run, Writer: model.WriterID(n.run), Attempt: 1}
	for i := range n.want {
		b.Groups = append(b.Groups, model.RowGroup{Unique: model.UniqueTime, Columns: []model.Column{{Series: model.NewSeriesKey(fmt.Sprint("s", i), "", nil), Kind: model.KindFloat}}})
	}
	for call := range calls {
		n.now += 1_000_000_000 + int64(15_000_000*n.random.NormFloat64())
		at := n.now
		for i := range n.want {
			at += 1_000 + n.random.Int64N(4_000)
			if call == calls/2 && i == len(n.want)-1 {
				continue
			}
			g := &b.Groups[i]
			g.TimeNs, g.Columns[0].Floats = append(g.TimeNs, at), append(g.Columns[0].Floats, float64(call))
			n.want[i][at] = float64(call)
		}
	}
	if ack := must(e.Append(t.Context(), b)); len(ack.Refused) > 0 {
		t.Fatalf("refused: %+v", ack.Refused)
	}
}

func (n *neighbours) points() (sum int) {
	for _, w := range n.want {
		sum += len(w)
	}
	return sum
}

// read is the points of every series.
func (n *neighbours) read(t *testing.T, e *local.Engine) []map[int64]float64 {
	t.Helper()
	list, _, err := e.ListSeries(t.Context(), n.run, store.SeriesFilter{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	out := make([]map[int64]float64, len(n.want))
	for _, s := range list {
		i := 0
		must(fmt.Sscanf(s.Key.Metric, "s%d", &i))
		out[i] = map[int64]float64{}
		rows := must(e.Scan(t.Context(), store.ScanRequest{Run: n.run, Series: s.ID, Axis: model.AxisTime, To: 1 << 62, Limit: 1 << 20}))
		for row, at := range rows.TimeNs {
			out[i][at] = rows.Values.Floats[row]
		}
	}
	return out
}

func segmentBytes(fs *faultfs.FS) (size int) {
	for _, name := range fs.Names() {
		if len(name) > 4 && name[len(name)-4:] == ".kgs" {
			fs.Corrupt(name, func(b []byte) []byte { size += len(b); return b })
		}
	}
	return size
}

// TestTimesOfNeighbours: times that cost 3.2 bytes alone cost half of it beside others, in a
// flush, in groups that a merge copies and in those that it joins, and all come back.
func TestTimesOfNeighbours(t *testing.T) {
	for _, calls := range []int{300, 1200} { // joined, copied
		fs, n := faultfs.New(), newNeighbours(12)
		e := must(local.Open(t.Context(), unlimited(fs)))
		if err := e.PutAttempt(t.Context(), n.run, model.Attempt{Number: 1}); err != nil {
			t.Fatal(err)
		}
		check := func(what string) {
			t.Helper()
			if diff := cmp.Diff(n.want, n.read(t, e)); diff != "" {
				t.Fatalf("%d calls, %s: %s", calls, what, diff)
			}
			if per := float64(segmentBytes(fs)) / float64(n.points()); per > 2.6 {
				t.Errorf("%d calls, %s: %.2f bytes a point", calls, what, per)
			} else {
				t.Logf("%d calls, %s: %.2f bytes a point", calls, what, per)
			}
		}
		for range 5 {
			n.append(t, e, calls)
			if err := e.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			check("flushed")
		}
		for range 2 { // a merge of what a merge wrote, too
			if err := e.Compact(t.Context(), true); err != nil {
				t.Fatal(err)
			}
			check("merged")
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			e = must(local.Open(t.Context(), unlimited(fs)))
			check("opened")
			n.append(t, e, calls)
			if err := e.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestMoreRowsThanAGroup: what many requests leave in memory is in several groups of one
// shape; a read, a flush and a start find all of them.
func TestMoreRowsThanAGroup(t *testing.T) {
	fs, n := faultfs.New(), newNeighbours(3)
	c := unlimited(fs)
	c.WALSegmentBytes = 0
	e := must(local.Open(t.Context(), c))
	if err := e.PutAttempt(t.Context(), n.run, model.Attempt{Number: 1}); err != nil {
		t.Fatal(err)
	}
	check := func(what string) {
		t.Helper()
		for i, got := range n.read(t, e) {
			if !maps.Equal(got, n.want[i]) {
				t.Fatalf("%s: series %d has %d points, not the %d that were sent", what, i, len(got), len(n.want[i]))
			}
		}
	}
	for _, calls := range []int{100, 5_000, 4_000, 9_000, 10} {
		n.append(t, e, calls)
		check("in memory")
	}
	e = must(local.Open(t.Context(), local.Config{Dir: "/data", Marks: "/marks", FS: fs.Crash(rand.New(rand.NewPCG(7, 8)))}))
	check("after a crash")
	if err := e.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	check("flushed")
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestDamagedTimesOfNeighbours flips bits: a point that is read is right, and the ledger of
// the run has as many points as are missing.
func TestDamagedTimesOfNeighbours(t *testing.T) {
	fs, n := faultfs.New(), newNeighbours(5)
	e := must(local.Open(t.Context(), unlimited(fs)))
	if err := e.PutAttempt(t.Context(), n.run, model.Attempt{Number: 1}); err != nil {
		t.Fatal(err)
	}
	n.append(t, e, 200)
	if err := e.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	const file = "/data/segments/0000000000000001.kgs"
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	random, most := rand.New(rand.NewPCG(5, 6)), 0
	for at := 8; at < segmentBytes(fs)-800; at += 7 { // the rest is the index and the directory
		bad := fs.Crash(random)
		bad.Corrupt(file, func(b []byte) []byte { b[at] ^= 1 << random.IntN(8); return b })
		e := must(local.Open(t.Context(), unlimited(bad)))
		missing := n.points()
		for i, got := range n.read(t, e) {
			missing -= len(got)
			maps.DeleteFunc(got, func(at int64, v float64) bool { w, ok := n.want[i][at]; return ok && w == v })
			if len(got) > 0 {
				t.Errorf("byte %d: series %d has points that it never had: %v", at, i, got)
			}
		}
		told := 0
		for _, d := range must(e.RunStats(t.Context(), n.run)).Damaged {
			told += int(d.Points)
		}
		if told != missing {
			t.Errorf("byte %d: %d points are missing, the ledger tells of %d", at, missing, told)
		}
		most = max(most, missing)
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if most <= 200 {
		t.Errorf("at most %d points were lost at once: no times depend on others", most)
	}
}
