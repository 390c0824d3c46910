package spool

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/kymogram/kymogram/internal/platform"
)

const (
	// usedFile keeps the last count: the bytes of all segments, and what the disk
	// had free just before.
	usedFile = "used"
	// countEvery is how old a count may be.
	countEvery = time.Minute
)

// Used sums the sizes of all segments, also of those not yet in use or set aside.
func (f *Folder) Used() (int64, error) {
	writers, err := f.Writers()
	if err != nil {
		return 0, err
	}
	total := int64(0)
	for _, id := range writers {
		entries, err := os.ReadDir(f.WriterPath(id))
		if err != nil && !errors.Is(err, os.ErrNotExist) { // delivered meanwhile
			return 0, fmt.Errorf("list segments: %w", err)
		}
		for _, e := range entries {
			switch filepath.Ext(e.Name()) {
			case segmentSuffix, aheadSuffix, nowSuffix, badSuffix:
				if info, err := e.Info(); err == nil {
					total += info.Size()
				}
			}
		}
	}
	return total, nil
}

// Cap is the most that a spool here may use: 8 GiB, or a tenth of the free space.
func (f *Folder) Cap() (int64, error) {
	free, err := platform.FreeBytes(f.Path)
	if err != nil {
		return 0, fmt.Errorf("look for free space: %w", err)
	}
	return min(8<<30, free/10), nil
}

// usage is what a writer knows of the bytes in its folder: thousands of writers may
// wait in it, and to look at each for every segment would cost more than the segment.
type usage struct {
	folder *Folder
	at     time.Time // of the kept count that added is from
	added  int64     // by this writer since
}

// fits reports whether so much more may be taken, and what is used at most. Near
// the limit it counts anew.
func (u *usage) fits(room, limit int64) (used int64, ok bool, err error) {
	if used, known := u.atMost(); known && used+room <= limit-limit/4 {
		return used, true, nil
	}
	used, err = u.count()
	return used, used+room <= limit, err
}

// atMost is the kept count, and what went from the disk since: whoever took that.
func (u *usage) atMost() (used int64, known bool) {
	path := filepath.Join(u.folder.Path, usedFile)
	info, err := os.Stat(path)
	if err != nil {
		return 0, false
	}
	if age := time.Since(info.ModTime()); age < 0 || age > countEvery {
		return 0, false
	}
	doc, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	var free int64
	if n, _ := fmt.Sscanf(string(doc), "%d %d\n", &used, &free); n != 2 || used < 0 {
		return 0, false
	}
	now, err := platform.FreeBytes(u.folder.Path)
	if err != nil {
		return 0, false
	}
	if !info.ModTime().Equal(u.at) {
		u.at, u.added = info.ModTime(), 0
	}
	return used + max(u.added, free-now), true
}

// count looks at every writer, and keeps what it found for all of them.
func (u *usage) count() (int64, error) {
	free, err := platform.FreeBytes(u.folder.Path)
	if err != nil {
		return 0, fmt.Errorf("look for free space: %w", err)
	}
	used, err := u.folder.Used()
	if err == nil {
		_ = replace(filepath.Join(u.folder.Path, usedFile), fmt.Appendf(nil, "%d %d\n", used, free)) // else the next one counts too
	}
	return used, err
}
