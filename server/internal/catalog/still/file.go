package still

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/kymogram/kymogram/internal/platform"
)

// File is a database as it stands: its file with the committed frames of its log over it.
type File struct {
	path string
	file *os.File
	wal  *os.File // nil: there is none
	log
	size   int64
	stamps [2]fs.FileInfo // of both, when they were opened

	// check judges a page that is not from the log, which has checksums of its own.
	check func(page []byte, number uint32) bool
	bad   uint32 // the first page that check refused
}

// Open opens a database that must exist, and its log.
func Open(path string) (f *File, err error) {
	f = &File{path: path}
	if f.file, err = os.Open(path); err != nil {
		return nil, err
	}
	if f.wal, err = os.Open(walOf(path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(err, f.Close())
	}
	if f.stamps, err = stamps(path); err == nil {
		err = f.measure()
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func walOf(path string) string { return path + "-wal" }

// measure reads the log and says how large the database is. SQLite deletes the log of an
// empty file.
func (f *File) measure() error {
	f.size, f.pageSize = f.stamps[0].Size(), defaultPage
	if f.size == 0 {
		return nil
	}
	if f.wal != nil {
		log, err := readLog(f.wal)
		if err != nil {
			return err
		}
		if len(log.frames) > 0 {
			f.log, f.size = *log, int64(log.pages)*log.pageSize
			return nil
		}
	}
	head := make([]byte, 18)
	if _, err := f.file.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if n := int64(head[16])<<8 | int64(head[17])<<16; n >= minPage && n&(n-1) == 0 { // 1 is 65,536
		f.pageSize = n
	}
	return nil
}

// Close closes the files.
func (f *File) Close() error {
	err := f.file.Close()
	if f.wal != nil {
		err = errors.Join(err, f.wal.Close())
	}
	return err
}

// Size is that of the database. The file may be shorter, where its log has more.
func (f *File) Size() int64 { return f.size }

// Frames is how many pages the log has.
func (f *File) Frames() int { return len(f.frames) }

// Logged says that a page is one of the log.
func (f *File) Logged(number uint32) bool { return f.frames[number] > 0 }

// ReadAt reads as SQLite would. What the file lacks is zeros.
func (f *File) ReadAt(p []byte, off int64) (n int, err error) {
	for n < len(p) {
		at := off + int64(n)
		if at >= f.size {
			return n, io.EOF
		}
		part := p[n:min(len(p), n+int(f.pageSize-at%f.pageSize))]
		if err := f.part(part, at); err != nil {
			return n, err
		}
		n += len(part)
	}
	return n, nil
}

// ReadUnder reads what the file itself has, below its log; what it lacks is zeros.
func (f *File) ReadUnder(p []byte, off int64) (int, error) {
	n, err := f.file.ReadAt(p, off)
	if err != nil && !errors.Is(err, io.EOF) {
		return n, err
	}
	clear(p[n:])
	return int(max(0, min(int64(len(p)), f.size-off))), nil
}

// part reads within one page.
func (f *File) part(p []byte, at int64) error {
	number := uint32(at/f.pageSize) + 1
	if from := f.frames[number]; from > 0 {
		_, err := f.wal.ReadAt(p, from+at%f.pageSize)
		return err
	}
	if _, err := f.ReadUnder(p, at); err != nil {
		return err
	}
	if f.check != nil && int64(len(p)) == f.pageSize && !f.check(p, number) {
		if f.bad == 0 {
			f.bad = number
		}
		return errPage
	}
	return nil
}

// Changed says that somebody wrote to the database since it was opened, or may.
func (f *File) Changed() bool {
	now, err := stamps(f.path)
	return err != nil || !same(f.stamps[0], now[0]) || !same(f.stamps[1], now[1]) || Busy(f.path)
}

func stamps(path string) (out [2]fs.FileInfo, err error) {
	if out[0], err = os.Stat(path); err != nil {
		return out, err
	}
	if out[1], err = os.Stat(walOf(path)); errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return out, err
}

func same(a, b fs.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// guard is the byte of the log's index (-shm) that every process locks which has the
// database open.
const guard = 128

// Busy says that another process has the database open.
func Busy(path string) bool {
	f, err := os.Open(path + "-shm")
	if err != nil {
		return false
	}
	defer f.Close()
	return platform.Guarded(f, guard)
}
