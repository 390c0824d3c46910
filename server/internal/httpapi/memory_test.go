package httpapi_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/httpapi"
)

// longRun has a series whose answer fits into no socket's buffers.
func longRun(l *lab) *writer {
	w := l.writer("run", nil)
	w.logMany(model.NewSeriesKey("long", "", nil), 200_000)
	return w
}

// unread asks for an answer and reads nothing of it.
func (l *lab) unread(caller, path string) net.Conn {
	l.t.Helper()
	conn, err := new(net.Dialer).DialContext(l.t.Context(), "tcp", l.http.Listener.Addr().String())
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { _ = conn.Close() })
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetReadBuffer(128 << 10)
	}
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Caller: %s\r\n\r\n", path, caller); err != nil {
		l.t.Fatal(err)
	}
	return conn
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it never was so: %s", what)
		}
	}
}

// Answers that nobody reads hold their own caller up and no other one, whatever
// the other one asks for.
func TestUnreadAnswersFreezeNobody(t *testing.T) {
	l := newLab(t, httpapi.Options{Stall: time.Hour})
	w := longRun(l)
	for range 5 {
		l.unread("greedy", w.path("points?metric=long&limit=1000000"))
	}
	for range 20 {
		l.unread("greedy", w.path("points?metric=long&limit=30000"))
	}
	eventually(t, "the greedy caller waits", func() bool { return l.api.Stats().Waiting >= 4 })
	for _, path := range []string{"buckets?metric=long", "points?metric=long", "points?metric=long&limit=1000000"} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, l.http.URL+w.path(path), http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Caller", "other")
		response, err := l.http.Client().Do(r)
		if err != nil {
			t.Fatalf("%s of another caller: %v", path, err)
		}
		if body, err := io.ReadAll(response.Body); err != nil || response.StatusCode != http.StatusOK {
			t.Errorf("%s of another caller: %d, %v, %.100s", path, response.StatusCode, err, body)
		}
		_ = response.Body.Close()
		cancel()
	}
}

// An answer of which nothing is read gives its rows back and ends as an error that
// the client sees, in every format.
func TestAStalledAnswerEndsVisibly(t *testing.T) {
	l := newLab(t, httpapi.Options{Stall: 100 * time.Millisecond})
	w := longRun(l)
	for i, format := range []string{"json", "csv", "arrow"} {
		conn := l.unread("sleeper", w.path("points?metric=long&limit=1000000&format="+format))
		eventually(t, "the answer is given up", func() bool { s := l.api.Stats(); return s.Stalled == uint64(i)+1 && s.Bytes == 0 })
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("%s: not even a header: %v", format, err)
		}
		if n, err := io.Copy(io.Discard, response.Body); err == nil {
			t.Errorf("%s: %d bytes look like the whole answer", format, n)
		}
		_ = response.Body.Close()
	}
}

// A client that reads slowly is no client that reads nothing.
func TestASlowReaderGetsAll(t *testing.T) {
	l := newLab(t, httpapi.Options{Stall: 2 * time.Second})
	w := longRun(l)
	conn := l.unread("slow", w.path("points?metric=long&limit=1000000"))
	eventually(t, "the answer is under way", func() bool { return l.api.Stats().Bytes > 0 })
	response, err := http.ReadResponse(bufio.NewReaderSize(conn, 4096), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	read := int64(0)
	for pauses := 0; ; {
		n, err := io.CopyN(io.Discard, response.Body, 512<<10)
		read += n
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("after %d bytes: %v", read, err)
		}
		if pauses++; pauses < 8 {
			time.Sleep(50 * time.Millisecond)
		}
	}
	if read < 8<<20 || l.api.Stats().Stalled > 0 {
		t.Errorf("%d bytes, %+v", read, l.api.Stats())
	}
}
