package spool

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kymogram/kymogram/internal/model"
)

type readResult struct {
	records  []Record
	skipped  []model.Skipped
	progress Progress
	closed   bool
}

// readAll reads until Wait or End. Decoded slices are copied: the tail reuses
// its buffer.
func readAll(t testing.TB, dir string, id model.WriterID, from uint64) readResult {
	t.Helper()
	tail, err := OpenTail(dir, id, from, false)
	if err != nil {
		t.Fatal(err)
	}
	defer tail.Close()
	return drainTail(t, tail)
}

func drainTail(t testing.TB, tail *Tail) readResult {
	t.Helper()
	var out readResult
	for {
		var r Record
		progress, err := tail.Next(&r)
		if err != nil {
			t.Fatal(err)
		}
		switch progress {
		case Got:
			r.Document = bytes.Clone(r.Document)
			out.records = append(out.records, r)
		case Skipped:
			out.skipped = append(out.skipped, tail.Skip)
		default:
			out.progress, out.closed = progress, tail.Closed
			return out
		}
	}
}

func testPoint(step int64) []byte {
	return AppendPoint(nil, model.KindFloat, FlagStep, 1, step, 1, bits(float64(step)))
}

func testDefinition(t testing.TB) []byte {
	p, err := AppendDefinition(nil, Definition{ID: 1, Kind: model.KindFloat, Metric: "m", Scale: "ML_STEP"})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func steps(records []Record) []int64 {
	var out []int64
	for _, r := range records {
		if r.Type == TypePoint {
			out = append(out, r.Step)
		}
	}
	return out
}

// segmentOf frames a definition and the points from…to-1.
func segmentOf(t testing.TB, number, first uint64, from, to int64) []byte {
	h := goldenHeader()
	h.Number, h.First = number, first
	payloads := [][]byte{testDefinition(t)}
	for s := from; s < to; s++ {
		payloads = append(payloads, testPoint(s))
	}
	return frame(h.encode(), 1024, payloads...)
}

// firstPoint is where the first point of segmentOf starts.
func firstPoint(t testing.TB) int { return headerSize + recordSize(len(testDefinition(t))) }

func TestDamage(t *testing.T) {
	point := func(n int) int { return firstPoint(t) + 40*n }
	tests := []struct {
		name    string
		damage  func(first []byte)
		second  bool
		steps   []int64
		skipped []model.Skipped
		bad     bool
	}{
		{name: "none", damage: func([]byte) {}, second: true, steps: []int64{0, 1, 2, 10, 11}},
		{
			name: "torn payload", damage: func(b []byte) { b[point(1)+30] ^= 1 }, second: true,
			steps: []int64{0, 2, 10, 11}, skipped: []model.Skipped{{First: 3, Last: 3, Reason: ReasonTorn}},
		},
		{
			name: "torn at the end", damage: func(b []byte) { clear(b[point(2)+4 : point(2)+40]) },
			steps: []int64{0, 1}, skipped: []model.Skipped{{First: 4, Last: 4, Reason: ReasonTorn}},
		},
		{
			name: "torn definition", damage: func(b []byte) { b[headerSize+4] ^= 1 },
			steps: nil, skipped: []model.Skipped{{First: 1, Last: 1, Reason: ReasonTorn}, {First: 2, Last: 2, Reason: ReasonTorn, Points: 1}, {First: 3, Last: 3, Reason: ReasonTorn, Points: 1}, {First: 4, Last: 4, Reason: ReasonTorn, Points: 1}},
		},
		{
			name: "impossible length", damage: func(b []byte) { binary.LittleEndian.PutUint32(b[point(1):], 5000) }, second: true, bad: true,
			steps: []int64{0, 10, 11}, skipped: []model.Skipped{{First: 3, Last: 4, Reason: ReasonQuarantined}},
		},
		{
			name: "impossible length at the end", damage: func(b []byte) { binary.LittleEndian.PutUint32(b[point(1):], 1<<31) }, bad: true,
			steps: []int64{0}, skipped: []model.Skipped{{First: 3, Last: 4, Reason: ReasonQuarantined, Points: 1}},
		},
		{
			name: "bad header", damage: func(b []byte) { b[20] ^= 1 }, second: true, bad: true,
			steps: []int64{10, 11}, skipped: []model.Skipped{{First: 1, Last: 4, Reason: ReasonQuarantined}},
		},
		{
			name: "bad magic", damage: func(b []byte) { b[0] = 'X' }, bad: true,
			skipped: []model.Skipped{{First: 1, Last: 4, Reason: ReasonQuarantined, Points: 3}},
		},
		{name: "all zeros", damage: func(b []byte) { clear(b) }},
		{name: "cut short", damage: func(b []byte) { clear(b[point(1):]) }, steps: []int64{0}},
		{
			name: "seal lost", damage: func(b []byte) { clear(b[point(3):]) }, second: true,
			steps: []int64{0, 1, 2, 10, 11},
		},
		{
			name: "last record and seal lost", damage: func(b []byte) { clear(b[point(2):]) }, second: true, bad: true,
			steps: []int64{0, 1, 10, 11}, skipped: []model.Skipped{{First: 4, Last: 4, Reason: ReasonQuarantined}},
		},
		{
			name: "zeros in the middle", damage: func(b []byte) { clear(b[point(0):point(1)]) }, second: true, bad: true,
			steps: []int64{10, 11}, skipped: []model.Skipped{{First: 2, Last: 4, Reason: ReasonQuarantined}},
		},
		{
			name: "zeros in the middle of the last", damage: func(b []byte) { clear(b[point(0):point(1)]) }, bad: true,
			skipped: []model.Skipped{{First: 2, Last: 4, Reason: ReasonQuarantined, Points: 2}},
		},
		{
			name: "zeros before the seal of the last", damage: func(b []byte) { clear(b[point(1):point(3)]) },
			steps: []int64{0}, skipped: []model.Skipped{{First: 3, Last: 3, Reason: ReasonTorn}},
		},
		{
			name: "a record without its head", damage: func(b []byte) { clear(b[point(2) : point(2)+headSize]); clear(b[point(3):]) },
			steps: []int64{0, 1}, skipped: []model.Skipped{{First: 4, Last: 4, Reason: ReasonTorn}},
		},
		{name: "header of another writer", damage: func(b []byte) {
			copy(b, Header{First: 1}.encode())
		}, second: true, bad: true, steps: []int64{10, 11}, skipped: []model.Skipped{{First: 1, Last: 4, Reason: ReasonQuarantined}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			first := segmentOf(t, 0, 1, 0, 3)
			tt.damage(first)
			writeFile(t, segmentPath(dir, 0), first)
			if tt.second {
				writeFile(t, segmentPath(dir, 1), segmentOf(t, 1, 5, 10, 12))
			}
			got := readAll(t, dir, goldenHeader().Writer, 1)
			if diff := cmp.Diff(tt.steps, steps(got.records)); diff != "" {
				t.Errorf("steps (-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(tt.skipped, got.skipped); diff != "" {
				t.Errorf("skipped (-want +got)\n%s", diff)
			}
			// What was read may not have arrived: another deliverer finds the same.
			if diff := cmp.Diff(got, readAll(t, dir, goldenHeader().Writer, 1), cmp.AllowUnexported(readResult{})); diff != "" {
				t.Errorf("read again (-first +again)\n%s", diff)
			}
			_, err := os.Stat(segmentPath(dir, 0) + badSuffix)
			if got.progress != End || (err == nil) != tt.bad {
				t.Errorf("progress %v, set aside: %v", got.progress, err == nil)
			}
		})
	}
}

// TestCutSegment: what a segment that is shorter than its records had is counted.
func TestCutSegment(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, segmentPath(dir, 0), segmentOf(t, 0, 1, 0, 3)[:firstPoint(t)+40])
	writeFile(t, segmentPath(dir, 1), segmentOf(t, 1, 5, 10, 12))
	got := readAll(t, dir, goldenHeader().Writer, 1)
	if diff := cmp.Diff([]int64{0, 10, 11}, steps(got.records)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]model.Skipped{{First: 3, Last: 4, Reason: ReasonTorn}}, got.skipped); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestTooManyNumbers: a length that is wrong may give a record's bytes many numbers.
// The next segment tells its own, and what of it has none that were told is read.
func TestTooManyNumbers(t *testing.T) {
	dir := t.TempDir()
	h := goldenHeader()
	h.Number, h.First = 0, 1
	inside := bytes.Repeat([]byte{8, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1}, 4)
	first := frame(h.encode(), 1024, testDefinition(t), append(make([]byte, 8), inside...), testPoint(1))
	binary.LittleEndian.PutUint32(first[firstPoint(t):], 8)
	writeFile(t, segmentPath(dir, 0), first)
	writeFile(t, segmentPath(dir, 1), segmentOf(t, 1, 4, 10, 16)) // 4 to 10
	got := readAll(t, dir, goldenHeader().Writer, 1)
	var numbers []uint64
	for _, r := range got.records {
		numbers = append(numbers, r.Seq)
	}
	// One by the length, four inside, then the point: 2 to 6 are torn, it is the 7th.
	if diff := cmp.Diff([]uint64{1, 7, 8, 9, 10}, numbers); diff != "" || len(got.skipped) != 5 || got.progress != End {
		t.Errorf("%v, skipped %v (-want +got)\n%s", got.progress, got.skipped, diff)
	}
	if diff := cmp.Diff([]int64{1, 13, 14, 15}, steps(got.records)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestLiveWriter: with the lock held, nothing that is not whole is decided.
func TestLiveWriter(t *testing.T) {
	dir := t.TempDir()
	lock, ok, err := tryLock(filepath.Join(dir, "lock"))
	if err != nil || !ok {
		t.Fatal(err)
	}
	path := segmentPath(dir, 0)
	whole := segmentOf(t, 0, 1, 0, 3)
	torn := bytes.Clone(whole)
	at := firstPoint(t) + 40
	clear(torn[at+4 : at+40])
	writeFile(t, path, torn)
	tail, err := OpenTail(dir, goldenHeader().Writer, 1, false)
	if err != nil {
		t.Fatal(err)
	}
	defer tail.Close()
	if got := drainTail(t, tail); got.progress != Wait || len(steps(got.records)) != 1 {
		t.Fatalf("before the record is whole: %v", got)
	}
	patch(t, path, at, whole[at:at+40])
	if got := drainTail(t, tail); got.progress != Wait || len(steps(got.records)) != 2 {
		t.Fatalf("after it is whole: %v", got)
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	if got := drainTail(t, tail); got.progress != End {
		t.Fatalf("after the writer died: %v", got)
	}
}

// TestLiveDamage: a damaged segment of a live writer is set aside only when it is
// known where its numbers end.
func TestLiveDamage(t *testing.T) {
	for _, header := range []bool{true, false} {
		dir := t.TempDir()
		lock, _, err := tryLock(filepath.Join(dir, "lock"))
		if err != nil {
			t.Fatal(err)
		}
		bad := segmentOf(t, 0, 1, 0, 3)
		if header {
			bad[0] = 0
		} else {
			binary.LittleEndian.PutUint32(bad[firstPoint(t)+40:], 1<<30)
		}
		writeFile(t, segmentPath(dir, 0), bad)
		tail, err := OpenTail(dir, goldenHeader().Writer, 1, false)
		if err != nil {
			t.Fatal(err)
		}
		if got := drainTail(t, tail); got.progress != Wait || len(got.skipped) != 0 {
			t.Errorf("header %v: before the next segment: %v", header, got)
		}
		if got := drainTail(t, tail); got.progress != Wait || len(got.records) != 0 {
			t.Errorf("header %v: the second look: %v", header, got)
		}
		writeFile(t, segmentPath(dir, 1), segmentOf(t, 1, 5, 10, 12))
		got := drainTail(t, tail)
		if len(got.skipped) != 1 || got.skipped[0].Last != 4 || len(steps(got.records)) != 2 {
			t.Errorf("header %v: with the next segment: %v", header, got)
		}
		tail.Close()
		lock.Release()
	}
}

func TestTailStartsAnywhere(t *testing.T) {
	dir := t.TempDir()
	id := goldenHeader().Writer
	writeFile(t, segmentPath(dir, 0), segmentOf(t, 0, 1, 0, 3))
	writeFile(t, segmentPath(dir, 1), segmentOf(t, 1, 5, 10, 12))
	want := [][]int64{{0, 1, 2, 10, 11}, {0, 1, 2, 10, 11}, {1, 2, 10, 11}, {2, 10, 11}, {10, 11}, {10, 11}, {11}, nil}
	for i, steps0 := range want {
		if diff := cmp.Diff(steps0, steps(readAll(t, dir, id, uint64(i+1)).records)); diff != "" {
			t.Errorf("from %d (-want +got)\n%s", i+1, diff)
		}
	}
	if err := Prune(dir, id, 4); err != nil {
		t.Fatal(err)
	}
	got := readAll(t, dir, id, 3)
	if diff := cmp.Diff([]model.Skipped{{First: 3, Last: 4, Reason: ReasonRestored}}, got.skipped); diff != "" {
		t.Errorf("after a server lost acked records (-want +got)\n%s", diff)
	}
}

func TestPruneKeepsWhatIsNotAcked(t *testing.T) {
	dir := t.TempDir()
	id := goldenHeader().Writer
	writeFile(t, segmentPath(dir, 0), segmentOf(t, 0, 1, 0, 3))
	writeFile(t, segmentPath(dir, 1), segmentOf(t, 1, 5, 10, 12))
	for mark, left := range map[uint64]int{0: 2, 3: 2} {
		if err := Prune(dir, id, mark); err != nil {
			t.Fatal(err)
		}
		if n, _ := segmentNumbers(dir); len(n) != left {
			t.Errorf("mark %d leaves %v", mark, n)
		}
	}
	if err := Prune(dir, id, 100); err != nil {
		t.Fatal(err)
	}
	if n, _ := segmentNumbers(dir); len(n) != 1 || n[0] != 1 {
		t.Errorf("the last segment stays, left %v", n)
	}
}

func patch(t *testing.T, path string, at int, b []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(b, int64(at)); err != nil {
		t.Fatal(err)
	}
}

func FuzzDecode(f *testing.F) {
	for _, r := range goldenRecords() {
		f.Add(encodeRecord(f, r))
	}
	f.Add(stretchBlock(modeStretches|ModePerSeries, stretchColumn(2, []int64{7, -1}, 1, 2)...))
	f.Add(stretchBlock(modeStretches|ModePerSeries|ModeRelative|modeRising, stretchColumn(3, []int64{1, 2, 3}, 1, 1, 1)...))
	f.Fuzz(func(t *testing.T, payload []byte) {
		var r Record
		if Decode(payload, &r) != nil || r.Type != TypeBlock {
			return
		}
		// What was taken as a block must give every cell.
		for s := range r.Block.Series {
			for row := range r.Block.Rows {
				r.Block.Time.At(s, row, r.Block.Rows)
				for _, a := range r.Block.Axes {
					a.Column.At(s, row, r.Block.Rows)
				}
			}
		}
		expanded := payload[2]&modeShape == modeStretches
		for i := range r.Block.Axes {
			expanded = expanded || payload[17+8*i]&modeShape == modeStretches
		}
		if again := AppendBlock(nil, &r.Block); len(again) != len(payload) && !expanded {
			t.Errorf("a block of %d bytes becomes %d", len(payload), len(again))
		}
		for i, v := range r.Block.Values {
			if want := lastValue(payload, &r.Block, i); v != want && !math.IsNaN(math.Float64frombits(want)) {
				t.Errorf("value %d is %#x, not %#x", i, v, want)
			}
		}
	})
}

// lastValue reads the value i of a block from the payload's end.
func lastValue(payload []byte, b *Block, i int) uint64 {
	left := len(b.Values) - i
	switch {
	case !b.Narrow:
		return binary.LittleEndian.Uint64(payload[len(payload)-8*left:])
	case b.Kind == model.KindInt:
		return uint64(int32(binary.LittleEndian.Uint32(payload[len(payload)-4*left:])))
	}
	bits := binary.LittleEndian.Uint32(payload[len(payload)-4*left:])
	return math.Float64bits(widen(bits))
}

// widen is the number that the bits of a float32 stand for, by their meaning.
func widen(bits uint32) float64 {
	sign, exponent, fraction := 1-2*float64(bits>>31), int(bits>>23&0xff), float64(bits&0x7fffff)
	switch {
	case exponent == 0xff && fraction == 0:
		return math.Inf(int(sign))
	case exponent == 0xff:
		return math.NaN()
	case exponent == 0:
		return math.Copysign(math.Ldexp(fraction, -149), sign)
	}
	return sign * math.Ldexp(1<<23+fraction, exponent-150)
}

func FuzzTail(f *testing.F) {
	_, segment := golden(f)
	f.Add(segment)
	f.Add(segmentOf(f, 0, 1, 0, 3))
	f.Fuzz(func(t *testing.T, segment []byte) {
		dir := t.TempDir()
		writeFile(t, segmentPath(dir, 0), segment)
		got := readAll(t, dir, goldenHeader().Writer, 1)
		for i := 1; i < len(got.records); i++ {
			if got.records[i].Seq <= got.records[i-1].Seq {
				t.Fatal("sequences do not rise")
			}
		}
	})
}
