package segment

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"

	"github.com/kymogram/kymogram/internal/wal"
)

// The list names every segment that must be there: one that is deleted leaves no
// other trace. It may lack the newest; it never names one that a merge replaced. It
// lies in several folders, so that it is not lost with the segments. The newest of them
// counts: a later list names a higher number, since a number is never given twice. One
// that is missing or damaged says nothing, and the next start writes it anew.
const (
	listName   = "LIST"
	listFormat = "%08x\n%v\n" // CRC32C of the numbers, and they
	maxList    = 16 << 20
)

// ErrMissing is what is wrong with a segment that the list names.
var ErrMissing = errors.New("the file is missing")

// errList is a list that says nothing.
var errList = errors.New("the list of segments is damaged")

// Lists are what the lists of some folders say.
type Lists struct {
	IDs     []uint64 // the segments that must be there, or a merge replaced
	Damaged []string // files
	good    []byte   // the newest that says something, nil: none does
}

// Err is what the damage of a list means, nil without one.
func (l *Lists) Err() error {
	switch {
	case len(l.Damaged) == 0:
		return nil
	case l.good != nil:
		return fmt.Errorf("%w; its other copy is used. The next start writes it anew, or `kymogram data repair --yes`", errList)
	}
	return fmt.Errorf("%w, and there is no other copy: a segment that is missing would not be noticed. The next start writes the list anew, by the segments that are there", errList)
}

// Mends says that another list can take the place of those that are damaged.
func (l *Lists) Mends() bool { return len(l.Damaged) > 0 && l.good != nil }

// Mend writes it there.
func (l *Lists) Mend(fs wal.FS) (err error) {
	for _, name := range l.Damaged {
		err = errors.Join(err, replace(fs, filepath.Dir(name), l.good))
	}
	return err
}

// listing is the list in memory and on disk.
type listing struct {
	fs     wal.FS
	dirs   []string
	logger *slog.Logger
	mu     sync.Mutex
	ids    map[uint64]bool
}

// change updates the list. It is durable on return: one that still named what a merge
// replaced would report it as missing.
func (l *listing) change(come uint64, leave ...*File) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ids[come] = true
	for _, s := range leave {
		delete(l.ids, s.ID)
	}
	if err := l.write(); err != nil {
		l.logger.Warn("the list of segments is not written: a segment that is deleted would not be noticed", "err", err)
		for _, dir := range l.dirs {
			_ = l.fs.Remove(filepath.Join(dir, listName)) // no list is better than a wrong one
		}
	}
}

// settle writes the lists that are not as they should be, at a start.
func (l *listing) settle() {
	want := slices.Sorted(maps.Keys(l.ids))
	for _, dir := range l.dirs {
		have := Listed(l.fs, dir)
		if slices.Sort(have.IDs); have.good != nil && slices.Equal(have.IDs, want) {
			continue
		}
		if err := l.writeTo(dir); err != nil {
			l.logger.Warn("the list of segments is not written: a segment that is deleted may not be noticed", "err", err)
		}
	}
}

func (l *listing) write() error {
	for _, dir := range slices.Backward(l.dirs) { // its own folder last: it has the newest
		if err := l.writeTo(dir); err != nil {
			return err
		}
	}
	return nil
}

func (l *listing) writeTo(dir string) error {
	numbers := fmt.Sprint(slices.Sorted(maps.Keys(l.ids)))
	return replace(l.fs, dir, fmt.Appendf(nil, listFormat, listSum(numbers), numbers))
}

// replace writes a list as a whole: a crash leaves the old one or the new.
func replace(fs wal.FS, dir string, content []byte) error {
	name := filepath.Join(dir, listName)
	f, err := fs.Open(name+".tmp", true)
	if err != nil {
		return err
	}
	err = f.Truncate(0)
	if err == nil {
		_, err = f.WriteAt(content, 0)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = fs.Rename(name+".tmp", name)
	}
	if err == nil {
		err = fs.SyncDir(dir)
	}
	return err
}

func listSum(numbers string) uint32 {
	return crc32.Checksum([]byte(numbers), crc32.MakeTable(crc32.Castagnoli))
}

// Listed reads the lists of some folders.
func Listed(fs wal.FS, dirs ...string) *Lists {
	out := &Lists{}
	for _, dir := range dirs {
		raw, ids, err := listedIn(fs, dir)
		if err != nil {
			out.Damaged = append(out.Damaged, filepath.Join(dir, listName))
			continue
		}
		if out.good == nil || highest(ids) > highest(out.IDs) {
			out.IDs, out.good = ids, raw
		}
	}
	return out
}

func highest(ids []uint64) (most uint64) {
	for _, id := range ids {
		most = max(most, id)
	}
	return most
}

func listedIn(fs wal.FS, dir string) (raw []byte, ids []uint64, err error) {
	f, err := fs.Open(filepath.Join(dir, listName), false)
	if err != nil {
		return nil, nil, nil //nolint:nilerr // of a version before lists, or before the first flush
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil || size > maxList {
		return nil, nil, errList
	}
	b := make([]byte, size)
	if n, err := f.ReadAt(b, 0); err != nil && !(errors.Is(err, io.EOF) && int64(n) == size) {
		return nil, nil, errList
	}
	ids, ok := parseList(b)
	if !ok {
		return nil, nil, errList
	}
	return b, ids, nil
}

// parseList reads numbers in brackets behind their checksum.
func parseList(b []byte) (ids []uint64, ok bool) {
	if len(b) < 12 || b[8] != '\n' || b[9] != '[' || b[len(b)-1] != '\n' {
		return nil, false
	}
	numbers := string(b[9 : len(b)-1])
	if fmt.Sprintf("%08x", listSum(numbers)) != string(b[:8]) {
		return nil, false
	}
	for id, digits, i := uint64(0), 0, 1; i < len(numbers); i++ {
		if c := numbers[i]; c >= '0' && c <= '9' {
			id, digits = id*10+uint64(c-'0'), digits+1
			continue
		}
		if digits > 0 {
			ids = append(ids, id)
		}
		id, digits = 0, 0
	}
	return ids, true
}
