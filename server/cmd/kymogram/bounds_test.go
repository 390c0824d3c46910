package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// peakMiB is the most memory that the server's process ever had.
func (s *killable) peakMiB() int {
	s.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		s.t.Skipf("this system does not tell a process's peak: %v", err)
	}
	match := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)
	if match == nil {
		s.t.Fatalf("no peak in %s", status)
	}
	kib, _ := strconv.Atoi(string(match[1]))
	return kib >> 10
}

// metric reads one number of /metrics.
func (d desk) metric(name string) float64 { return d.metricAs("", name) }

func (d desk) metricAs(key, name string) float64 {
	d.t.Helper()
	_, text := d.do("GET", "/metrics", key, "")
	match := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindSubmatch(text)
	if match == nil {
		d.t.Fatalf("there is no metric %s", name)
	}
	value, err := strconv.ParseFloat(string(match[1]), 64)
	if err != nil {
		d.t.Fatal(err)
	}
	return value
}

// denseLines is line protocol of one series with so many points.
func denseLines(run string, points int) []byte {
	var b bytes.Buffer
	for i := range points {
		fmt.Fprintf(&b, "loss,run=%s value=%d %d\n", run, i, 1_700_000_000_000_000_000+i)
	}
	return b.Bytes()
}

// unfolding is a small body that unfolds to much.
func unfolding(t *testing.T, size int) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(bytes.Repeat([]byte("#"+strings.Repeat("x", 4094)+"\n"), size/4096))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// 192 large requests at once take a bounded amount of memory. They are work for longer
// than the 2 s that a request waits, so some are refused, with the time after which to
// send again. A client that does so loses nothing.
func TestManyLargeRequestsAtOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("it sends gigabytes")
	}
	s := &killable{t: t, data: t.TempDir()}
	s.start()
	t.Cleanup(s.kill)
	d := desk{t, s.address}
	const points = 300_000 // 15 MiB
	plain, small := denseLines("many", points), unfolding(t, 60<<20)
	var refused atomic.Int64
	write := func(body []byte, encoding string) (status int, again string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+s.address+"/api/v2/write?bucket=b&org=o", bytes.NewReader(body))
		if err != nil {
			t.Error(err)
			return 0, ""
		}
		r.Header.Set("Content-Encoding", encoding)
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0, "" // cut while it was sent: the next try tells
		}
		defer response.Body.Close()
		_, _ = io.Copy(io.Discard, response.Body)
		return response.StatusCode, response.Header.Get("Retry-After")
	}
	var all sync.WaitGroup
	for i := range 192 {
		all.Go(func() {
			body, encoding := plain, "identity"
			if i%8 > 0 {
				body, encoding = small, "gzip"
			}
			for end := time.Now().Add(4 * time.Minute); time.Now().Before(end); time.Sleep(time.Second) {
				status, again := write(body, encoding)
				switch {
				case status == http.StatusNoContent:
					return
				case status == http.StatusServiceUnavailable && again == "":
					t.Error("a refusal does not say when to come again")
				case status == http.StatusServiceUnavailable:
					refused.Add(1)
				case status != 0:
					t.Errorf("status %d", status)
					return
				}
			}
			t.Error("a client never got through")
		})
	}
	all.Wait()
	peak := s.peakMiB()
	t.Logf("peak %d MiB, %d refusals", peak, refused.Load())
	if peak > 1024 {
		t.Errorf("the server took %d MiB", peak)
	}
	if refused.Load() == 0 || d.metric("kymogram_request_refused_total") == 0 {
		t.Error("nothing was refused, or it is not counted")
	}
	found := d.want(http.StatusOK, "GET", "/api/v1/resolve?run=o/b/many", "", "")
	list := d.want(http.StatusOK, "GET", "/api/v1/runs/"+found["id"].(string)+"/series", "", "")
	if got := list["series"].([]any)[0].(map[string]any)["count"].(float64); got != points {
		t.Errorf("%v points are stored, %d were sent", got, points)
	}
}

// A process with few file descriptors closes silent connections before the store and the
// catalog run out of them.
func TestConnectionsLeaveDescriptors(t *testing.T) {
	s := &killable{t: t, data: t.TempDir(), files: 256}
	s.start()
	t.Cleanup(s.kill)
	d := desk{t, s.address}
	for range 400 {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	d.want(http.StatusOK, "GET", "/api/v1/server", "", "")
	if closed := d.metric("kymogram_connections_closed_total"); closed < 400-192 {
		t.Errorf("%v silent connections have made way", closed)
	}
	if most := d.metric("kymogram_connections_max"); most != 192 {
		t.Errorf("%v connections may be open with 256 descriptors", most)
	}
	d.want(http.StatusOK, "GET", "/readyz", "", "")
	d.want(http.StatusNoContent, "POST", "/api/v2/write?bucket=b&org=o", "", "loss,run=r value=1")
}
