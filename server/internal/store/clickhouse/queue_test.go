package clickhouse_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
)

// Batches of many runs that come together are few inserts.
func TestGroups(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.config.Every = time.Second
	e := r.open(t, "a")
	var inserts atomic.Int32
	afterInsert(e, func() error { inserts.Add(1); return nil })
	const runs = 40
	var opened, written sync.WaitGroup
	for i := range byte(runs) {
		opened.Go(func() { open(t, e, model.RunID{i + 1}, model.WriterID{i + 1}) })
	}
	opened.Wait()
	for i := range byte(runs) {
		written.Go(func() {
			if _, err := e.Append(t.Context(), numbers(model.RunID{i + 1}, model.WriterID{i + 1}, 1, 3, false)); err != nil {
				t.Error(err)
			}
		})
	}
	written.Wait()
	if n := inserts.Load(); n > 3 {
		t.Errorf("%d inserts", n)
	}
	r.expect(t, runs*3)
}

// Who does not wait any more leaves nothing behind, and holds up nobody.
func TestImpatient(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	e := r.open(t, "a")
	run, w := model.RunID{1}, model.WriterID{1}
	open(t, e, run, w)
	begun, proceed := make(chan struct{}), make(chan struct{})
	var once sync.Once
	afterInsert(e, func() error {
		once.Do(func() { close(begun); <-proceed })
		return nil
	})
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := e.Append(t.Context(), numbers(run, w, 1, 3, false)); err != nil {
			t.Error(err)
		}
	})
	<-begun
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error)
	go func() {
		_, err := e.Append(ctx, numbers(run, model.WriterID{2}, 1, 3, false))
		left <- err
	}()
	cancel()
	if err := <-left; model.CodeOf(err) != model.CodeTimeout {
		t.Errorf("%v", err)
	}
	close(proceed)
	wg.Wait()
	if ack, err := e.Append(t.Context(), numbers(run, w, 4, 5, false)); err != nil || ack.Mark != 5 {
		t.Errorf("%+v, %v", ack, err)
	}
	r.expect(t, 5)
}

// The updates of a server that does not come back go to another one.
func TestUpdatesOfADeadServer(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	dead, other := r.open(t, "a"), r.open(t, "b")
	run, w := model.RunID{1}, model.WriterID{1}
	open(t, dead, run, w)
	b := numbers(run, w, 1, 1, false)
	b.Updates = []model.Update{{Op: model.OpAddTags, Seq: 1, Tags: []string{"x"}}}
	ack, err := dead.Append(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	pending := func() (n int) {
		for m, err := range other.PendingMeta(t.Context()) {
			if n++; err != nil || m.LSN != ack.LSN || m.Run != run || m.Writer != w {
				t.Errorf("%+v, %v", m, err)
			}
		}
		return n
	}
	other.ReleaseMeta(ack.LSN) // it is not its own
	if n := pending(); n != 0 {
		t.Errorf("%d updates of a server that works", n)
	}
	r.ledger.Do(t, "UPDATE "+r.schema+".ledger_nodes SET seen = now() - interval '1 hour' WHERE folder = 'a'")
	if n := pending(); n != 1 {
		t.Errorf("%d updates", n)
	}
	other.ReleaseMeta(ack.LSN)
	if n := pending(); n != 0 {
		t.Errorf("%d updates after they were released", n)
	}
}

// What a server believes of a run that another one changed since is not answered.
func TestStaleAnswers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	stale, other := r.open(t, "a"), r.open(t, "b")
	run, w := model.RunID{1}, model.WriterID{1}
	open(t, stale, run, w)
	if _, err := other.Append(t.Context(), numbers(run, w, 1, 4, false)); err != nil {
		t.Fatal(err)
	}
	if ack, err := stale.Append(t.Context(), numbers(run, w, 9, 9, false)); model.CodeOf(err) != model.CodeGap || ack.Mark != 4 {
		t.Errorf("a gap: %+v, %v", ack, err)
	}
	if ack, err := stale.Append(t.Context(), numbers(run, w, 5, 6, false)); err != nil || ack.Mark != 6 {
		t.Errorf("%+v, %v", ack, err)
	}
	if err := stale.PutAttempt(t.Context(), model.RunID{2}, model.Attempt{Number: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := stale.Append(t.Context(), numbers(model.RunID{2}, w, 7, 7, false)); model.CodeOf(err) != model.CodeConflict {
		t.Errorf("a writer in another run: %v", err)
	}
	if err := other.DeleteRun(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	if err := stale.PutAttempt(t.Context(), run, model.Attempt{Number: 1}); model.CodeOf(err) != model.CodeRunDeleted {
		t.Errorf("an attempt of a deleted run: %v", err)
	}
	if ack, err := stale.Append(t.Context(), numbers(run, w, 7, 8, false)); err != nil || ack.Mark != 8 || len(ack.Refused) != 2 {
		t.Errorf("points of a deleted run: %+v, %v", ack, err)
	}
	if mark, err := other.Mark(t.Context(), w); err != nil || mark != 8 {
		t.Errorf("the mark is %d, %v", mark, err)
	}
}
