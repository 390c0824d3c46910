package local

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/local/record"
)

// metaQueue holds the updates that the catalog has not confirmed, by rising LSN.
// Records of two runs may come in the other order by a hair, so add sorts.
type metaQueue struct {
	mu       sync.Mutex
	list     []pendingMeta
	released uint64
}

// pendingMeta keeps the updates as bytes: they are read only after a crash.
type pendingMeta struct {
	lsn    uint64
	run    model.RunID
	writer model.WriterID
	doc    []byte
}

func metaOf(rec *record.Batch, lsn uint64) pendingMeta {
	return pendingMeta{lsn, rec.Run, rec.Writer, rec.Doc}
}

func (m *pendingMeta) decode() (store.Meta, error) {
	out := store.Meta{LSN: m.lsn, Run: m.run, Writer: m.writer}
	if err := json.Unmarshal(m.doc, &out.Updates); err != nil {
		return out, fmt.Errorf("updates of log record %d: %w", m.lsn, err)
	}
	return out, nil
}

func (q *metaQueue) add(m pendingMeta) {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := len(q.list)
	for at > 0 && q.list[at-1].lsn > m.lsn {
		at--
	}
	q.list = slices.Insert(q.list, at, m)
}

// release drops what is confirmed; false when nothing changed.
func (q *metaQueue) release(lsn uint64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if lsn <= q.released {
		return false
	}
	q.released = lsn
	n := 0
	for n < len(q.list) && q.list[n].lsn <= lsn {
		n++
	}
	q.list = slices.Delete(q.list, 0, n)
	return n > 0
}

// oldest is the LSN that the log must keep for updates, 0 for none.
func (q *metaQueue) oldest() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.list) == 0 {
		return 0
	}
	return q.list[0].lsn
}

func (q *metaQueue) pending() []pendingMeta {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.list)
}

// PendingMeta implements [store.MetaLog]. It yields what was pending when it
// was called.
func (e *Engine) PendingMeta(ctx context.Context) iter.Seq2[store.Meta, error] {
	return func(yield func(store.Meta, error) bool) {
		for _, m := range e.meta.pending() {
			if err := ctx.Err(); err != nil {
				yield(store.Meta{}, model.Errorf(model.CodeTimeout, "stopped: %v", err))
				return
			}
			// Not before it is on disk: after a crash it must come again.
			if err := e.log.Wait(ctx, m.lsn); err != nil {
				yield(store.Meta{}, err)
				return
			}
			if !yield(m.decode()) {
				return
			}
		}
	}
}

// ReleaseMeta implements [store.MetaLog]. The note in the log is not waited
// for: what a crash forgets is applied once more, which changes nothing.
func (e *Engine) ReleaseMeta(lsn uint64) {
	if !e.meta.release(lsn) {
		return
	}
	enc := &record.Encoder{}
	enc.Released(lsn)
	if _, err := e.log.Write(enc.Buf); err != nil {
		e.cfg.Logger.Warn("release of updates not noted", "lsn", lsn, "err", err)
	}
}
