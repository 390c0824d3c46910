package spool

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kymogram/kymogram/internal/model"
)

// laid is a record where the test put it.
type laid struct {
	seq     uint64
	segment int
	at, end int
	payload []byte
	defines uint32
	uses    uint32
}

// chain is a writer's segments, and what lies in them.
type chain struct {
	segments [][]byte
	first    []uint64
	records  []laid
}

const (
	testPage = 4096
	pagesOf  = 6 // of a segment
)

// testChain lays segments of points and of texts that go over pages. All are sealed
// but the one that is full to its end and the last, behind which a page is left.
func testChain(t testing.TB, random *rand.Rand, many int) *chain {
	t.Helper()
	c := &chain{}
	seq := uint64(1)
	for n := range many {
		h := goldenHeader()
		h.Number, h.First = uint64(n), seq
		b := make([]byte, pagesOf*testPage)
		copy(b, h.encode())
		at, limit := headerSize, len(b)
		if n == many-1 {
			limit -= testPage
		}
		add := func(r laid) bool {
			size := headSize + (len(r.payload)+7)/8*8
			if at+size > limit {
				return false
			}
			binary.LittleEndian.PutUint32(b[at:], uint32(len(r.payload)))
			copy(b[at+headSize:], r.payload)
			binary.LittleEndian.PutUint32(b[at+4:], naiveCRC(slices.Concat(b[at:at+4], r.payload)))
			r.seq, r.segment, r.at, r.end = seq, n, at, at+size
			c.records = append(c.records, r)
			at += size
			seq++
			return true
		}
		add(laid{payload: testDefinition(t), defines: 1})
		text, err := AppendDefinition(nil, Definition{ID: 2, Kind: model.KindText, Metric: "t", Scale: "ML_STEP"})
		if err != nil {
			t.Fatal(err)
		}
		defined := false
		for more := true; more; {
			switch k := random.IntN(20); {
			case k > 0:
				more = add(laid{payload: testPoint(int64(seq)), uses: 1})
			case !defined: // in the middle, so that a page may take it alone
				more, defined = add(laid{payload: text, defines: 2}), true
			default:
				doc := bytes.Repeat([]byte("text\x00\x00\x00\x00"), random.IntN(900))
				more = add(laid{payload: AppendDocument(nil, model.KindText, FlagStep, 2, int64(seq), 1, doc), uses: 2})
			}
		}
		if n == 0 { // to the end exactly
			left := limit - at
			if left > 0 && left < headSize+documentHead {
				last := &c.records[len(c.records)-1]
				at, seq = last.at, seq-1
				c.records = c.records[:len(c.records)-1]
				clear(b[at:])
				left = limit - at
			}
			if left > 0 && !add(laid{payload: AppendDocument(nil, model.KindText, FlagStep, 2, int64(seq), 1, bytes.Repeat([]byte("x"), left-headSize-documentHead)), uses: 2}) {
				t.Fatal("the first segment is not full")
			}
		} else if n < many-1 && at < len(b) {
			binary.LittleEndian.PutUint32(b[at:], sealedMark)
		}
		c.segments, c.first = append(c.segments, b), append(c.first, h.First)
	}
	return c
}

// expectation is what a reader of damaged segments has to give, by the layout alone.
type expectation struct {
	got   []uint64 // sequences
	last  uint64   // the last number that is told of
	exact bool     // … which is the last of all
	lost  []bool   // a segment has whole records that are not given
}

// expect is the naive reader: it knows where every record lies, and takes those whose
// bytes are as they were. It loses the place where the head of one is gone.
func (c *chain) expect(damaged [][]byte, from uint64) expectation {
	same := func(n, at, end int) bool { return bytes.Equal(damaged[n][at:end], c.segments[n][at:end]) }
	out := expectation{lost: make([]bool, len(damaged))}
	start := 0
	for n, first := range c.first {
		if first <= from && same(n, 0, headerSize) {
			start = n
		}
	}
	known := map[uint32]bool{}
	place := make([]bool, len(damaged))
	for n := range damaged {
		place[n] = n >= start && same(n, 0, headerSize)
		if place[n] {
			out.last = c.first[n] - 1
		}
		gap := -1 // where bytes begin that are of no whole record
		for _, r := range c.records {
			if r.segment != n || n < start {
				continue
			}
			place[n] = place[n] && same(n, r.at, r.at+headSize)
			whole := same(n, r.at, r.end)
			switch {
			case place[n]:
				out.last = r.seq
			case whole && gap >= 0: // one record at least was there
				out.last, gap, out.lost[n] = out.last+2, -1, true
			case whole:
				out.last, out.lost[n] = out.last+1, true
			case gap < 0:
				gap = r.at
			}
			if !whole || !place[n] || r.uses != 0 && !known[r.uses] {
				continue
			}
			known[r.defines] = true
			if r.seq >= from {
				out.got = append(out.got, r.seq)
			}
		}
		if gap >= 0 && len(bytes.TrimRight(damaged[n][gap:], "\x00")) > 0 {
			out.last++
		}
	}
	last := len(damaged) - 1
	out.exact = same(last, 0, len(damaged[last]))
	return out
}

