package uplink

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/spool"
)

// journal is a log that is read while it is written.
type journal struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.all.Write(p)
}

func (j *journal) count(text string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Count(j.all.String(), text)
}

// TestTooManyOpenFiles: a deliverer that may open no more files goes on when it may.
func TestTooManyOpenFiles(t *testing.T) {
	s := startServer(t)
	f := newFixture(t, s)
	f.point("loss", 1, 1)
	var log journal
	ctx, cancel := context.WithCancel(context.Background())
	d := New(f.folder, Options{Kind: spool.KindAgent, Log: slog.New(slog.NewTextHandler(&log, nil)), Env: func(string) string { return "" }})
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	until := func(what string, done func() bool) {
		t.Helper()
		for end := time.Now().Add(10 * time.Second); !done(); time.Sleep(5 * time.Millisecond) {
			select {
			case err := <-ended:
				t.Fatalf("%s: it ended: %v", what, err)
			default:
			}
			if time.Now().After(end) {
				t.Fatalf("%s: not in 10 s", what)
			}
		}
	}
	until("the first point", func() bool { return len(s.stored()) == 1 })
	var limit syscall.Rlimit
	f.ok(syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	none := syscall.Rlimit{Cur: 0, Max: limit.Max}
	f.ok(syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none))
	defer syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
	until("the limit", func() bool { return log.count("too many open files") > 0 })
	for range 3 {
		d.Wake()
		until("another look", func() bool { return len(d.waker) == 0 })
	}
	f.ok(syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit))
	f.point("loss", 2, 2)
	until("the second point", func() bool { return len(s.stored()) == 2 })
	f.check(s)
	if n := log.count("ulimit -n"); n != 1 {
		t.Errorf("told %d times", n)
	}
	cancel()
	f.ok(<-ended)
}
