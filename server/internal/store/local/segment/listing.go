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
var errList = errors.New("the list of segments is damaged: one that is missing would not be noticed")

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
		have, err := Listed(l.fs, dir)
		if slices.Sort(have); err == nil && slices.Equal(have, want) {
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
	name := filepath.Join(dir, listName)
	f, err := l.fs.Open(name+".tmp", true)
	if err != nil {
		return err
	}
	err = f.Truncate(0)
	if err == nil {
		_, err = f.WriteAt(fmt.Appendf(nil, listFormat, listSum(numbers), numbers), 0)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = l.fs.Rename(name+".tmp", name)
	}
	if err == nil {
		err = l.fs.SyncDir(dir)
	}
	return err
}

func listSum(numbers string) uint32 {
	return crc32.Checksum([]byte(numbers), crc32.MakeTable(crc32.Castagnoli))
}

// Listed are the segments that must be there, or a merge replaced, by the newest list
// of some folders. An error says that one of the lists is damaged.
func Listed(fs wal.FS, dirs ...string) (ids []uint64, err error) {
	for _, dir := range dirs {
		more, bad := listedIn(fs, dir)
		if bad != nil {
			err = bad
		}
		if highest(more) > highest(ids) {
			ids = more
		}
	}
	return ids, err
}

func highest(ids []uint64) (most uint64) {
	for _, id := range ids {
		most = max(most, id)
	}
	return most
}

func listedIn(fs wal.FS, dir string) (ids []uint64, err error) {
	f, err := fs.Open(filepath.Join(dir, listName), false)
	if err != nil {
		return nil, nil //nolint:nilerr // of a version before lists, or before the first flush
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil || size > maxList {
		return nil, errList
	}
	b := make([]byte, size)
	if n, err := f.ReadAt(b, 0); err != nil && !(errors.Is(err, io.EOF) && int64(n) == size) {
		return nil, errList
	}
	ids, ok := parseList(b)
	if !ok {
		return nil, errList
	}
	return ids, nil
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
