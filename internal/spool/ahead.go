package spool

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/platform"
)

const (
	aheadSuffix = ".next"
	// ample: the disk has room for so many segments, or none is made ahead.
	ample = 8
)

// ahead is the segment after the current one, made beside the log calls once a
// quarter of the current one is used: a call that meets the end of a segment
// finds the next one with its pages in memory.
type ahead struct {
	mu      sync.Mutex // making a segment, and making it the current one
	segment *segment   // ready; nil: not begun, or it could not be made
	wanted  atomic.Bool

	gate   sync.Mutex // nothing begins once the writer is closed
	closed bool
	group  sync.WaitGroup
}

// beside runs work that no call has to wait for; Close does.
func (w *Writer) beside(work func()) {
	w.ahead.gate.Lock()
	defer w.ahead.gate.Unlock()
	if !w.ahead.closed {
		w.ahead.group.Go(work)
	}
}

// watch has the segment after seg made when a quarter of seg is used.
func (w *Writer) watch(seg *segment) {
	seg.mark = seg.size / 4
	seg.passed = func() { w.beside(func() { w.prepare(seg) }) }
}

// prepare makes the segment after seg. Where there is no ample room it leaves
// that to the call that needs it, which takes a smaller one and can tell.
func (w *Writer) prepare(seg *segment) {
	w.ahead.mu.Lock()
	defer w.ahead.mu.Unlock()
	if w.current.Load() != seg || w.ahead.segment != nil || w.full.Load() || w.ahead.wanted.Load() {
		return
	}
	size := w.sizeAfter(seg)
	if free, err := platform.FreeBytes(w.dir); err != nil || free < int64(ample*size) {
		return
	}
	next, err := w.fit(seg.header.Number+1, size)
	if err != nil {
		return
	}
	if err := next.bring(w.folder.FS.Kind == FSMemory, w.ahead.wanted.Load); err != nil {
		_ = next.discard() // the call that needs a segment meets the error again
		return
	}
	w.ahead.segment = next
}

// claim takes ahead.mu; a segment that is being made ahead is then ready as far
// as it is, which only costs those who write to the rest of it.
func (w *Writer) claim() {
	w.ahead.wanted.Store(true)
	w.ahead.mu.Lock()
	w.ahead.wanted.Store(false)
}

// next is the segment after old, with room for a record: the one made ahead, else
// one of the next size, or where the disk is nearly full a smaller one. The
// caller has claimed it.
func (w *Writer) next(old *segment, need int) (*segment, error) {
	seg := w.ahead.segment
	w.ahead.segment = nil
	if seg != nil && seg.size >= need {
		return seg, nil
	}
	if seg != nil {
		if err := seg.discard(); err != nil {
			return nil, err
		}
	}
	size := w.sizeAfter(old)
	for size < need {
		size *= 2
	}
	for {
		seg, err := w.fit(old.header.Number+1, size)
		if err == nil || size/2 < max(firstSegment, need) {
			return seg, err
		}
		size /= 2
	}
}

// endAhead joins what runs beside the calls and removes what it made.
func (w *Writer) endAhead() error {
	w.ahead.wanted.Store(true)
	w.ahead.gate.Lock()
	w.ahead.closed = true
	w.ahead.gate.Unlock()
	w.ahead.group.Wait()
	if seg := w.ahead.segment; seg != nil {
		w.ahead.segment = nil
		return seg.discard()
	}
	return nil
}

func (w *Writer) sizeAfter(seg *segment) int { return min(2*seg.size, w.maxSegment) }

// fit makes a segment within the cap, under a name that no reader looks at.
func (w *Writer) fit(number uint64, size int) (*segment, error) {
	if err := w.room(size); err != nil {
		return nil, err
	}
	seg, err := createSegment(aheadPath(w.dir, number), size, w.folder.FS.Mapped())
	if err != nil {
		return nil, err
	}
	w.watch(seg)
	return seg, nil
}

func (w *Writer) room(size int) error {
	used, err := w.folder.Used()
	if err != nil {
		return err
	}
	if used+int64(size) > w.cap {
		return model.Errorf(model.CodeDiskFull, "the spool is full: %d of %d bytes", used, w.cap)
	}
	return nil
}

func aheadPath(dir string, number uint64) string {
	return filepath.Join(dir, fmt.Sprintf(".%08d%s", number, aheadSuffix))
}

// sweepAhead removes what a writer that is over had made ahead; Python's have two
// names.
func sweepAhead(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // its folder is delivered and gone
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") && (strings.HasSuffix(e.Name(), aheadSuffix) || strings.HasSuffix(e.Name(), ".tmp")) {
			_ = os.Remove(filepath.Join(dir, e.Name())) // it only takes room
		}
	}
}
