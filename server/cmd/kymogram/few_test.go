package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kymogram/kymogram/internal/model"
)

// few is how many file descriptors these servers have: 192 connections.
const few = 256

// hold sends a request over a connection of its own, and gives the status of the answer:
// 0 while it waits, -1 for a connection that broke. The connection stays open.
func (d desk) hold(method, path, key, body string) (status int, header http.Header) {
	d.t.Helper()
	conn, err := new(net.Dialer).DialContext(d.t.Context(), "tcp", d.address)
	if err != nil {
		return -1, nil
	}
	d.t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	head := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n", method, path, key, len(body))
	for text := head + body; text != ""; text = text[min(len(text), 64<<10):] {
		if _, err := io.WriteString(conn, text[:min(len(text), 64<<10)]); err != nil {
			return -1, nil // as many clients do, which send all before they read
		}
		if len(body) > 64<<10 {
			time.Sleep(20 * time.Millisecond)
		}
	}
	if strings.Contains(path, "wait=") {
		_ = conn.SetDeadline(time.Now().Add(300 * time.Millisecond))
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	switch timeout, ok := err.(net.Error); { //nolint:errorlint // as it comes
	case ok && timeout.Timeout():
		return 0, nil
	case err != nil:
		return -1, nil
	}
	return response.StatusCode, response.Header
}

// Event streams and waiting requests of one key take an eighth of the connections, and
// with those of others half: who comes next is told to come again, and writes go on.
func TestWaitsLeaveConnections(t *testing.T) {
	_, d, admin := lockedWith(t, few)
	greedy, other := d.addKey(admin, "greedy", "read"), d.addKey(admin, "other", "read")
	d.want(http.StatusNoContent, "POST", "/api/v2/write?bucket=p&org=w", admin, "loss,run=r value=1")
	got := map[int]int{}
	for i := range 400 { // those that are refused keep their connections, too
		path := []string{"live?project=w/p", "projects/w/p/state?wait=30", "projects/w/p/network?wait=30&since=9"}[i%3]
		if i >= 24 {
			path = "live?project=w/p" // what waits costs the test time
		}
		status, header := d.hold("GET", "/api/v1/"+path, greedy, "")
		got[status]++
		if status == http.StatusTooManyRequests && header.Get("Retry-After") == "" {
			t.Error("a refusal without Retry-After")
		}
	}
	if held := got[0] + got[200]; held != 24 || got[429]+got[503] != 376 {
		t.Errorf("one key of 192 connections: %v, want 24 that are held, and the others refused", got)
	}
	d.until(time.Minute, "another key has a stream", func() bool {
		status, _ := d.hold("GET", "/api/v1/live?project=w/p", other, "")
		return status == http.StatusOK
	})
	for i := range 30 {
		d.until(time.Minute, "a write is taken", func() bool {
			status, _ := d.hold("POST", "/api/v2/write?bucket=p&org=w", admin, fmt.Sprintf("loss,run=r value=%d", i))
			if status != http.StatusNoContent && status != http.StatusServiceUnavailable {
				t.Errorf("write %d: %d", i, status)
			}
			return status == http.StatusNoContent
		})
	}
	if held, refused := d.metricAs(admin, "kymogram_event_streams"), d.metricAs(admin, "kymogram_event_streams_refused_total"); held != 25 || refused != float64(got[429]) {
		t.Errorf("/metrics tells of %v held and %v refused, want 25 and %d", held, refused, got[429])
	}
}

// open opens connections, and writes the same to each. They stay open.
func (d desk) open(n int, text string) (conns []net.Conn) {
	d.t.Helper()
	for range n {
		conn, err := new(net.Dialer).DialContext(d.t.Context(), "tcp", d.address)
		if err != nil {
			d.t.Fatal(err)
		}
		d.t.Cleanup(func() { _ = conn.Close() })
		_, _ = io.WriteString(conn, text)
		conns = append(conns, conn)
	}
	return conns
}

// clientPreface is how a connection of gRPC begins; nothing has to follow.
const clientPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"

// However one caller fills all connections, another key's write finds a place at once.
func TestOneCallerLeavesConnections(t *testing.T) {
	_, d, admin := lockedWith(t, few)
	greedy := d.addKey(admin, "greedy", "ingest")
	d.want(http.StatusNoContent, "POST", "/api/v2/write?bucket=p&org=w", admin, "loss,run=r value=1")
	sum := strings.Repeat("0", 64)
	head := " HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + greedy + "\r\nContent-Length: 1000000\r\n"
	for name, text := range map[string]string{
		"slow writes":   "POST /api/v2/write?bucket=p&org=w" + head + "\r\nx",
		"slow files":    "PUT /api/v1/blobs/" + sum + head + "\r\nx",
		"slow uploads":  "PATCH /api/v1/blobs/" + sum + "/upload" + head + "Content-Type: application/partial-upload\r\nUpload-Complete: ?1\r\nUpload-Offset: 0\r\n\r\nx",
		"refused":       "POST /api/v1/keys" + head + "\r\nx",
		"no key":        "POST /api/v2/write?bucket=p&org=w HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\nx",
		"silent":        "",
		"half a header": "GET / HTTP/1.1\r\nHost:",
		"silent gRPC":   clientPreface,
	} {
		conns := d.open(300, text)
		for i := range 5 {
			if status, _ := d.hold("POST", "/api/v2/write?bucket=p&org=w", admin, fmt.Sprintf("loss,run=r value=%d", i)); status != http.StatusNoContent {
				t.Errorf("%s: write %d was answered with %d", name, i, status)
			}
		}
		for _, conn := range conns {
			_ = conn.Close()
		}
	}
	if closed := d.metricAs(admin, "kymogram_connections_closed_total"); closed < 8*100 {
		t.Errorf("/metrics tells of %v connections that made way", closed)
	}
}

// Who finds no connection reads why, also when it sends a body first: here many callers,
// each with less than its part, have all.
func TestRefusedConnectionsAreTold(t *testing.T) {
	_, d, admin := lockedWith(t, few)
	body, end := io.Pipe()
	t.Cleanup(func() { _ = end.Close() })
	for range 96 / 24 {
		key := d.addKey(admin, "agent", "ingest")
		for range 24 {
			client := plainHTTP2(t)
			go func() {
				request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+d.address+"/kymogram.v1.IngestService/Stream", body)
				if err != nil {
					return
				}
				request.Header = http.Header{"Content-Type": {"application/grpc"}, "Te": {"trailers"}, "Authorization": {"Bearer " + key}}
				if answer, err := client.Do(request); err == nil {
					_ = answer.Body.Close()
				}
			}()
		}
	}
	d.until(time.Minute, "all calls go on", func() bool { return d.metricAs(admin, "kymogram_calls") == 96 })
	d.want(http.StatusNoContent, "POST", "/api/v2/write?bucket=p&org=w", admin, "loss,run=r value=1")
	for range 96 / 24 {
		key := d.addKey(admin, "reader", "read")
		for range 24 {
			if status, _ := d.hold("GET", "/api/v1/live?project=w/p", key, ""); status != http.StatusOK {
				t.Fatalf("a stream of a caller with few was answered with %d", status)
			}
		}
	}
	for range 10 {
		status, header := d.hold("POST", "/api/v2/write?bucket=p&org=w", admin, strings.Repeat("x", 200_000))
		if status != http.StatusServiceUnavailable || header.Get("Retry-After") == "" {
			t.Errorf("a refused write was told %d %v", status, header)
		}
	}
}

