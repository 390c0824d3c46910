package uplink

import (
	"bytes"
	"context"
	"testing"
	"time"

	kymogramv1 "github.com/kymogram/kymogram/gen/kymogram/v1"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/spool"
)

// TestBatchesTellOfTheBacklog: behind every batch lies what no batch has brought
// yet, by the server's own count, also while acks stand still.
func TestBatchesTellOfTheBacklog(t *testing.T) {
	const total = 250
	long := bytes.Repeat([]byte("x"), 64<<10) // more batches than may be in flight
	s := startServer(t)
	got, batches := uint64(0), 0
	s.heard = func(m *kymogramv1.StreamRequest) {
		b := m.GetBatch()
		if b == nil {
			return
		}
		for _, g := range b.Groups {
			got += uint64(len(g.TimeNs)) // one column each
		}
		if b.SpooledPoints == nil || *b.SpooledPoints != total-got {
			t.Errorf("batch %d says that %v points are left, %d are", batches, b.SpooledPoints, total-got)
		}
		if batches++; batches == 2 {
			time.Sleep(countEvery + 100*time.Millisecond) // a slow server: the client counts anew
		}
	}
	f := newFixture(t, s)
	for i := range int64(total) {
		f.ok(f.w.Document(f.of(model.KindText, "note"), spool.FlagStep, i, 1, long))
	}
	f.close()
	f.sync(Options{})
	if got != total || batches <= inFlight {
		t.Errorf("%d points came in %d batches", got, batches)
	}
}

// TestIdleWriterTellsAtOnce: the server need not wait for a point to know that
// nothing is left.
func TestIdleWriterTellsAtOnce(t *testing.T) {
	s := startServer(t)
	beats := make(chan *kymogramv1.Heartbeat, 16)
	s.heard = func(m *kymogramv1.StreamRequest) {
		if b := m.GetHeartbeat(); b != nil {
			beats <- b
		}
	}
	f := newFixture(t, s)
	ctx, cancel := context.WithTimeout(context.Background(), heartbeat-time.Second)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		done <- New(f.folder, Options{Kind: spool.KindAgent, Env: func(string) string { return "" }}).Run(ctx)
	}()
	select {
	case b := <-beats:
		if b.SpooledPoints == nil || *b.SpooledPoints != 0 {
			t.Errorf("it says %v", b.SpooledPoints)
		}
	case <-ctx.Done():
		t.Error("no heartbeat came")
	}
	cancel()
	f.ok(<-done)
}
