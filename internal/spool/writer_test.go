package spool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/kymogram/kymogram/internal/model"
)

func testFolder(t testing.TB) *Folder {
	t.Helper()
	f, err := OpenFolder(filepath.Join(t.TempDir(), "spool"))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func testWriter(t testing.TB, f *Folder, n byte, opts WriterOptions) *Writer {
	t.Helper()
	if opts.Cap == 0 {
		opts.Cap = 1 << 30
	}
	w, err := Create(f, "http://127.0.0.1:7070", model.OpenRequest{Writer: model.WriterID{n}, RunName: "r"}, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

func testSeries(t testing.TB, w *Writer, name string) *Series {
	t.Helper()
	s, err := w.Series(model.KindFloat, model.NewSeriesKey(name, "", nil))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// cell is one value as the naive reader sees it.
type cell struct {
	metric string
	step   int64
	bits   uint64
}

// naiveRead walks the files of a writer with nothing of the package's readers:
// it knows points, blocks of constant time and step, and definitions.
func naiveRead(t testing.TB, dir string) map[cell]int {
	t.Helper()
	out := map[cell]int{}
	paths, err := filepath.Glob(filepath.Join(dir, "*.seg"))
	if err != nil {
		t.Fatal(err)
	}
	sequence := uint64(1)
	for _, p := range paths {
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		if first := binary.LittleEndian.Uint64(b[40:]); first != sequence {
			t.Fatalf("%s starts at %d, want %d", p, first, sequence)
		}
		sequence += naiveSegment(t, b, out)
	}
	return out
}

func naiveSegment(t testing.TB, b []byte, out map[cell]int) (records uint64) {
	names := map[uint32]string{}
	le := binary.LittleEndian
	for at := 64; at+8 <= len(b); records++ {
		n := le.Uint32(b[at:])
		if n == 0 || n == 0xFFFFFFFF {
			break
		}
		p := b[at+8 : at+8+int(n)]
		if crc := naiveCRC(append(slices.Clone(b[at:at+4]), p...)); crc != le.Uint32(b[at+4:]) {
			t.Fatalf("record at %d is torn", at)
		}
		switch p[0] {
		case 1:
			names[le.Uint32(p[4:])] = string(p[8:])
		case 2:
			add(t, out, names, le.Uint32(p[4:]), int64(le.Uint64(p[8:])), le.Uint64(p[24:]))
		case 3:
			naiveBlock(t, p, names, out)
		}
		at += 8 + (int(n)+7)/8*8
	}
	return records
}

// naiveBlock reads blocks with a constant time and one linear step axis.
func naiveBlock(t testing.TB, p []byte, names map[uint32]string, out map[cell]int) {
	le := binary.LittleEndian
	rows, series := int(le.Uint32(p[4:])), int(le.Uint32(p[8:]))
	ids := p[24:]
	values := ids[(4*series+7)/8*8:]
	start := int64(le.Uint64(values[8:]))
	values = values[16:]
	for s := range series {
		for r := range rows {
			add(t, out, names, le.Uint32(ids[4*s:]), start+int64(r), le.Uint64(values[8*(s*rows+r):]))
		}
	}
}

func add(t testing.TB, out map[cell]int, names map[uint32]string, id uint32, step int64, bits uint64) {
	name, ok := names[id]
	if !ok {
		t.Fatalf("series %d is not defined in its segment", id)
	}
	var metric string
	if _, err := fmt.Sscanf(name, `{"metric":"%s`, &metric); err != nil {
		t.Fatal(err)
	}
	metric, _, _ = cutQuote(metric)
	out[cell{metric, step, bits}]++
}

func cutQuote(s string) (string, string, bool) {
	for i := range s {
		if s[i] == '"' {
			return s[:i], s[i:], true
		}
	}
	return s, "", false
}

// tailRead reads the same through the package.
func tailRead(t testing.TB, dir string, id model.WriterID) (map[cell]int, readResult) {
	t.Helper()
	tail, err := OpenTail(dir, id, 1, true)
	if err != nil {
		t.Fatal(err)
	}
	defer tail.Close()
	res := drainTail(t, tail)
	out := map[cell]int{}
	for _, r := range res.records {
		switch r.Type {
		case TypePoint:
			out[cell{tail.Series[r.Series].Metric, r.Step, r.Bits}]++
		case TypeBlock:
			b := r.Block
			for s, id := range b.Series {
				for row := range b.Rows {
					out[cell{tail.Series[id].Metric, b.Axes[0].Column.At(s, row, b.Rows), b.Values[s*b.Rows+row]}]++
				}
			}
		}
	}
	return out, res
}

func linearBlock(series []*Series, rows int, step int64, value uint64) *Block {
	b := &Block{Kind: model.KindFloat, Rows: rows, Time: Column{ModeConstant, []int64{1}}, Axes: []BlockAxis{{AxisStep, Column{ModeLinear, []int64{step}}}}}
	for i, s := range series {
		b.Series = append(b.Series, s.ID)
		for r := range rows {
			b.Values = append(b.Values, value+uint64(i*rows+r))
		}
	}
	return b
}

// TestWriterAgainstNaiveReader: whatever is appended, mapped or not, is read by
// the package and by the naive reader exactly once.
func TestWriterAgainstNaiveReader(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		base, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			rt.Fatal(err)
		}
		f, err := OpenFolder(base)
		if err != nil {
			rt.Fatal(err)
		}
		if rapid.Bool().Draw(rt, "unmapped") {
			f.FS.Kind = FSNetwork
		}
		w := testWriter(t, f, 1, WriterOptions{Cap: 64 << 20})
		var series []*Series
		want := map[cell]int{}
		for range rapid.IntRange(1, 40).Draw(rt, "calls") {
			if len(series) == 0 || rapid.IntRange(0, 3).Draw(rt, "new") == 0 {
				series = append(series, testSeries(t, w, fmt.Sprintf("s%d", len(series))))
			}
			rows := rapid.SampledFrom([]int{1, 1, 1, 2, 50, 600}).Draw(rt, "rows")
			step, value := rapid.Int64Range(0, 1<<40).Draw(rt, "step"), rapid.Uint64().Draw(rt, "value")
			if rows == 1 {
				i := rapid.IntRange(0, len(series)-1).Draw(rt, "series")
				want[cell{fmt.Sprintf("s%d", i), step, value}]++
				err = w.Point(series[i], FlagStep, step, 1, value)
			} else {
				for i := range series {
					for r := range rows {
						want[cell{fmt.Sprintf("s%d", i), step + int64(r), value + uint64(i*rows+r)}]++
					}
				}
				err = w.Block(series, linearBlock(series, rows, step, value))
			}
			if err != nil {
				rt.Fatal(err)
			}
		}
		last := w.Last()
		got, live := tailRead(t, w.dir, w.ID)
		if live.progress != Wait || uint64(len(live.records)) != last {
			rt.Fatalf("live: %v after %d records of %d", live.progress, len(live.records), last)
		}
		if !maps.Equal(got, want) || !maps.Equal(naiveRead(t, w.dir), want) {
			rt.Fatal("the readers disagree with what was logged")
		}
		if _, err := w.Close(); err != nil {
			rt.Fatal(err)
		}
		if _, dead := tailRead(t, w.dir, w.ID); dead.progress != End {
			rt.Fatal("a closed writer is not at its end")
		}
	})
}

// TestConcurrentAppends: many goroutines, across segments, with a reader behind.
func TestConcurrentAppends(t *testing.T) {
	const workers, each = 8, 20_000
	for _, kind := range []FSKind{FSLocal, FSNetwork} {
		f := testFolder(t)
		f.FS.Kind = kind
		w := testWriter(t, f, 1, WriterOptions{})
		var group sync.WaitGroup
		shared := testSeries(t, w, "shared")
		for worker := range workers {
			group.Add(1)
			go func() {
				defer group.Done()
				own := testSeries(t, w, fmt.Sprintf("w%d", worker))
				for i := range each / 2 {
					if err := errors.Join(w.Point(own, FlagStep, int64(i), 1, 0), w.Point(shared, FlagStep, int64(worker*each+i), 1, 0)); err != nil {
						t.Error(err)
						return
					}
				}
			}()
		}
		tail, err := OpenTail(w.dir, w.ID, 1, false)
		if err != nil {
			t.Fatal(err)
		}
		finished := make(chan struct{})
		go func() { group.Wait(); w.Close(); close(finished) }()
		points := 0
		for done := false; !done; {
			res := drainTail(t, tail)
			points += len(steps(res.records))
			done = res.progress == End
			if len(res.skipped) > 0 {
				t.Fatalf("skipped %v", res.skipped)
			}
		}
		tail.Close()
		<-finished
		if points != workers*each {
			t.Errorf("%s: read %d of %d points", kind, points, workers*each)
		}
		got := naiveRead(t, w.dir)
		if len(got) != workers*each {
			t.Errorf("%s: %d different points of %d", kind, len(got), workers*each)
		}
	}
}

// TestFullSpool: past the cap points wait in memory, then the newest are dropped
// and counted; when there is room again everything kept arrives in order.
func TestFullSpool(t *testing.T) {
	f := testFolder(t)
	now := time.Unix(1, 0)
	w := testWriter(t, f, 1, WriterOptions{Cap: 700 << 10, MemoryBytes: 120 * 1000, Now: func() time.Time { return now }})
	s := testSeries(t, w, "m")
	const total = 20_000
	for i := range total {
		if err := w.Point(s, FlagStep, int64(i), 1, 0); err != nil {
			t.Fatal(err)
		}
	}
	over := w.Drain()
	if over.Waiting == 0 || over.Dropped == 0 {
		t.Fatalf("the spool of 700 KiB took %d points: %+v", total, over)
	}
	w.cap = 1 << 30
	now = now.Add(time.Second)
	if err := w.Point(s, FlagStep, total, 1, 0); err != nil {
		t.Fatal(err)
	}
	got := readAll(t, w.dir, w.ID, 1)
	want := make([]int64, 0, total)
	for i := range int64(total) - int64(over.Dropped) {
		want = append(want, i)
	}
	if diff := cmp.Diff(append(want, total), steps(got.records)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	var reported uint64
	for _, r := range got.records {
		for _, u := range r.Updates {
			reported += u.Count
		}
	}
	if reported != over.Dropped {
		t.Errorf("%d dropped, %d reported", over.Dropped, reported)
	}
}

// TestFullSpoolEnds: a writer that ends at the cap says how many points it lost,
// those that waited in memory among them, and how the run ended.
func TestFullSpoolEnds(t *testing.T) {
	w := testWriter(t, testFolder(t), 1, WriterOptions{Cap: 700 << 10, MemoryBytes: 120 * 1000})
	s := testSeries(t, w, "m")
	const total = 20_000
	for i := range total {
		if err := w.Point(s, FlagStep, int64(i), 1, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Updates([]model.Update{{Op: model.OpClose, Text: "finished"}}); err != nil {
		t.Fatal(err)
	}
	over, err := w.Close()
	if err != nil || over.Points == 0 || over.Dropped == 0 {
		t.Fatalf("%+v, %v", over, err)
	}
	got := readAll(t, w.dir, w.ID, 1)
	var updates []model.Update
	for _, r := range got.records {
		updates = append(updates, r.Updates...)
	}
	lost := over.Points + over.Dropped
	if n := uint64(len(steps(got.records))); n+lost != total {
		t.Errorf("%d points stored and %d lost of %d", n, lost, total)
	}
	if len(updates) != 2 || updates[0].Op != model.OpDropped || updates[0].Count != lost || updates[1].Op != model.OpClose {
		t.Errorf("%d were lost: %+v", lost, updates)
	}
	if after := w.Lost(); after.Waiting.Total() != 0 || after.Dropped.Total() != lost {
		t.Errorf("%+v", after)
	}
	if used, err := w.folder.Used(); err != nil || used > 700<<10+lastRoom {
		t.Errorf("%d bytes used, %v", used, err)
	}
}

func TestSegmentsGrow(t *testing.T) {
	w := testWriter(t, testFolder(t), 1, WriterOptions{Cap: 8 << 20})
	s := testSeries(t, w, "m")
	for i := range 100_000 {
		if err := w.Point(s, FlagStep, int64(i), 1, 0); err != nil {
			t.Fatal(err)
		}
	}
	var sizes []int64
	numbers, _ := segmentNumbers(w.dir)
	for _, n := range numbers {
		info, err := os.Stat(segmentPath(w.dir, n))
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, info.Size()>>10)
	}
	if diff := cmp.Diff([]int64{256, 512, 1024, 1024, 1024, 1024}, sizes[:min(6, len(sizes))]); diff != "" {
		t.Errorf("sizes in KiB (-want +got)\n%s", diff)
	}
}

func TestLimits(t *testing.T) {
	w := testWriter(t, testFolder(t), 1, WriterOptions{})
	text, err := w.Series(model.KindText, model.NewSeriesKey("note", "", nil))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Document(text, 0, 0, 1, make([]byte, 2<<20)); model.CodeOf(err) != model.CodeTooLarge {
		t.Errorf("a text of 2 MiB: %v", err)
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.Point(testSeries(t, w, "m"), 0, 0, 1, 0); !errors.Is(err, ErrClosed) {
		t.Errorf("after close: %v", err)
	}
	f := testFolder(t)
	if _, err := Create(f, "", model.OpenRequest{Writer: model.WriterID{9}}, WriterOptions{Cap: 1000}); model.CodeOf(err) != model.CodeDiskFull {
		t.Errorf("no room: %v", err)
	}
	if ids, _ := f.Writers(); len(ids) != 0 {
		t.Errorf("a writer that could not start left %v", ids)
	}
}