// A process without file descriptors answers 503 with the cause where it needs one, its
// readiness fails and says why, and nothing is lost when they come back.
func TestOutOfDescriptors(t *testing.T) {
	s, d, admin := lockedWith(t, few)
	write := func(run string) (int, []byte) {
		return d.do("POST", "/api/v2/write?bucket=p&org=w", admin, "loss,run="+run+" value=1")
	}
	if status, text := write("before"); status != http.StatusNoContent {
		t.Fatalf("before: %d %s", status, text)
	}
	pid := s.cmd.Process.Pid
	var all unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &all); err != nil {
		t.Skipf("this system does not take descriptors away: %v", err)
	}
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: all.Max}, nil); err != nil {
		t.Fatal(err)
	}
	time.Sleep(1100 * time.Millisecond) // the last look at the disk is too old then
	if status, text := d.do("GET", "/readyz", "", ""); status != http.StatusServiceUnavailable || !bytes.Contains(text, []byte("out of file descriptors")) {
		t.Errorf("readyz without descriptors: %d %s", status, text)
	}
	acked := 0
	for i := range 20 {
		switch status, text := write(fmt.Sprint("during", i)); {
		case status == http.StatusNoContent:
			acked++
		case status != http.StatusServiceUnavailable || !bytes.Contains(text, []byte(model.CodeUnavailable)):
			t.Errorf("a write without descriptors: %d %s", status, text)
		}
	}
	sum := strings.Repeat("0", 64)
	if status, text := d.do("PUT", "/api/v1/blobs/"+sum, admin, "x"); status != http.StatusServiceUnavailable || !bytes.Contains(text, []byte("out of file descriptors")) {
		t.Errorf("a file without descriptors: %d %s", status, text)
	}
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &all, nil); err != nil {
		t.Fatal(err)
	}
	d.until(time.Minute, "it is ready again", func() bool { status, _ := d.do("GET", "/readyz", "", ""); return status == http.StatusOK })
	if status, text := write("after"); status != http.StatusNoContent {
		t.Errorf("after: %d %s", status, text)
	}
	runs := d.want(http.StatusOK, "GET", "/api/v1/projects/w/p/runs", admin, "")["runs"].([]any)
	if len(runs) < acked+2 {
		t.Errorf("%d runs are there, %d writes were taken", len(runs), acked+2)
	}
}

// Who sends all of a large body before it reads is told why it is refused.
func TestARefusedBodyIsTold(t *testing.T) {
	_, d, admin := locked(t)
	d.want(http.StatusNoContent, "POST", "/api/v2/write?bucket=p&org=w", admin, "loss,run=r value=1")
	run := d.want(http.StatusOK, "GET", "/api/v1/resolve?run=w/p/r", admin, "")["id"].(string)
	for _, c := range []struct {
		path, key string
		size      int
		want      int
	}{
		{"/api/v1/runs/" + run + "/state", admin, 4 << 20, http.StatusRequestEntityTooLarge}, // above the route's own limit
		{"/api/v1/keys", admin, 4 << 20, http.StatusBadRequest},
		{"/api/v1/open", "wrong", 1 << 20, http.StatusUnauthorized},
	} {
		if status, _ := d.hold("POST", c.path, c.key, strings.Repeat("x", c.size)); status != c.want {
			t.Errorf("%s with %d bytes: %d, want %d", c.path, c.size, status, c.want)
		}
	}
}
