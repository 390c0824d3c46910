package ingest

import (
	"context"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/store"
)

// released remembers the highest LSN that was let go.
type released struct{ lsn uint64 }

func (r *released) PendingMeta(context.Context) iter.Seq2[store.Meta, error] {
	return func(func(store.Meta, error) bool) {}
}
func (r *released) ReleaseMeta(lsn uint64) { r.lsn = max(r.lsn, lsn) }

// Appends get rising LSNs while they overlap in any way; an LSN is let go only
// when every update up to it is in the catalog, and all are in the end.
func TestReleasesNeverOvertake(t *testing.T) {
	type op struct{ ticket, lsn uint64 }
	rapid.Check(t, func(rt *rapid.T) {
		log := &released{}
		r := &releases{open: map[uint64]uint64{}, log: log}
		var begun, stored []op
		next, inCatalog := uint64(1), map[uint64]bool{}
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			switch rapid.IntRange(0, 3).Draw(rt, "step") {
			case 0:
				begun = append(begun, op{ticket: r.begin()})
			case 1: // the log gives the LSN; the append may return much later
				if i := slices.IndexFunc(begun, func(o op) bool { return o.lsn == 0 }); i >= 0 {
					begun[i].lsn = next
					next++
				}
			case 2:
				if i := slices.IndexFunc(begun, func(o op) bool { return o.lsn > 0 }); i >= 0 {
					r.stored(begun[i].ticket, begun[i].lsn)
					stored = append(stored, begun[i])
					begun = slices.Delete(begun, i, i+1)
				}
			case 3:
				if len(stored) > 0 {
					i := rapid.IntRange(0, len(stored)-1).Draw(rt, "which")
					inCatalog[stored[i].lsn] = true
					r.done(stored[i].ticket)
					stored = slices.Delete(stored, i, i+1)
				}
			}
			for lsn := uint64(1); lsn <= log.lsn; lsn++ {
				if !inCatalog[lsn] {
					rt.Fatalf("%d was let go, %d is not in the catalog", log.lsn, lsn)
				}
			}
		}
		for _, o := range begun {
			if o.lsn == 0 {
				r.done(o.ticket) // the append failed
				continue
			}
			r.stored(o.ticket, o.lsn)
			r.done(o.ticket)
		}
		for _, o := range stored {
			r.done(o.ticket)
		}
		if log.lsn != next-1 {
			rt.Fatalf("%d was let go in the end, want %d", log.lsn, next-1)
		}
	})
}

// ledger is a catalog that notes what the background asks of it.
type ledger struct {
	mu sync.Mutex // held by the test while it looks
	catalog.Recorder
	seen    []map[model.WriterID]time.Time
	expired []time.Time
	// published are the runs that readers were told of.
	published []model.RunID
	trash     map[model.RunID]time.Time
	purged    []model.RunID
}

func (l *ledger) Seen(_ context.Context, seen map[model.WriterID]time.Time) ([]model.RunChange, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen = append(l.seen, seen)
	return []model.RunChange{{Run: model.RunID{2}}}, nil
}

func (l *ledger) Expire(_ context.Context, before time.Time) ([]model.RunChange, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expired = append(l.expired, before)
	return []model.RunChange{{Run: model.RunID{3}}}, nil
}

// Publish makes the ledger a publisher too.
func (l *ledger) Publish(c model.RunChange) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.published = append(l.published, c.Run)
}

func (l *ledger) TrashedBefore(_ context.Context, before time.Time) (due []model.RunID, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, since := range l.trash {
		if since.Before(before) {
			due = append(due, id)
		}
	}
	return due, nil
}

func (l *ledger) Purge(_ context.Context, id model.RunID) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.trash, id)
	l.purged = append(l.purged, id)
	return nil
}

// shredder is a store that only deletes.
type shredder struct {
	mu *sync.Mutex
	store.Writer
	deleted []model.RunID
}

func (s *shredder) DeleteRun(_ context.Context, id model.RunID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deleted = append(s.deleted, id)
	return nil
}

func TestTheBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		l := &ledger{trash: map[model.RunID]time.Time{{1}: time.Now()}}
		s := &shredder{mu: &l.mu}
		wait := func(d time.Duration, look func()) {
			time.Sleep(d)
			synctest.Wait()
			l.mu.Lock()
			defer l.mu.Unlock()
			look()
		}
		service := New(Config{}, Deps{Points: s, Catalog: l, Live: l, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
		done := make(chan error, 1)
		began := time.Now()
		go func() { done <- service.Run(ctx) }()

		service.seen.record(model.WriterID{1}, began)
		service.seen.record(model.WriterID{1}, began.Add(time.Second))
		wait(11*time.Second, func() {
			want := []map[model.WriterID]time.Time{{{1}: began.Add(time.Second)}}
			if diff := cmp.Diff(want, l.seen); diff != "" {
				t.Errorf("signs of life (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]model.RunID{{2}}, l.published); diff != "" {
				t.Errorf("told of a writer that is back (-want +got):\n%s", diff)
			}
		})
		wait(9*time.Minute+45*time.Second, func() {
			if len(l.expired) > 0 {
				t.Errorf("writers expired %s after the start", time.Since(began))
			}
		})
		wait(15*time.Second, func() {
			if len(l.expired) == 0 || l.expired[0].Before(began) || l.expired[0].After(began.Add(20*time.Second)) {
				t.Errorf("expired %v", l.expired)
			}
			if !slices.Contains(l.published, model.RunID{3}) {
				t.Errorf("nobody was told of the lost run: %v", l.published)
			}
		})
		wait(7*24*time.Hour-12*time.Minute, func() {
			if len(l.purged) > 0 {
				t.Errorf("purged %s after the deletion", time.Since(began))
			}
		})
		wait(90*time.Minute, func() {
			if diff := cmp.Diff([][]model.RunID{{{1}}, {{1}}}, [][]model.RunID{s.deleted, l.purged}); diff != "" {
				t.Errorf("freed and purged (-want +got):\n%s", diff)
			}
		})
		service.seen.record(model.WriterID{2}, time.Now())
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if last := l.seen[len(l.seen)-1]; last[model.WriterID{2}].IsZero() {
			t.Error("signs of life were lost at the end")
		}
	})
}
