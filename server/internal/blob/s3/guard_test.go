package s3_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/kymogram/kymogram/server/internal/blob"
	"github.com/kymogram/kymogram/server/internal/blob/s3"
)

// told is a guard that tells when somebody is about to share it.
type told struct {
	mu     sync.RWMutex
	shares chan struct{}
}

func (g *told) Share(context.Context) (end func(), err error) {
	close(g.shares)
	g.mu.RLock()
	return g.mu.RUnlock, nil
}

func (g *told) Exclude(context.Context) (end func(), err error) {
	g.mu.Lock()
	return g.mu.Unlock, nil
}

// TestPutWhileAnotherSweeps: a server finds that nobody names an old blob. Before it deletes it,
// another server puts it again, to name it. The blob is there afterwards.
func TestPutWhileAnotherSweeps(t *testing.T) {
	now := time.Now()
	clock := gofakes3.FixedTimeSource(now.Add(-48 * time.Hour))
	backend := s3mem.New(s3mem.WithTimeSource(clock))
	if err := backend.CreateBucket(bucket); err != nil {
		t.Fatal(err)
	}
	inner := gofakes3.New(backend, gofakes3.WithTimeSource(clock), gofakes3.WithTimeSkewLimit(0)).Server()
	var looked func() // after the sweep looked at the blob once more
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := httptest.NewRecorder()
		inner.ServeHTTP(answer, r)
		if f := looked; f != nil && r.Method == http.MethodHead {
			looked = nil // the put looks too
			f()
		}
		for name, values := range answer.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
	}))
	t.Cleanup(server.Close)
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	location := "s3://" + bucket + "?endpoint=" + server.URL
	one, two, guard := open(t, location), open(t, location), &told{shares: make(chan struct{})}
	one.Guarded(guard)
	two.Guarded(guard)
	data := []byte("a video")
	hash := blob.Hash(sha256.Sum256(data))
	if err := one.Put(t.Context(), hash, bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	clock.Advance(48 * time.Hour)
	put := make(chan error, 1)
	looked = func() {
		go func() { put <- one.Put(t.Context(), hash, bytes.NewReader(data)) }()
		select {
		case <-guard.shares:
		case err := <-put: // it did not wait
			put <- err
		}
	}
	nobody := func([]string) (map[string]bool, error) { return nil, nil }
	if files, _, err := two.Sweep(t.Context(), now.Add(-24*time.Hour), nobody); err != nil || files != 1 {
		t.Errorf("swept %d, %v", files, err)
	}
	if err := <-put; err != nil {
		t.Fatal(err)
	}
	r, err := two.Open(t.Context(), hash)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

var _ s3.Guard = (*told)(nil)
