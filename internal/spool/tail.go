package spool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/platform"
)

// Progress is what [Tail.Next] found.
type Progress int

// The kinds of progress.
const (
	Got     Progress = iota // a record
	Skipped                 // numbers without a record: Tail.Skip
	Wait                    // nothing more yet, the writer lives
	End                     // nothing more ever
)

// The reasons for skipped numbers.
const (
	ReasonTorn        = "torn"
	ReasonQuarantined = "quarantined"
	ReasonRestored    = "restored"
)

// A tail reads ahead: leastAhead after a pause, then more, up to readAhead. One that
// waits then reads a page a time, not megabytes of zeros.
const (
	leastAhead = 4 << 10
	readAhead  = 256 << 10
)

// Tail reads the records of one writer in order, while the writer may still log in
// any process. It is not safe for concurrent use.
type Tail struct {
	// Skip is the range of the last Skipped; Payload the bytes of the last Got.
	Skip    model.Skipped
	Payload []byte
	// Series holds every definition read so far.
	Series map[uint32]Definition
	// Closed: a close record was read.
	Closed bool

	dir      string
	id       model.WriterID
	readOnly bool // leave damaged segments where they are
	from     uint64
	seq      uint64 // of the next record
	dead     bool   // the lock was seen free: what lies there is final
	lock     *os.File

	file   *os.File
	number uint64
	size   int64
	off    int64
	buf    []byte // bytes of the file from bufAt
	bufAt  int64
	fresh  bool // buf was read since the last record was taken from it
	ahead  int  // bytes of the last read, 0 behind a pause
	next   uint64
	walked bool // a segment was left for the next
}

// OpenTail reads the writer in dir from sequence from (1 is the first).
// A read-only tail does not set damaged segments aside.
func OpenTail(dir string, id model.WriterID, from uint64, readOnly bool) (*Tail, error) {
	t := &Tail{dir: dir, id: id, from: max(from, 1), readOnly: readOnly, Series: map[uint32]Definition{}}
	numbers, err := segmentNumbers(dir)
	if err != nil {
		return nil, err
	}
	t.seq = 1
	if len(numbers) > 0 {
		t.next = numbers[0]
	}
	for _, n := range numbers {
		h, err := headerOf(dir, id, n)
		if err != nil || h.First > t.from {
			continue
		}
		t.next, t.seq = n, h.First
	}
	return t, nil
}

// Close closes the open segment and the lock.
func (t *Tail) Close() {
	t.letGo()
	t.leave()
}

func (t *Tail) leave() {
	if t.file != nil {
		t.file.Close()
		t.file = nil
	}
}

// Seq is the sequence of the next record.
func (t *Tail) Seq() uint64 { return max(t.seq, t.from) }

// Segment is the number of the segment that is being read.
func (t *Tail) Segment() uint64 { return t.number }

// Next reads one record into r. Records before the tail's start are read for
// their definitions only.
func (t *Tail) Next(r *Record) (Progress, error) {
	for {
		progress, err := t.step(r)
		if err != nil {
			return Wait, err
		}
		switch {
		case progress == Got && t.seq-1 < t.from, progress == again:
			continue
		case progress == Skipped && t.Skip.Last < t.from:
			continue
		case progress == Skipped && t.Skip.First < t.from:
			t.Skip.First, t.Skip.Points = t.from, 0 // of how many is not known
		}
		return progress, nil
	}
}

// again: something changed, look once more.
const again Progress = -1

func (t *Tail) step(r *Record) (Progress, error) {
	if t.file == nil {
		return t.openNext()
	}
	if t.off+headSize > t.size {
		return t.finishSegment()
	}
	head, err := t.peek(headSize)
	if err != nil {
		return Wait, err
	}
	length := binary.LittleEndian.Uint32(head)
	switch {
	case length == 0:
		return t.hole()
	case length == sealedMark:
		return t.finishSegment()
	case t.off+headSize+(int64(length)+7)&^7 > t.size:
		return t.wild()
	}
	return t.take(r, int(length))
}

// take reads a record of a length that fits.
func (t *Tail) take(r *Record, length int) (Progress, error) {
	raw, err := t.peek(recordSize(length))
	if err != nil {
		return Wait, err
	}
	payload := raw[headSize : headSize+length]
	if checksum(raw[:4], payload) != binary.LittleEndian.Uint32(raw[4:]) {
		return t.torn(length)
	}
	seq := t.seq
	t.advance(length)
	r.Seq = seq
	if err := Decode(payload, r); err != nil {
		// Whole, but from a writer that is wrong: as good as torn.
		return t.skip(seq, ReasonTorn, 0)
	}
	return t.accept(r, payload)
}

func (t *Tail) accept(r *Record, payload []byte) (Progress, error) {
	switch r.Type {
	case TypeSeries:
		t.Series[r.Series] = r.Definition
	case TypeUpdate:
		for _, u := range r.Updates {
			t.Closed = t.Closed || u.Op == model.OpClose
		}
	default:
		if !t.known(r) {
			return t.skip(r.Seq, ReasonTorn, uint64(r.Points()))
		}
	}
	t.Payload = payload
	return Got, nil
}

// known reports whether every series of a record was defined, with its kind.
func (t *Tail) known(r *Record) bool {
	if r.Type != TypeBlock {
		d, ok := t.Series[r.Series]
		return ok && d.Kind == r.Kind
	}
	for _, id := range r.Block.Series {
		if d, ok := t.Series[id]; !ok || d.Kind != r.Kind {
			return false
		}
	}
	return true
}

