package spool

import (
	"errors"
	"fmt"
	"os"

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
// last one stays: its writer may still append, and it tells of a close.
func Prune(dir string, id model.WriterID, mark uint64) error {
	numbers, err := segmentNumbers(dir)
	if err != nil {
		return err
	}
	for i := 0; i+1 < len(numbers); i++ {
		next, err := headerOf(dir, id, numbers[i+1])
		if err != nil || next.First > mark+1 {
			return nil //nolint:nilerr // a damaged segment is the tail's business
		}
		if err := os.Remove(segmentPath(dir, numbers[i])); err != nil && !errors.Is(err, os.ErrNotExist) && !platform.IsInUse(err) {
			return fmt.Errorf("delete acked segment: %w", err)
		}
	}
	return nil
}

// Backlog is what a writer's folder holds beyond a mark.
type Backlog struct {
	Records uint64
	Points  uint64
	Live    bool // its writer is running
	// Renderings are finished videos, and those of a writer that is over.
	Renderings int
}

// Count reads what lies in a writer's folder beyond the mark.
func Count(dir string, id model.WriterID, mark uint64) (Backlog, error) {
	var b Backlog
	t, err := OpenTail(dir, id, mark+1, true)
	if err != nil {
		return b, err
	}
	defer t.Close()
	var r Record
	for {
		progress, err := t.Next(&r)
		switch {
		case err != nil:
			return b, err
		case progress == Wait || progress == End:
			b.Live = progress == Wait
			return b, nil
		case progress == Got:
			b.Records++
			b.Points += uint64(r.Points())
		default:
			b.Records += t.Skip.Last - t.Skip.First + 1
		}
	}
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
