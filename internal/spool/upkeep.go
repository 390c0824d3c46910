package spool

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/platform"
)

// Sync makes the segments in a writer's folder durable.
func Sync(dir string) error { return syncSegments(dir) }

func syncSegments(dir string) error {
	numbers, err := segmentNumbers(dir)
	if err != nil {
		return err
	}
	for _, n := range numbers {
		if err := syncFile(segmentPath(dir, n)); err != nil {
			return err
		}
	}
	return syncDir(dir)
}

func syncFile(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil // delivered meanwhile
	}
	if err != nil {
		return fmt.Errorf("sync segment: %w", err)
	}
	defer f.Close()
	if err := platform.SyncData(f); err != nil {
		return fmt.Errorf("sync segment: %w", err)
	}
	return nil
}

// Prune deletes the segments whose records all lie at or before the mark. The
// last one stays: its writer may still append, and the close is read from it.
func Prune(dir string, id model.WriterID, mark uint64) error {
	numbers, err := segmentNumbers(dir)
	if err != nil {
		return err
	}
	for len(numbers) > 1 {
		place, first, ok := following(dir, id, numbers[1:])
		if !ok || first > mark+1 {
			return nil
		}
		for _, n := range numbers[:place+1] { // also those between, whose headers cannot be read
			if err := discardSegment(segmentPath(dir, n)); err != nil {
				return err
			}
		}
		numbers = numbers[place+1:]
	}
	return nil
}

// Backlog is what a writer's folder holds beyond a mark.
type Backlog struct {
	Records uint64
	Points  uint64
	Bytes   uint64 // of the records
	Live    bool   // its writer is running
	// Renderings are finished videos, and those of a writer that is over.
	Renderings int
}

// Count tells what lies in a writer's folder beyond the mark. It looks at the
// heads of records only: gigabytes take a second.
func Count(dir string, id model.WriterID, mark uint64) (Backlog, error) {
	var b Backlog
	numbers, err := segmentNumbers(dir)
	if err != nil {
		return b, err
	}
	next := mark + 1 // the sequence behind the last record
	for i, n := range numbers {
		if i+1 < len(numbers) {
			if h, err := headerOf(dir, id, numbers[i+1]); err == nil && h.First <= mark+1 {
				continue
			}
		}
		h, err := headerOf(dir, id, n)
		if errors.Is(err, errNewer) {
			return b, err
		}
		if err != nil {
			continue // damaged, or delivered meanwhile
		}
		seq := h.First
		err = eachHead(dir, id, n, headerSize, func(payload []byte, length uint32) {
			if seq > mark {
				b.Points += pointsOf(payload, length)
				b.Bytes += uint64(recordSize(int(length)))
			}
			seq++
		})
		if err != nil {
			return b, err
		}
		next = max(next, seq)
	}
	b.Records = next - mark - 1
	b.Live, err = held(filepath.Join(dir, "lock"))
	return b, err
}

// Oldest is when the first record beyond the mark was logged, in Unix ns; 0 when
// there is none that tells.
func Oldest(dir string, id model.WriterID, mark uint64) (int64, error) {
	t, err := OpenTail(dir, id, mark+1, true)
	if err != nil {
		return 0, err
	}
	defer t.Close()
	var r Record
	for {
		progress, err := t.Next(&r)
		if err != nil || progress == Wait || progress == End {
			return 0, err
		}
		if progress == Got {
			if at := r.loggedNs(); at != 0 {
				return at, nil
			}
		}
	}
}

// loggedNs is the time of a record's first row or update.
func (r *Record) loggedNs() int64 {
	switch {
	case r.Type == TypeBlock && r.Block.Rows > 0 && len(r.Block.Series) > 0:
		return r.Block.Time.At(0, 0, r.Block.Rows)
	case r.Type == TypePoint || r.Type == TypeDocument:
		return r.TimeNs
	case r.Type == TypeUpdate && len(r.Updates) > 0:
		return r.Updates[0].TimeNs
	}
	return 0
}

// ReadRecord reads the payload of one record.
func ReadRecord(dir string, id model.WriterID, seq uint64) ([]byte, error) {
	t, err := OpenTail(dir, id, seq, true)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	var r Record
	progress, err := t.Next(&r)
	if err != nil {
		return nil, err
	}
	if progress != Got || r.Seq != seq {
		return nil, fmt.Errorf("record %d of writer %s is not there", seq, id)
	}
	return t.Payload, nil
}