func (t *Tail) advance(length int) {
	t.off += int64(recordSize(length))
	t.seq++
	t.fresh = false
}

func (t *Tail) skip(seq uint64, reason string, points uint64) (Progress, error) {
	t.Skip = model.Skipped{First: seq, Last: seq, Reason: reason, Points: points}
	return Skipped, nil
}

// torn meets a wrong CRC: not yet while the writer lives, never after that.
func (t *Tail) torn(length int) (Progress, error) {
	if progress, err := t.doubt(); progress != End || err != nil {
		return progress, err
	}
	seq := t.seq
	t.advance(length)
	return t.skip(seq, ReasonTorn, 0)
}

// doubt decides about bytes that are not whole: again after a fresh read, Wait
// while the writer lives, End when what lies there is final.
func (t *Tail) doubt() (Progress, error) {
	if !t.fresh {
		t.drop()
		return again, nil
	}
	if t.dead {
		return End, nil
	}
	return t.pause()
}

// pause is Wait while the writer lives; else everything is looked at once more.
func (t *Tail) pause() (Progress, error) {
	t.drop()
	t.ahead = 0
	if t.dead {
		return End, nil
	}
	if live, err := t.held(); live || err != nil {
		return Wait, err
	}
	t.dead = true
	if !t.readOnly {
		sweepAhead(t.dir, t.id)
	}
	return again, nil
}

// held reports whether the writer has its lock. The file stays open: a tail that
// waits asks several times a second.
func (t *Tail) held() (bool, error) {
	if t.lock == nil {
		f, err := os.Open(filepath.Join(t.dir, "lock"))
		if errors.Is(err, os.ErrNotExist) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("open lock: %w", err)
		}
		t.lock = f
	}
	free, err := platform.TryShare(t.lock)
	if err != nil {
		return false, fmt.Errorf("probe lock %s: %w", t.lock.Name(), err)
	}
	if free {
		t.letGo() // and what we took of it
	}
	return !free, nil
}

func (t *Tail) letGo() {
	if t.lock != nil {
		t.lock.Close()
		t.lock = nil
	}
}

func (t *Tail) drop() { t.buf, t.fresh = t.buf[:0], false }

// peek is the next n bytes of the segment.
func (t *Tail) peek(n int) ([]byte, error) {
	at := t.off - t.bufAt
	if len(t.buf) > 0 && at >= 0 && at+int64(n) <= int64(len(t.buf)) {
		return t.buf[at : at+int64(n)], nil
	}
	t.ahead = min(max(2*t.ahead, leastAhead), readAhead)
	size := min(int64(max(n, t.ahead)), t.size-t.off)
	if int64(cap(t.buf)) < size {
		t.buf = make([]byte, size)
	}
	t.buf, t.bufAt = t.buf[:size], t.off
	if _, err := t.file.ReadAt(t.buf, t.off); err != nil && !errors.Is(err, io.EOF) {
		t.drop()
		return nil, fmt.Errorf("read segment %s: %w", t.file.Name(), err)
	}
	t.fresh = true
	return t.buf[:n], nil
}

// finishSegment leaves a segment that is read to its end.
func (t *Tail) finishSegment() (Progress, error) {
	t.next, t.walked = t.number+1, true
	t.leave()
	return again, nil
}

// openNext opens the next segment that exists.
func (t *Tail) openNext() (Progress, error) {
	numbers, err := segmentNumbers(t.dir)
	if err != nil {
		return Wait, err
	}
	for _, n := range numbers {
		if n >= t.next {
			return t.open(n)
		}
	}
	return t.pause()
}

func (t *Tail) open(number uint64) (Progress, error) {
	f, err := os.Open(segmentPath(t.dir, number))
	if errors.Is(err, os.ErrNotExist) {
		return again, nil // set aside meanwhile
	}
	if err != nil {
		return Wait, fmt.Errorf("open segment: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return Wait, fmt.Errorf("open segment: %w", err)
	}
	t.file, t.number, t.size, t.off = f, number, info.Size(), headerSize
	t.drop()
	h, err := readHeader(f, t.id, number)
	if errors.Is(err, errNewer) {
		t.leave()
		return Wait, err
	}
	if err != nil {
		t.leave()
		t.next = number
		return t.quarantine()
	}
	if h.First < t.seq { // lengths that were wrong gave too many numbers
		t.from, t.seq = max(t.from, t.seq), h.First
	}
	return t.jump(h.First)
}

// jump goes to the sequence that a segment starts with.
func (t *Tail) jump(first uint64) (Progress, error) {
	if first == t.seq {
		return again, nil
	}
	t.Skip = model.Skipped{First: t.seq, Last: first - 1, Reason: t.missing()}
	t.seq = first
	return Skipped, nil
}

// missing says why numbers before a segment are not there: a damaged segment is in
// the folder, one was shorter than its records, or they were delivered to a server
// that has since lost them.
func (t *Tail) missing() string {
	entries, err := os.ReadDir(t.dir)
	for _, e := range entries {
		if err == nil && strings.HasSuffix(e.Name(), badSuffix) {
			return ReasonQuarantined
		}
	}
	switch {
	case t.readOnly:
		return ReasonQuarantined
	case t.walked:
		return ReasonTorn
	}
	return ReasonRestored
}
