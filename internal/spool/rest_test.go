package spool

import (
	"errors"
	"math/rand/v2"
	"os"
	"testing"
)

// TestRestCountsWhatIsNotRead: at any place of the tail, what was read and the
// rest add up to what the naive reader finds.
func TestRestCountsWhatIsNotRead(t *testing.T) {
	f := testFolder(t)
	w := testWriter(t, f, 1, WriterOptions{Cap: 64 << 20})
	series := []*Series{testSeries(t, w, "a"), testSeries(t, w, "b"), testSeries(t, w, "c")}
	random := rand.New(rand.NewPCG(1, 2))
	log := func() {
		t.Helper()
		for step := range int64(10_000) {
			err := w.Point(series[random.IntN(3)], FlagStep, step, 1, 7)
			if step%50 == 0 {
				n := 1 + random.IntN(3)
				err = w.Block(series[:n], linearBlock(series[:n], 1+random.IntN(60), step, 7))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	total := func() (n uint64) {
		for _, times := range naiveRead(t, w.dir) {
			n += uint64(times)
		}
		return n
	}
	tail, err := OpenTail(w.dir, w.ID, 1, true)
	if err != nil {
		t.Fatal(err)
	}
	defer tail.Close()
	var rest Rest
	var read uint64
	check := func() {
		t.Helper()
		left, known, err := rest.Count(tail)
		if want := total() - read; err != nil || !known || left != want {
			t.Fatalf("%d read, %d left (known %v), want %d, %v", read, left, known, want, err)
		}
	}
	log()
	check()
	for _, more := range []int{1, 3_000, 9_000, 0, 50_000} {
		var r Record
		for range more {
			if progress, err := tail.Next(&r); err != nil || progress == Wait {
				break
			}
			read += uint64(r.Points())
		}
		check()
		if more == 3_000 {
			log()
			check()
		}
	}
	if read != total() {
		t.Errorf("%d of %d were read", read, total())
	}
}

// TestRestOfDamage: a wild length ends a segment, a wild block counts nothing.
func TestRestOfDamage(t *testing.T) {
	f := testFolder(t)
	w := testWriter(t, f, 1, WriterOptions{})
	series := []*Series{testSeries(t, w, "a")}
	for range 3 {
		if err := w.Block(series, linearBlock(series, 4, 0, 7)); err != nil {
			t.Fatal(err)
		}
	}
	block := recordSize(blockSize(&Block{Rows: 4, Series: []uint32{1}, Time: Column{Values: []int64{1}}, Axes: []BlockAxis{{Column: Column{Values: []int64{0}}}}, Values: make([]uint64, 4)}))
	first := headerSize + recordSize(len(series[0].definition))
	path := segmentPath(w.dir, 0)
	count := func() uint64 {
		t.Helper()
		tail, err := OpenTail(w.dir, w.ID, 1, true)
		if err != nil {
			t.Fatal(err)
		}
		defer tail.Close()
		left, known, err := new(Rest).Count(tail)
		if err != nil || !known {
			t.Fatal(known, err)
		}
		return left
	}
	if n := count(); n != 12 {
		t.Fatalf("whole: %d", n)
	}
	patch(t, path, first+headSize+4, []byte{255, 255, 255, 255}) // rows
	if n := count(); n != 8 {
		t.Errorf("with a wild block: %d", n)
	}
	patch(t, path, first+block, []byte{0, 0, 0, 127}) // length
	if n := count(); n != 0 {
		t.Errorf("with a wild length: %d", n)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if n := count(); n != 0 {
		t.Errorf("without a segment: %d", n)
	}
}

// TestCountIsWhatTheTailFinds: behind any mark the heads of records tell what
// reading every record does, narrow values and segments beyond the first too.
func TestCountIsWhatTheTailFinds(t *testing.T) {
	f := testFolder(t)
	w := testWriter(t, f, 1, WriterOptions{Cap: 64 << 20})
	series := []*Series{testSeries(t, w, "a"), testSeries(t, w, "b")}
	const calls = 5_000
	for step := range int64(calls) {
		block := linearBlock(series, 40, step, 1)
		block.Narrow = step%2 == 0
		if err := errors.Join(w.Point(series[0], FlagStep, step, 1_000+step, 7), w.Block(series, block)); err != nil {
			t.Fatal(err)
		}
	}
	for _, mark := range []uint64{0, 1, 2, 3, 700, 2*calls - 1, 2 * calls, 2*calls + 2, 1 << 40} {
		want := Backlog{Live: true}
		oldest := int64(0)
		tail, err := OpenTail(w.dir, w.ID, mark+1, true)
		if err != nil {
			t.Fatal(err)
		}
		var r Record
		for {
			progress, err := tail.Next(&r)
			if err != nil {
				t.Fatal(err)
			}
			if progress != Got {
				break
			}
			want.Records++
			want.Points += uint64(r.Points())
			want.Bytes += uint64(recordSize(len(tail.Payload)))
			if oldest == 0 && r.Points() > 0 {
				oldest = r.loggedNs()
			}
		}
		tail.Close()
		got, err := Count(w.dir, w.ID, mark)
		if err != nil || got != want {
			t.Errorf("behind %d: %+v, want %+v (%v)", mark, got, want, err)
		}
		if at, err := Oldest(w.dir, w.ID, mark); err != nil || at != oldest {
			t.Errorf("behind %d the oldest is of %d, want %d (%v)", mark, at, oldest, err)
		}
	}
	if got, _ := Count(w.dir, w.ID, 0); got.Points != 81*calls {
		t.Errorf("%d points, %d were logged", got.Points, 81*calls)
	}
}
