package spool

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/platform"
)

// hole meets zeros where a record begins: nothing yet while the writer lives. Once
// it does not, they are the end only where nothing is behind them: a power loss
// leaves zeros for pages that were not written back, while later ones were.
func (t *Tail) hole() (Progress, error) {
	if progress, err := t.doubt(); progress != End || err != nil {
		return progress, err
	}
	first, ok, err := t.successor()
	switch {
	case err != nil:
		return Wait, err
	case ok && first == t.seq: // only the seal is missing
		return t.finishSegment()
	case ok:
		return t.abandon()
	}
	return t.giveUp(ReasonTorn) // of one record it is what a kill leaves, too
}

// wild meets a length that passes the end of the segment.
func (t *Tail) wild() (Progress, error) {
	if !t.fresh {
		t.drop()
		return again, nil
	}
	return t.quarantine()
}

// quarantine passes over the rest of a segment once it is known where the next one
// starts, or that there is none.
func (t *Tail) quarantine() (Progress, error) {
	_, ok, err := t.successor()
	switch {
	case err != nil:
		return Wait, err
	case ok:
		return t.abandon()
	case !t.dead:
		return t.pause()
	}
	return t.giveUp(ReasonQuarantined)
}

// abandon leaves the rest of a segment; jump counts what is missing.
func (t *Tail) abandon() (Progress, error) {
	if err := t.setAside(); err != nil {
		return Wait, err
	}
	return t.finishSegment()
}

// successor is the first sequence of the next segment whose header can be read.
func (t *Tail) successor() (first uint64, ok bool, err error) {
	numbers, err := segmentNumbers(t.dir)
	if err != nil {
		return 0, false, err
	}
	behind, _ := slices.BinarySearch(numbers, t.number+1)
	_, first, ok = following(t.dir, t.id, numbers[behind:])
	return first, ok, nil
}

// following finds the first of the segments whose header can be read. One of a later
// format begins behind everything.
func following(dir string, id model.WriterID, numbers []uint64) (place int, first uint64, ok bool) {
	for i, n := range numbers {
		h, err := headerOf(dir, id, n)
		if errors.Is(err, errNewer) {
			return i, math.MaxUint64, true
		}
		if err == nil {
			return i, h.First, true
		}
	}
	return 0, 0, false
}

// giveUp passes over the rest of a segment when none behind it tells how many
// records are missing: it counts as many as there were at least. alone is the
// reason where no whole record is among them.
func (t *Tail) giveUp(alone string) (Progress, error) {
	left, err := t.remains()
	if err != nil {
		return Wait, err
	}
	if left.records == 0 {
		return t.finishSegment()
	}
	t.Skip = model.Skipped{First: t.seq, Last: t.seq + left.records - 1, Reason: alone, Points: left.points}
	if left.whole > 0 {
		t.Skip.Reason = ReasonQuarantined
	}
	if t.Skip.Reason == ReasonQuarantined {
		if err := t.setAside(); err != nil {
			return Wait, err
		}
	}
	t.seq += left.records
	_, err = t.finishSegment()
	return Skipped, err
}

// remains is what lies in the rest of a damaged segment.
type remains struct {
	records uint64 // at least: whole ones, and one for all bytes beside them
	whole   uint64
	points  uint64 // of the whole ones
}

func (t *Tail) remains() (out remains, err error) {
	b, err := os.ReadFile(segmentPath(t.dir, t.number))
	if err != nil {
		return out, fmt.Errorf("read damaged segment: %w", err)
	}
	b = b[min(t.off, int64(len(b))):]
	end := len(bytes.TrimRight(b, "\x00"))
	beside := false // the bytes before are of no whole record
	for at := 0; at < end; {
		payload := wholeRecord(b[at:])
		if payload != nil {
			out.records, out.whole, beside = out.records+1, out.whole+1, false
			out.points += pointsOf(payload, uint32(len(payload)))
			at += recordSize(len(payload))
			continue
		}
		if !beside && isSeal(b[at:end]) {
			break
		}
		if !beside {
			out.records, beside = out.records+1, true
		}
		at += pad(1)
	}
	return out, nil
}

// isSeal reports whether the bytes up to the last that is not zero are a seal.
func isSeal(b []byte) bool {
	return len(b) == 4 && binary.LittleEndian.Uint32(b) == sealedMark
}

// wholeRecord is the payload of a record that b begins with, nil where there is none.
func wholeRecord(b []byte) []byte {
	if len(b) < headSize+pad(1) {
		return nil
	}
	length := binary.LittleEndian.Uint32(b)
	if length > uint32(len(b)-headSize) || !beginsRecord(b[headSize:]) {
		return nil
	}
	payload := b[headSize : headSize+length]
	if checksum(b[:4], payload) != binary.LittleEndian.Uint32(b[4:]) {
		return nil
	}
	return payload
}

// beginsRecord looks at the first bytes of a payload: a checksum of every place would
// take minutes.
func beginsRecord(p []byte) bool {
	kind, flags := model.Kind(p[1]), p[2]
	number := kind == model.KindFloat || kind == model.KindInt
	known := kind >= model.KindFloat && kind <= model.KindScatter
	switch p[0] {
	case TypeSeries:
		return known && flags == 0 && p[3] == 0
	case TypePoint:
		return number && flags <= FlagStep|FlagRelative && p[3] == 0
	case TypeBlock:
		return number
	case TypeUpdate:
		return binary.LittleEndian.Uint64(p) == TypeUpdate
	case TypeDocument:
		return known && !number && flags <= FlagStep|FlagRelative && p[3] == 0
	}
	return false
}

// setAside marks a damaged segment: it is kept, not deleted, when its records are
// delivered. Until then it stays, for what was read of it may have to be read again.
func (t *Tail) setAside() error {
	if t.readOnly {
		return nil
	}
	f, err := os.OpenFile(segmentPath(t.dir, t.number)+badSuffix, os.O_WRONLY|os.O_CREATE|platform.NoFollow, 0o600)
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		return fmt.Errorf("set damaged segment aside: %w", err)
	}
	return nil
}

// IsSetAside reports whether a file is a damaged segment that was set aside.
func IsSetAside(path string) bool { return strings.HasSuffix(path, segmentSuffix+badSuffix) }

// discardSegment deletes a segment; a damaged one takes the place of its mark.
func discardSegment(path string) error {
	_, err := os.Lstat(path + badSuffix)
	if err == nil {
		err = os.Rename(path, path+badSuffix)
	} else {
		err = os.Remove(path)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) && !platform.IsInUse(err) {
		return fmt.Errorf("delete acked segment: %w", err)
	}
	return nil
}
