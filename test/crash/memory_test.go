//go:build e2e

package crash

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/kymogram/kymogram/test/rig"
)

var many = flag.Int("series", 100_000, "how many series of one point a server is sent before it is killed")

// TestRestartOfManySeries kills a server that was sent many series of one point, each
// at another time, and starts it again with as little memory as it may have had. It
// must answer, and stop with 0 on SIGTERM. The proof sends a million.
func TestRestartOfManySeries(t *testing.T) {
	data, most := "300000", 300
	if *many >= 1_000_000 {
		data, most = "700000", 400
	}
	r := rig.New(t)
	s := startUnder(t, r, 360, "unlimited")
	for from := 0; from < *many; from += 5000 {
		s.send(t, from, min(from+5000, *many))
	}
	t.Logf("sent: %d MiB", s.peak(t))
	if s.peak(t) > most {
		t.Errorf("%d series take %d MiB, more than %d", *many, s.peak(t), most)
	}
	s.end(t, syscall.SIGKILL)
	s = startUnder(t, r, 360, data)
	s.send(t, *many-1, *many) // the run is in use; a million is all that one may have
	if got := s.stored(t); got != *many {
		t.Errorf("%d series of %d", got, *many)
	}
	t.Logf("started again: %d MiB", s.peak(t))
	if err := s.end(t, syscall.SIGTERM); err != nil {
		t.Errorf("after SIGTERM: %v", err)
	}
}

// TestLargeTextsWithLittleMemory sends a server with little memory large bodies from many
// senders at once. Each is acknowledged or told to come again, all are stored in the
// end, and the process never takes much more than its limit.
func TestLargeTextsWithLittleMemory(t *testing.T) {
	const limit, senders, bodies, rows, size = 200, 8, 2, 15, 1_000_000
	r := rig.New(t)
	s := startUnder(t, r, limit, "400000")
	var refused atomic.Int64
	var all sync.WaitGroup
	for sender := range senders {
		all.Go(func() {
			for n := range bodies {
				var body bytes.Buffer
				for i := range rows {
					fmt.Fprintf(&body, "m,run=many,sender=%d s=\"%s\" %d\n", sender, strings.Repeat(fmt.Sprint("xy", n), size/3), 1+n*rows+i)
				}
				refused.Add(s.insist(t, body.Bytes()))
			}
		})
	}
	all.Wait()
	peak := s.peak(t)
	t.Logf("%d refused, %d MiB", refused.Load(), peak)
	if peak > limit+limit/8 {
		t.Errorf("%d MiB with a limit of %d", peak, limit)
	}
	if err := s.end(t, syscall.SIGKILL); err == nil {
		t.Error("it had ended before")
	}
	s = startUnder(t, r, limit, "400000")
	for sender := range senders {
		if got := s.texts(t, sender); got != bodies*rows {
			t.Errorf("sender %d: %d texts of %d", sender, got, bodies*rows)
		}
	}
	s.crowd(t, 64)
	if peak := s.peak(t); peak > limit+limit/8 {
		t.Errorf("read: %d MiB with a limit of %d", peak, limit)
	}
	if err := s.end(t, syscall.SIGTERM); err != nil {
		t.Errorf("after SIGTERM: %v", err)
	}
}

// texts reads all texts of a sender, and counts them.
func (s *bounded) texts(t *testing.T, sender int) (n int) {
	t.Helper()
	var runs struct{ Runs []struct{ ID string } }
	s.get(t, "/api/v1/projects/w/b/runs", &runs)
	for next := ""; ; {
		var page struct {
			Columns struct{ Value []string }
			Next    string
		}
		s.get(t, fmt.Sprintf("/api/v1/runs/%s/points?metric=m%%2Fs&axis=time_ns&label.sender=%d%s", runs.Runs[0].ID, sender, next), &page)
		n += len(page.Columns.Value)
		if page.Next == "" {
			return n
		}
		next = "&cursor=" + url.QueryEscape(page.Next)
	}
}