// check reads what is in dir from a sequence on, and compares.
func (c *chain) check(t *testing.T, dir string, damaged [][]byte, from uint64) (last uint64, ok bool) {
	t.Helper()
	want := c.expect(damaged, from)
	tail, err := OpenTail(dir, goldenHeader().Writer, from, false)
	if err != nil {
		t.Fatal(err)
	}
	defer tail.Close()
	total := c.records[len(c.records)-1].seq
	var got []uint64
	next := from
	for {
		var r Record
		progress, err := tail.Next(&r)
		if err != nil {
			t.Fatal(err)
		}
		switch progress {
		case Got:
			if r.Seq != next || r.Seq > total || !bytes.Equal(tail.Payload, c.records[r.Seq-1].payload) {
				t.Errorf("from %d: record %d in place of %d", from, r.Seq, next)
				return 0, false
			}
			got = append(got, r.Seq)
			next++
			continue
		case Skipped:
			if tail.Skip.First != next || tail.Skip.Last < next {
				t.Errorf("from %d: %d is skipped as %+v", from, next, tail.Skip)
				return 0, false
			}
			next = tail.Skip.Last + 1
			continue
		case End:
		default:
			t.Errorf("from %d: ends with %v", from, progress)
		}
		break
	}
	if !slices.Equal(want.got, got) {
		t.Errorf("from %d (-want +got)\n%s", from, cmp.Diff(want.got, got))
		return 0, false
	}
	if next-1 != max(want.last, from-1) || next-1 > total || want.exact && next-1 != total {
		t.Errorf("from %d: told up to %d of %d, not to %d (exactly: %v)", from, next-1, total, want.last, want.exact)
		return 0, false
	}
	for n, lost := range want.lost {
		_, err := os.Stat(segmentPath(dir, uint64(n)) + badSuffix)
		untouched := c.holds(damaged, n)
		if lost && err != nil && from == 1 || untouched && err == nil {
			t.Errorf("segment %d has whole records that are not read: %v; set aside: %v", n, lost, err == nil)
			return 0, false
		}
	}
	return next - 1, true
}

// holds reports whether the header and the records of a segment are as they were.
func (c *chain) holds(damaged [][]byte, n int) bool {
	end := headerSize
	for _, r := range c.records {
		if r.segment == n {
			end = r.end
		}
	}
	return bytes.Equal(damaged[n][:end], c.segments[n][:end])
}

// zeroed is a copy in which pages of a size are lost.
func (c *chain) zeroed(size int, pages ...int) [][]byte {
	var out [][]byte
	for _, b := range c.segments {
		out = append(out, bytes.Clone(b))
	}
	each := pagesOf * testPage / size
	for _, p := range pages {
		clear(out[p/each][p%each*size : (p%each+1)*size])
	}
	return out
}

// TestLostPages: whatever pages a power loss takes, every whole record that a reader
// can find the number of is read once, the others are counted, and the bytes of those
// that it passes over are kept.
func TestLostPages(t *testing.T) {
	const many = 3
	random := rand.New(rand.NewPCG(5, 6))
	c := testChain(t, random, many)
	all := many * pagesOf
	type loss struct {
		size  int
		pages []int
	}
	losses := []loss{{testPage, nil}}
	for p := range all {
		losses = append(losses, loss{testPage, []int{p}})
		for q := range p {
			losses = append(losses, loss{testPage, []int{q, p}})
		}
	}
	for range 150 {
		size := []int{512, testPage}[random.IntN(2)]
		many := all * testPage / size
		losses = append(losses, loss{size, random.Perm(many)[:1+random.IntN(many)]})
	}
	f := testFolder(t)
	id := goldenHeader().Writer
	for _, l := range losses {
		damaged := c.zeroed(l.size, l.pages...)
		dir := f.WriterPath(id)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		for n, b := range damaged {
			writeFile(t, segmentPath(dir, uint64(n)), b)
		}
		last, ok := c.check(t, dir, damaged, 1)
		for range 3 { // another deliverer begins where the server's mark is
			_, more := c.check(t, dir, damaged, 1+random.Uint64N(last+1))
			ok = ok && more
		}
		if !ok || !c.checkFreed(t, f, damaged, last) {
			t.Fatalf("pages %v of %d bytes are lost", l.pages, l.size)
		}
	}
}

// checkFreed: nothing is deleted that was not read.
func (c *chain) checkFreed(t *testing.T, f *Folder, damaged [][]byte, last uint64) bool {
	t.Helper()
	id := goldenHeader().Writer
	dir := f.WriterPath(id)
	kept := make([]bool, len(damaged))
	for n := range damaged {
		_, err := os.Stat(segmentPath(dir, uint64(n)) + badSuffix)
		kept[n] = err == nil
	}
	if err := Prune(dir, id, last); err != nil {
		t.Fatal(err)
	}
	if left, err := segmentNumbers(dir); err != nil || !slices.Contains(left, uint64(len(damaged)-1)) {
		t.Errorf("the last segment is gone: %v, %v", left, err)
	}
	if err := f.Remove(id); err != nil {
		t.Fatal(err)
	}
	ok := true
	for n, want := range kept {
		path := filepath.Join(f.Path, "rejected", fmt.Sprintf("%s-%08d.seg.bad", id, n))
		b, err := os.ReadFile(path)
		if want != (err == nil) || want && !bytes.Equal(b, damaged[n]) {
			t.Errorf("segment %d was set aside (%v) and is kept as %d bytes: %v", n, want, len(b), err)
			ok = false
		}
		os.Remove(path)
	}
	return ok
}

