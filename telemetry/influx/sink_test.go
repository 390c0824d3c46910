package influx_test

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kymogram/kymogram/telemetry"
	"github.com/kymogram/kymogram/telemetry/influx"
)

// server is an InfluxDB that keeps the lines of what it took.
type server struct {
	*httptest.Server
	mu      sync.Mutex
	lines   []string
	asked   []string // path and sign-in of each write
	answers []int    // of the next writes; 204 behind them
	poison  string   // a body that holds it is refused
}

func serve(t *testing.T, version string) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("X-Influxdb-Version", version)
		if q.Method == http.MethodGet {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		var in io.Reader = q.Body
		if q.Header.Get("Content-Encoding") == "gzip" {
			in, _ = gzip.NewReader(in)
		}
		body, _ := io.ReadAll(in)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.asked = append(s.asked, q.URL.Path+" "+q.Header.Get("Authorization"))
		w.WriteHeader(s.take(string(body)))
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *server) take(body string) int {
	if len(s.answers) > 0 {
		status := s.answers[0]
		s.answers = s.answers[1:]
		return status
	}
	if s.poison != "" && strings.Contains(body, s.poison) {
		return http.StatusBadRequest
	}
	s.lines = append(s.lines, strings.Split(strings.TrimSuffix(body, "\n"), "\n")...)
	return http.StatusNoContent
}

func open(t *testing.T, address string, more func(*influx.Options)) (*telemetry.Logger, *strings.Builder) {
	t.Helper()
	if os.Getenv("KYMOGRAM_SPOOL_DIR") == "" {
		t.Setenv("KYMOGRAM_SPOOL_DIR", t.TempDir())
	}
	said := &strings.Builder{}
	o := influx.Options{Host: address, RetryInterval: time.Millisecond, MaxRetryDelay: 10 * time.Millisecond}
	o.Prefix, o.UID, o.Role, o.RuntimeID, o.Token = "M", "7", telemetry.Miner, "life", "me:word"
	o.Log = slog.New(slog.NewTextHandler(&locked{w: said}, nil))
	if more != nil {
		more(&o)
	}
	l, err := influx.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return l, said
}

type locked struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

func TestPointsAreTheOriginalsLines(t *testing.T) {
	for version, want := range map[string]string{"v2.7.1": "/api/v2/write Token me:word", "1.6.7": "/write Basic bWU6d29yZA=="} {
		s := serve(t, version)
		l, said := open(t, s.URL, func(o *influx.Options) { o.Config = map[string]any{"lr": 0.1, "token": "x"} })
		at := telemetry.At(time.Unix(0, 1000))
		l.Log("step", telemetry.Tags{"window": 12, "uid": 5, "empty": nil}, telemetry.Fields{"loss": 0.5, "n": 3, "t": "a b", "bad": math.NaN()}, at)
		l.Log("none", nil, telemetry.Fields{"bad": math.Inf(1)}, at)
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		lines := []string{`Mstep,caller_uid=5,config_lr=0.1,config_token=***,prefix=M,role=miner,runtime_id=life,uid=7,window=12 loss=0.5,n=3i,t="a b" 1000`}
		if diff := cmp.Diff(lines, s.lines); diff != "" {
			t.Errorf("%s (-want +got):\n%s", version, diff)
		}
		if diff := cmp.Diff([]string{want}, s.asked); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if n := strings.Count(said.String(), "InfluxDB takes no NaN"); n != 1 || l.Counts().Failed != 1 {
			t.Errorf("NaN is told %d times, %+v:\n%s", n, l.Counts(), said)
		}
	}
}

func TestWhatMayBeTakenLaterIsSentAgain(t *testing.T) {
	s := serve(t, "v2.7.1")
	s.answers = []int{503, 429, 401, 500}
	l, _ := open(t, s.URL, func(o *influx.Options) { o.BatchSize = 10 })
	logMany(l, 100)
	if err := l.Close(t.Context()); err != nil || strings.Count(strings.Join(s.lines, "\n"), "Mx,") != 100 {
		t.Errorf("%d lines, %v", len(s.lines), err)
	}
}

func logMany(l *telemetry.Logger, n int) {
	for i := range n {
		l.Log("x", nil, telemetry.Fields{"v": i, "t": "a\nb"}, telemetry.At(time.Unix(0, int64(1+i))))
	}
}

