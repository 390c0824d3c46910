package spool

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/platform"
)

const (
	// Both are names of a segment that nobody reads yet: made ahead, and made by
	// the call that needs it.
	aheadSuffix = ".next"
	nowSuffix   = ".tmp"
	// ample: the disk has room for so many segments, or none is made ahead.
	ample = 8
)

// ahead is the next segment, made while log calls go on, once a quarter of the
// current one is used: a call that meets the end of a segment finds it with its
// pages in memory. No call waits for it: while every processor is busy it may
// come late, and is then the one after the next.
type ahead struct {
	ready  atomic.Pointer[segment]
	making atomic.Bool
	room   sync.Mutex // looking for room, taking it, giving a segment its name

	mu     sync.Mutex // nothing begins once the writer is closed
	closed bool
	group  sync.WaitGroup
}

// beside runs work that no log call waits for; Close does.
func (w *Writer) beside(work func()) {
	w.ahead.mu.Lock()
	defer w.ahead.mu.Unlock()
	if !w.ahead.closed {
		w.ahead.group.Go(work)
	}
}

// watch has the next segment made when a quarter of seg is used.
func (w *Writer) watch(seg *segment) {
	seg.mark = seg.size / 4
	seg.passed = func() { w.beside(w.prepare) }
}

// prepare makes the next segment. Where there is no ample room it leaves that to
// the call that needs it, which takes a smaller one and can tell.
func (w *Writer) prepare() {
	if !w.ahead.making.CompareAndSwap(false, true) {
		return
	}
	defer w.ahead.making.Store(false)
	current := w.current.Load()
	if current == nil || w.full.Load() || w.ahead.ready.Load() != nil {
		return
	}
	size := w.sizeAfter(current)
	if free, err := platform.FreeBytes(w.dir); err != nil || free < int64(ample*size) {
		return
	}
	w.ahead.room.Lock()
	// The cap must allow a second one, or a call that cannot wait finds none.
	seg, err := w.fit(current.header.Number+1, size, 2*size, aheadSuffix)
	w.ahead.room.Unlock()
	if err != nil {
		return
	}
	if err := seg.bring(w.folder.FS.Kind == FSMemory); err != nil {
		_ = seg.discard() // the call that needs a segment meets the error again
		return
	}
	w.ahead.ready.Store(seg)
}

// next is the segment after old, with room for a record: the one made ahead, else
// one of the next size, or where the disk is nearly full a smaller one.
// The caller has locked ahead.room.
func (w *Writer) next(old *segment, need int) (*segment, error) {
	size := w.sizeAfter(old)
	for size < need {
		size *= 2
	}
	if seg := w.ahead.ready.Swap(nil); seg != nil {
		if seg.size >= size {
			return seg, nil
		}
		if err := seg.discard(); err != nil {
			return nil, err
		}
	}
	for {
		seg, err := w.fit(old.header.Number+1, size, size, nowSuffix)
		if err == nil || size/2 < max(firstSegment, need) {
			return seg, err
		}
		size /= 2
	}
}

// endAhead joins what runs beside the calls and removes what it made.
func (w *Writer) endAhead() error {
	w.ahead.mu.Lock()
	w.ahead.closed = true
	w.ahead.mu.Unlock()
	w.ahead.group.Wait()
	if seg := w.ahead.ready.Swap(nil); seg != nil {
		return seg.discard()
	}
	return nil
}

func (w *Writer) sizeAfter(seg *segment) int { return min(2*seg.size, w.maxSegment) }

// fit makes a segment where the cap has so much room. The caller has locked
// ahead.room.
func (w *Writer) fit(number uint64, size, room int, suffix string) (*segment, error) {
	used, ok, err := w.usage.fits(int64(room), w.cap)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, model.Errorf(model.CodeDiskFull, "the spool is full: %d of %d bytes", used, w.cap)
	}
	path := filepath.Join(w.dir, fmt.Sprintf(".%08d%s", number, suffix))
	seg, err := createSegment(path, size, w.folder.FS.Mapped())
	if err != nil {
		return nil, err
	}
	w.usage.added += int64(size)
	w.watch(seg)
	return seg, nil
}

// sweepAhead removes what a writer that is over had not published. One with a header
// was published: a power loss undid the renaming, and records may lie in it.
func sweepAhead(dir string, id model.WriterID) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // its folder is delivered and gone
	}
	for _, e := range entries {
		name, suffix := strings.TrimPrefix(e.Name(), "."), filepath.Ext(e.Name())
		if name == e.Name() || suffix != aheadSuffix && suffix != nowSuffix {
			continue
		}
		path := filepath.Join(dir, e.Name())
		if to, ok := publishedAs(path, strings.TrimSuffix(name, suffix), id); ok {
			_ = os.Rename(path, to)
			continue
		}
		_ = os.Remove(path) // it only takes room
	}
}

// publishedAs is the name of a segment that lost it.
func publishedAs(path, number string, id model.WriterID) (string, bool) {
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return "", false
	}
	to := segmentPath(filepath.Dir(path), n)
	if _, err := os.Lstat(to); err == nil {
		return "", false
	}
	f, err := os.Open(path)
	if err != nil {
		return "", false
	}
	defer f.Close()
	_, err = readHeader(f, id, n)
	return to, err == nil || errors.Is(err, errNewer)
}
