package spool

import (
	"errors"
	"syscall"

	"github.com/kymogram/kymogram/internal/model"
)

// waitingCost is what a record in memory takes in addition to its payload.
const waitingCost = 80

// keep holds a record in memory; past the limit the newest points are dropped
// and counted. Updates are few and small, and kept.
func (w *Writer) keep(payload []byte, series []*Series, points int) {
	size := int64(len(payload) + 8*len(series) + waitingCost)
	if points > 0 && w.bytes+size > w.maxMemory {
		w.dropped += uint64(points)
		w.lost.Add(tallyOf(payload, points))
		return
	}
	w.waiting = append(w.waiting, waiting{payload, series, points})
	w.bytes += size
}

// drain moves the records in memory into the spool, in order, and reports
// whether all of them went. Unless forced it tries four times a second.
func (w *Writer) drain(force bool) bool {
	if !force && w.now().Before(w.retryAt) {
		return false
	}
	for len(w.waiting) > 0 {
		next := w.waiting[0]
		if !w.place(next.payload, next.series) {
			w.retryAt = w.now().Add(retryFull)
			return false
		}
		w.bytes -= int64(len(next.payload) + 8*len(next.series) + waitingCost)
		w.waiting[0] = waiting{}
		w.waiting = w.waiting[1:]
	}
	if !w.reportDropped() {
		w.retryAt = w.now().Add(retryFull)
		return false
	}
	w.waiting, w.bytes = nil, 0
	w.full.Store(false)
	return true
}

// reportDropped says in the spool how many points were dropped.
func (w *Writer) reportDropped() bool {
	if w.dropped == 0 {
		return true
	}
	payload, err := AppendUpdates(nil, []model.Update{{
		Op: model.OpDropped, TimeNs: w.now().UnixNano(), Count: w.dropped, Text: "the spool was full",
	}})
	if err != nil || !w.place(payload, nil) {
		return false
	}
	w.dropped = 0
	return true
}

// lastRoom is what the end of a writer may take past the cap: how many points were
// dropped, changes of the run, its close.
const lastRoom = 1 << 20

// lastWords gives up the points that still wait in memory, and reports them past
// the cap, so that the run's ledger counts them. The caller holds mu.
func (w *Writer) lastWords() {
	var kept []waiting
	for _, one := range w.waiting {
		if one.points == 0 {
			kept = append(kept, one)
			continue
		}
		w.dropped += uint64(one.points)
		w.lost.Add(tallyOf(one.payload, one.points))
	}
	w.waiting = nil
	if used, err := w.folder.Used(); err == nil {
		w.ahead.room.Lock()
		w.cap = max(w.cap, used+lastRoom)
		w.ahead.room.Unlock()
	}
	if w.reportDropped() {
		w.waiting = kept
		w.drain(true)
	}
}

// place appends, rolling as needed.
func (w *Writer) place(payload []byte, series []*Series) bool {
	for {
		done, err := w.try(payload, series)
		if done || err != nil {
			return done
		}
		if w.refusal = w.roll(need(payload, series)); w.refusal != nil {
			return false
		}
	}
}

// Overflow says what is not in the spool because it is full.
type Overflow struct {
	Waiting int    // records in memory
	Points  uint64 // points in them
	Dropped uint64 // points dropped and not reported yet
}

// Lost is what a writer could not put into the spool, by kind, and why: in words
// that stay the same, with what helps.
type Lost struct {
	Waiting Tally // in memory
	Records int   // that wait in memory, changes of the run among them
	Dropped Tally // for good, since the start
	Why     string
}

// Lost counts without trying to make room.
func (w *Writer) Lost() Lost {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := Lost{Records: len(w.waiting), Dropped: w.lost, Why: whyFull(w.refusal)}
	for _, one := range w.waiting {
		out.Waiting.Add(tallyOf(one.payload, one.points))
	}
	return out
}

// whyFull says why no segment could be made.
func whyFull(err error) string {
	var errno syscall.Errno
	switch {
	case err == nil:
		return ""
	case errors.Is(err, syscall.EROFS):
		return "its file system is read-only; mount it writable again"
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return "the disk is full; free some of it"
	case model.CodeOf(err) == model.CodeDiskFull:
		return "its share of the disk is used; delivery frees it"
	case errors.As(err, &errno):
		return "the disk reports " + errno.Error()
	}
	return err.Error()
}

// tallyOf counts the points of a payload; a block of more than one axis is RL's.
func tallyOf(payload []byte, points int) Tally {
	if payload[0] == TypeBlock && payload[3] > 1 {
		return Tally{RL: uint64(points)}
	}
	return Tally{Points: uint64(points)}
}

// Closed reports whether Close was called.
func (w *Writer) Closed() bool { return w.current.Load() == nil }

// Drain tries at once to move what waits in memory into the spool.
func (w *Writer) Drain() Overflow {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.full.Load() && w.current.Load() != nil {
		w.drain(true)
	}
	over := Overflow{Waiting: len(w.waiting), Dropped: w.dropped}
	for _, one := range w.waiting {
		over.Points += uint64(one.points)
	}
	return over
}

// Last is the sequence of the last record in the spool.
func (w *Writer) Last() uint64 {
	seg := w.acquire()
	if seg == nil {
		return 0
	}
	defer seg.release()
	return seg.header.First + seg.records() - 1
}

// Sync makes every record that was appended before it durable.
func (w *Writer) Sync() error {
	seg := w.acquire()
	if seg == nil {
		return ErrClosed
	}
	defer seg.release()
	return syncSegments(w.dir)
}

// Close gives up the writer's lock: what lies in the spool is then final. It
// reports what was lost because the spool is full.
func (w *Writer) Close() (Overflow, error) {
	over := w.Drain()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.current.Load() != nil && (over.Waiting > 0 || over.Dropped > 0) {
		w.lastWords()
	}
	seg := w.current.Swap(nil)
	if seg == nil {
		return over, nil
	}
	seg.release()
	return over, errors.Join(w.endAhead(), w.lock.Release())
}