func TestABadLineCostsItselfAlone(t *testing.T) {
	s := serve(t, "v2.7.1")
	s.poison = "v=7i"
	l, said := open(t, s.URL, nil)
	for i := range 64 {
		l.Log("x", nil, telemetry.Fields{"v": i})
	}
	if err := l.Close(t.Context()); err != nil || len(s.lines) != 63 {
		t.Errorf("%d lines, %v\n%s", len(s.lines), err, said)
	}
}

func TestTheBoundBounds(t *testing.T) {
	s := serve(t, "v2.7.1")
	s.answers = slices.Repeat([]int{503}, 1_000_000)
	l, said := open(t, s.URL, func(o *influx.Options) { o.MaxQueueSize = 10 })
	logMany(l, 100)
	if got := l.Counts(); got.Logged != 10 || got.Failed != 90 || !strings.Contains(said.String(), "MaxQueueSize") {
		t.Errorf("%+v\n%s", got, said)
	}
	s.mu.Lock()
	s.answers = nil
	s.mu.Unlock()
	if err := l.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// What a killed or hurried process left in its files is sent by the next.
func TestWhatIsLeftIsSentByTheNext(t *testing.T) {
	s := serve(t, "1.6.7")
	s.answers = slices.Repeat([]int{503}, 1_000_000)
	l, _ := open(t, s.URL, func(o *influx.Options) { o.BatchSize = 30 })
	logMany(l, 100)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := l.Close(ctx); err == nil {
		t.Error("a close without a server had all delivered")
	}
	s.mu.Lock()
	s.answers = nil
	s.mu.Unlock()
	next, _ := open(t, s.URL, nil)
	if err := next.Close(t.Context()); err != nil {
		t.Error(err)
	}
	found := strings.Join(s.lines, "\n")
	for i := range 100 {
		if !strings.Contains(found, fmt.Sprintf("v=%di %d", i, 1+i)) {
			t.Fatalf("point %d is lost", i)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(os.Getenv("KYMOGRAM_SPOOL_DIR"), "influx", "*", "*")); len(left) > 0 {
		t.Errorf("files are left: %v", left)
	}
}

// The real ones are put there by `make influx`.
func TestRealInfluxDB(t *testing.T) {
	for _, name := range []string{"influxd-1.6", "influxd-1.8"} {
		t.Run(name, func(t *testing.T) {
			program, err := filepath.Abs(filepath.Join("..", "..", "bin", "tools", name))
			if err == nil {
				_, err = os.Stat(program)
			}
			if err != nil {
				t.Skipf("there is no bin/tools/%s: make influx", name)
			}
			address := start(t, program)
			l, said := open(t, address, func(o *influx.Options) { o.BatchSize, o.MaxWorkers = 300, 2 })
			logMany(l, 1000)
			if err := l.Close(t.Context()); err != nil {
				t.Fatalf("%v\n%s", err, said)
			}
			if got := ask(t, address, `SELECT count(v), sum(v) FROM "Mx"`); !strings.Contains(got, "1000,499500]") {
				t.Errorf("it has %s", got)
			}
		})
	}
}

func start(t *testing.T, program string) (address string) {
	t.Helper()
	dir := t.TempDir()
	ports := [2]string{}
	for i := range ports {
		free, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ports[i] = free.Addr().String()
		_ = free.Close()
	}
	config := filepath.Join(dir, "conf")
	text := fmt.Sprintf("reporting-disabled = true\nbind-address = %q\n[meta]\ndir = %q\n[data]\ndir = %q\nwal-dir = %q\n[http]\nbind-address = %q\n",
		ports[0], dir+"/meta", dir+"/data", dir+"/wal", ports[1])
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "-config", config)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	address = "http://" + ports[1]
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if strings.Contains(ask(t, address, "CREATE DATABASE tplr"), "results") {
			return address
		}
		if time.Now().After(deadline) {
			t.Fatal("the InfluxDB did not start")
		}
	}
}

func ask(t *testing.T, address, query string) string {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address+"/query?"+url.Values{"db": {"tplr"}, "q": {query}}.Encode(), nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		return ""
	}
	defer func() { _ = answer.Body.Close() }()
	text, _ := io.ReadAll(answer.Body)
	return string(text)
}