// TestLostPagesOfTheLiving: zeros before a living writer's records are its records
// that are not there yet, in every segment.
func TestLostPagesOfTheLiving(t *testing.T) {
	const many = 3
	c := testChain(t, rand.New(rand.NewPCG(7, 8)), many)
	for page := range many * pagesOf {
		if page%pagesOf == 0 {
			continue // the header is there before the name
		}
		dir := t.TempDir()
		lock, ok, err := tryLock(filepath.Join(dir, "lock"))
		if err != nil || !ok {
			t.Fatal(err)
		}
		for n, b := range c.zeroed(testPage, page) {
			writeFile(t, segmentPath(dir, uint64(n)), b)
		}
		tail, err := OpenTail(dir, goldenHeader().Writer, 1, false)
		if err != nil {
			t.Fatal(err)
		}
		got := drainTail(t, tail)
		if again := drainTail(t, tail); got.progress != Wait || again.progress != Wait || len(got.skipped)+len(again.skipped)+len(again.records) != 0 {
			t.Errorf("page %d is not there yet: %v %v, then %v %v %d records", page, got.progress, got.skipped, again.progress, again.skipped, len(again.records))
		}
		for n, b := range c.segments {
			patch(t, segmentPath(dir, uint64(n)), 0, b)
		}
		rest := drainTail(t, tail)
		if read := len(got.records) + len(rest.records); rest.progress != Wait || len(rest.skipped) != 0 || read != len(c.records) {
			t.Errorf("page %d came: %v, %d of %d records, skipped %v", page, rest.progress, read, len(c.records), rest.skipped)
		}
		if err := lock.Release(); err != nil {
			t.Fatal(err)
		}
		if got := drainTail(t, tail); got.progress != End || len(got.records)+len(got.skipped) != 0 {
			t.Errorf("page %d, the end: %v", page, got)
		}
		tail.Close()
	}
}

// TestEveryRecordIsFound: of both languages and all versions, behind bytes that are
// of no record.
func TestEveryRecordIsFound(t *testing.T) {
	for _, name := range []string{"go.seg", "python.seg", "stretches.seg", "version1.seg"} {
		segment, err := os.ReadFile(filepath.Join(goldenDir, name))
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for at := headerSize; at+headSize <= len(segment); found++ {
			length := binary.LittleEndian.Uint32(segment[at:])
			if length == 0 || length == sealedMark {
				break
			}
			if payload := wholeRecord(segment[at:]); len(payload) != int(length) {
				t.Errorf("%s: the record at %d is found as %d bytes of %d", name, at, len(payload), length)
			}
			segment[at+headSize+int(length)-1] ^= 1
			if payload := wholeRecord(segment[at:]); payload != nil {
				t.Errorf("%s: the record at %d is taken as whole", name, at)
			}
			at += headSize + (int(length)+7)/8*8
		}
		if found < 4 {
			t.Errorf("%s: %d records", name, found)
		}
	}
}

// TestAnyDamage: whatever bytes are wrong, every number is told once, in order, and
// the reader comes to an end.
func TestAnyDamage(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 10))
	c := testChain(t, random, 4)
	for round := range 300 {
		dir := t.TempDir()
		for n, b := range c.segments {
			b = bytes.Clone(b)
			for range random.IntN(4) {
				at := random.IntN(len(b))
				if random.IntN(2) == 0 { // a head
					at = c.records[random.IntN(len(c.records))].at + random.IntN(4)
				}
				switch random.IntN(3) {
				case 0:
					b[at] = byte(random.Uint32())
				case 1:
					b[at] ^= 1 << random.IntN(8)
				default:
					clear(b[at:min(at+random.IntN(5000), len(b))])
				}
			}
			if random.IntN(10) == 0 {
				b = b[:random.IntN(len(b))]
			}
			writeFile(t, segmentPath(dir, uint64(n)), b)
		}
		tail, err := OpenTail(dir, goldenHeader().Writer, 1, round%2 == 0)
		if err != nil {
			t.Fatal(err)
		}
		next := uint64(1)
		for progress := Got; progress != End; {
			var r Record
			if progress, err = tail.Next(&r); errors.Is(err, errNewer) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			switch {
			case progress == Got && r.Seq == next:
				next++
			case progress == Skipped && tail.Skip.First == next && tail.Skip.Last >= next:
				next = tail.Skip.Last + 1
			case progress != End:
				t.Fatalf("round %d: %v, record %d, skip %+v in place of %d", round, progress, r.Seq, tail.Skip, next)
			}
		}
		tail.Close()
	}
}