// crowd reads pages of few rows of long texts, and lists that end with such, many at
// once. Who is told to come again does.
func (s *bounded) crowd(t *testing.T, readers int) {
	t.Helper()
	var runs struct{ Runs []struct{ ID string } }
	s.get(t, "/api/v1/projects/w/b/runs", &runs)
	var all sync.WaitGroup
	for i := range readers {
		all.Go(func() {
			path := fmt.Sprintf("/api/v1/runs/%s/points?metric=m%%2Fs&axis=time_ns&label.sender=%d&limit=20", runs.Runs[0].ID, i%8)
			if i%2 > 0 {
				path = fmt.Sprintf("/api/v1/runs/%s/series", runs.Runs[0].ID)
			}
			for began := time.Now(); time.Since(began) < 2*time.Minute; {
				answer, err := http.Get(s.address + path)
				if err != nil {
					t.Error(err)
					return
				}
				n, err := io.Copy(io.Discard, answer.Body)
				answer.Body.Close()
				if answer.StatusCode == http.StatusOK {
					if err != nil || n < 500_000 {
						t.Errorf("%s: %d bytes, %v", path, n, err)
					}
					return
				}
				if answer.StatusCode != http.StatusTooManyRequests {
					t.Error(answer.Status)
					return
				}
				time.Sleep(100 * time.Millisecond)
			}
			t.Errorf("%s: no answer in two minutes", path)
		})
	}
	all.Wait()
}

func (s *bounded) get(t *testing.T, path string, into any) {
	t.Helper()
	answer, err := http.Get(s.address + path)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		words, _ := io.ReadAll(answer.Body)
		t.Fatalf("%s: %s %s", path, answer.Status, words)
	}
	if err := json.NewDecoder(answer.Body).Decode(into); err != nil {
		t.Fatal(path, err)
	}
}

// insist sends a body until it is acknowledged, and counts the refusals. Each must say
// when to come again.
func (s *bounded) insist(t *testing.T, body []byte) (refused int64) {
	t.Helper()
	for began := time.Now(); time.Since(began) < 2*time.Minute; refused++ {
		answer, err := http.Post(s.address+"/api/v2/write?bucket=b&org=w&precision=ns", "text/plain", bytes.NewReader(body))
		if err != nil {
			t.Error(err)
			return refused
		}
		answer.Body.Close()
		if answer.StatusCode == http.StatusNoContent {
			return refused
		}
		if answer.StatusCode != http.StatusServiceUnavailable || answer.Header.Get("Retry-After") == "" {
			t.Error(answer.Status, answer.Header)
			return refused
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Error("a body was not acknowledged in two minutes")
	return refused
}

// bounded is a server with a limit of its data segment.
type bounded struct {
	cmd     *exec.Cmd
	address string
}

// startUnder starts a server with a limit of memory in MiB, and `ulimit -d` in KiB.
func startUnder(t *testing.T, r *rig.Rig, memory int, data string) *bounded {
	t.Helper()
	cmd := r.Command(t, "bash", "-c", `ulimit -d "$0" && exec "$@"`, data, r.Binary(), "serve", "--no-auth", "--data", filepath.Join(r.Dir, "many"), "--http", "127.0.0.1:0")
	cmd.Env = append(cmd.Env, fmt.Sprint("KYMOGRAM_MEMORY_LIMIT_MIB=", memory))
	var words bytes.Buffer
	cmd.Stderr = &words
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		_ = cmd.Wait()
		t.Fatalf("the server said no ready line: %v\n%.2000s", err, words.String())
	}
	return &bounded{cmd, "http://" + strings.TrimPrefix(strings.Fields(line)[1], "http=")}
}

// send writes one point of each series.
func (s *bounded) send(t *testing.T, from, to int) {
	t.Helper()
	var body bytes.Buffer
	for i := from; i < to; i++ {
		fmt.Fprintf(&body, "m,run=many,s=s%07d v=1 %d\n", i, 1_700_000_000_000_000_000+i)
	}
	began := time.Now()
	for {
		answer, err := http.Post(s.address+"/api/v2/write?bucket=b&org=w&precision=ns", "text/plain", bytes.NewReader(body.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode == http.StatusNoContent {
			return
		}
		if answer.StatusCode != http.StatusServiceUnavailable || time.Since(began) > time.Minute {
			t.Fatal(answer.Status)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// peak is the most memory that the process had, MiB.
func (s *bounded) peak(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		t.Skip("the memory of a process is read from /proc")
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	kib, err := strconv.Atoi(strings.Fields(rest + " 0")[0])
	if err != nil {
		t.Fatal(err)
	}
	return kib >> 10
}

// stored is how many series the server says that it keeps.
func (s *bounded) stored(t *testing.T) int {
	t.Helper()
	answer, err := http.Get(s.address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "kymogram_store_series "); ok {
			n, err := strconv.ParseFloat(text, 64)
			if err != nil {
				t.Fatal(err)
			}
			return int(n)
		}
	}
	t.Fatalf("/metrics does not tell: %s", answer.Status)
	return 0
}

func (s *bounded) end(t *testing.T, by syscall.Signal) error {
	t.Helper()
	if err := s.cmd.Process.Signal(by); err != nil {
		t.Fatal(err)
	}
	return s.cmd.Wait()
}
