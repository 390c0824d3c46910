package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"golang.org/x/sys/unix"

	"github.com/kymogram/kymogram"
)

// screenTest is the other side of a pseudo-terminal. It plays the terminal by its own rules, as
// far as `top` uses them, and notes every byte that it does not understand.
type screenTest struct {
	t      *testing.T
	master *os.File
	slave  *os.File

	mu      sync.Mutex
	rows    map[int]string
	all     bytes.Buffer
	unknown []string
}

var (
	placed = regexp.MustCompile(`^\x1b\[(\d+);1H`)
	styled = regexp.MustCompile(`^\x1b\[\d+m`)
	modes  = regexp.MustCompile(`^\x1b\[(\?1049[hl]|\?25[hl]|\?7[hl]|2J|K)`)
)

func openTerminal(t *testing.T, width, height uint16) *screenTest {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal("a Linux without pseudo-terminals: ", err)
	}
	fd := int(master.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	s := &screenTest{t: t, master: master, slave: slave, rows: map[int]string{}}
	t.Cleanup(func() { slave.Close(); master.Close() })
	s.resize(width, height)
	go s.read()
	return s
}

func (s *screenTest) resize(width, height uint16) {
	s.t.Helper()
	if err := unix.IoctlSetWinsize(int(s.master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: height, Col: width}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *screenTest) read() {
	var rest []byte
	buffer := make([]byte, 1<<16)
	for {
		n, err := s.master.Read(buffer)
		s.mu.Lock()
		s.all.Write(buffer[:n])
		rest = s.play(append(rest, buffer[:n]...))
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// play draws what came and returns what is not complete yet.
func (s *screenTest) play(b []byte) []byte {
	row := 0
	for len(b) > 0 {
		end := bytes.Index(b, []byte("\x1b[K")) // a line ends so
		if m := placed.FindSubmatch(b); m != nil && end < 0 {
			return b
		} else if m != nil {
			row, _ = strconv.Atoi(string(m[1]))
			s.rows[row] = ""
			b = b[len(m[0]):]
		} else if m := styled.Find(b); m != nil {
			b = b[len(m):]
		} else if m := modes.Find(b); m != nil {
			if string(m) == "\x1b[2J" {
				clear(s.rows)
			}
			b = b[len(m):]
		} else if b[0] == 0x1b && len(b) < 8 {
			return b
		} else if b[0] < ' ' || b[0] == 0x7f {
			s.unknown = append(s.unknown, fmt.Sprintf("%q", b[:min(len(b), 12)]))
			b = b[1:]
		} else {
			next := bytes.IndexFunc(b, func(r rune) bool { return r < ' ' || r == 0x7f })
			if next < 0 {
				return b
			}
			s.rows[row] += string(b[:next])
			b = b[next:]
		}
	}
	return nil
}

// text is the screen.
func (s *screenTest) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	for i := 1; i <= 200; i++ {
		b.WriteString(s.rows[i] + "\n")
	}
	return strings.TrimRight(b.String(), "\n")
}

func (s *screenTest) types(keys string) {
	if _, err := s.master.WriteString(keys); err != nil {
		s.t.Fatal(err)
	}
}

func (s *screenTest) bytes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all.Len()
}

// watch runs `kymogram top` on the terminal; the returned function quits and checks what the terminal got.
func (k *kitchen) watch(s *screenTest, args ...string) (quit func()) {
	ended := k.watchUntil(s, args...)
	return func() {
		k.t.Helper()
		s.types("q")
		if code, errs := ended(); code != 0 {
			k.t.Errorf("top ended with %d: %s", code, errs)
		}
	}
}

// watchUntil runs `kymogram top` on the terminal; the returned function waits for its end and checks what the terminal got.
func (k *kitchen) watchUntil(s *screenTest, args ...string) (ended func() (int, string)) {
	done := make(chan int, 1)
	var errs bytes.Buffer
	go func() {
		done <- run(k.t.Context(), append([]string{"top"}, args...), stdio{in: s.slave, out: s.slave, err: &errs, env: k.getenv})
	}()
	return func() (code int, said string) {
		k.t.Helper()
		select {
		case code = <-done:
		case <-time.After(20 * time.Second):
			k.t.Fatal("top does not end\n" + s.text())
		}
		k.until("the terminal is given back", func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return bytes.HasSuffix(s.all.Bytes(), []byte("\x1b[?7h\x1b[?25h\x1b[?1049l"))
		})
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.unknown) > 0 {
			k.t.Errorf("the terminal got %v", s.unknown)
		}
		return code, errs.String()
	}
}

// live opens a run that delivers while it logs.
func (k *kitchen) live(name string) *kymogram.Run {
	k.t.Helper()
	r, err := kymogram.Init(context.Background(), kymogram.Options{
		Server: "http://" + k.address, APIKey: k.key(), RunName: name, SpoolDir: k.t.TempDir(), NoEnvironment: true, NoSystemMetrics: true,
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		k.t.Fatal(err)
	}
	return r
}

// A run is watched while it logs: new values, new metrics, a smaller terminal, keys, names
// that are escape sequences.
func TestTopWatchesALiveRun(t *testing.T) {
	k := serveKitchen(t)
	r := k.live("watched")
	hostile := map[string]float64{"zero\u200bwidth": 1, "\u202erl": 1, "za" + strings.Repeat("\u0301", 300): 1, "日本語/損失": 1, "__proto__": 1}
	for i := range 400 {
		values := map[string]float64{"loss": 1 / float64(1+i), "spike": float64(i % 3), "broken": math.NaN()}
		if i == 200 {
			values["spike"] = 1000
		}
		for name, v := range values {
			if err := r.Log(name, v); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, v := range hostile {
		if err := r.Log(name, v); err != nil {
			t.Fatal(err)
		}
	}
	k.until("the run is there", func() bool {
		code, out, _ := k.run("series", "list", "default/default/watched")
		return code == 0 && strings.Count(out, "\n") == 9
	})
	s := openTerminal(t, 120, 30)
	quit := k.watch(s, "default/default/watched")
	k.until("values and curves", func() bool {
		text := s.text()
		return strings.Contains(text, "400 NaN") && strings.Contains(text, "▲") && strings.Contains(text, "● running  default/default/watched") && strings.Contains(text, "step 399")
	})
	for line := range strings.Lines(s.text()) {
		for _, c := range strings.TrimSuffix(line, "\n") {
			if !unicode.IsPrint(c) {
				t.Errorf("%q reached the terminal in %q", c, line)
			}
		}
	}
	if err := r.Log("loss", 12345.0); err != nil {
		t.Fatal(err)
	}
	if err := r.Log("new/metric", 77.0); err != nil {
		t.Fatal(err)
	}
	k.until("what is logged now", func() bool {
		text := s.text()
		return strings.Contains(text, "12345") && strings.Contains(text, "new/metric") && strings.Contains(text, "77")
	})
	s.types("/los")
	k.until("the filter", func() bool { return strings.Contains(s.text(), "loss") && !strings.Contains(s.text(), "broken") })
	s.types("\r\x1b")
	k.until("all again", func() bool { return strings.Contains(s.text(), "broken") })
	s.types("sss")
	k.until("order by points", func() bool { return strings.Index(s.text(), "loss") < strings.Index(s.text(), "__proto__") })
	s.types("xw?")
	k.until("help", func() bool {
		return strings.Contains(s.text(), "the next axis") && strings.Contains(s.text(), "x axis: time_ns")
	})
	s.resize(20, 5)
	k.until("a small terminal", func() bool { return strings.Count(s.text(), "\n") == 4 })
	s.types("?")
	k.until("rows again", func() bool { return strings.Contains(s.text(), "12345") })
	for line := range strings.Lines(s.text()) {
		if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 20 {
			t.Errorf("%d characters in a line of 20: %q", n, line)
		}
	}
	if err := r.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	k.until("the end of the run", func() bool { return strings.Contains(s.text(), "✓ finished") })
	quit()
}

// A run of 10,000 metrics takes no more of a screen, a wire and a terminal than one of few:
// what is asked for is what is seen.
func TestTopAsksForWhatIsSeen(t *testing.T) {
	k := serveKitchen(t)
	const many = 10_000
	k.logged(kymogram.Options{RunName: "wide"}, func(r *kymogram.Run) error {
		for step := range 3 {
			for i := range many {
				if err := r.Log(fmt.Sprintf("layer/%05d", i), float64(i*step)); err != nil {
					return err
				}
			}
		}
		return nil
	})
	asked := 0
	var mu sync.Mutex
	away := k.proxy(func(r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if strings.HasSuffix(r.URL.Path, "/buckets") {
			asked++
		}
	})
	s := openTerminal(t, 100, 24)
	quit := k.watch(s, "default/default/wide", "--server", away.url, "--key", k.key())
	k.until("the first rows", func() bool {
		return strings.Contains(s.text(), "1–21 of 10,000") && strings.Contains(s.text(), "▁")
	})
	s.types("G")
	k.until("the last rows", func() bool { return strings.Contains(s.text(), "layer/09999") && strings.Contains(s.text(), "19998") })
	mu.Lock()
	requests := asked
	mu.Unlock()
	if requests > 12 {
		t.Errorf("%d requests for curves, %d rows were seen", requests, 2*21)
	}
	// A server that goes away is told of, and what was seen stays; it comes back by itself.
	away.stop()
	k.until("the server is away", func() bool {
		text := s.text()
		return strings.Contains(text, "the server does not answer for") && strings.Contains(text, "layer/09999")
	})
	away.start()
	k.until("the server is back", func() bool { return !strings.Contains(s.text(), "does not answer") })
	before := s.bytes()
	k.until("the whole is drawn again", func() bool {
		last := before
		time.Sleep(500 * time.Millisecond)
		before = s.bytes()
		return before-last < 500
	})
	time.Sleep(2 * time.Second)
	if n := s.bytes() - before; n > 2_000 {
		t.Errorf("%d bytes were drawn where nothing changed", n)
	}
	quit()
}

// What ends the watching from outside: a key that is revoked, a terminal that is closed.
func TestTopEnds(t *testing.T) {
	k := serveKitchen(t)
	k.logRun("ending")
	var key struct{ ID, Key string }
	if err := json.Unmarshal([]byte(k.ok("key", "create", "--name", "guest", "--scope", "read", "--json")), &key); err != nil {
		t.Fatal(err)
	}
	s := openTerminal(t, 100, 24)
	ended := k.watchUntil(s, "lab/digits/ending", "--key", key.Key)
	k.until("the run", func() bool { return strings.Contains(s.text(), "lab/digits/ending") })
	k.ok("key", "revoke", key.ID)
	if code, errs := ended(); code != 1 || !strings.Contains(errs, "revoked") {
		t.Errorf("ended with %d: %s", code, errs)
	}
	s = openTerminal(t, 100, 24)
	ended = k.watchUntil(s, "lab/digits/ending")
	k.until("the run again", func() bool { return strings.Contains(s.text(), "lab/digits/ending") })
	if err := unix.Kill(os.Getpid(), unix.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if code, errs := ended(); code != 0 {
		t.Errorf("ended with %d: %s", code, errs)
	}
}

// awayProxy is a way to the server that can be cut.
type awayProxy struct {
	url     string
	address string
	serve   http.Handler
	server  *http.Server
	t       *testing.T
}

func (k *kitchen) proxy(see func(*http.Request)) *awayProxy {
	target, err := url.Parse("http://" + k.address)
	if err != nil {
		k.t.Fatal(err)
	}
	forward := httputil.NewSingleHostReverseProxy(target)
	forward.FlushInterval = -1
	forward.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	p := &awayProxy{t: k.t, address: "127.0.0.1:0", serve: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		see(r)
		forward.ServeHTTP(w, r)
	})}
	p.start()
	p.url = "http://" + p.address
	k.t.Cleanup(p.stop)
	return p
}

func (p *awayProxy) start() {
	lis, err := net.Listen("tcp", p.address)
	if err != nil {
		p.t.Fatal(err)
	}
	p.address = lis.Addr().String()
	p.server = &http.Server{Handler: p.serve}
	go func() { _ = p.server.Serve(lis) }()
}

func (p *awayProxy) stop() { _ = p.server.Close() }

// Without a terminal one table is printed, or a document.
func TestTopOnce(t *testing.T) {
	t.Parallel()
	k := serveKitchen(t)
	k.logRun("once")
	out := k.ok("top", "lab/digits/once")
	if !strings.Contains(out, "METRIC") || strings.Contains(out, "\x1b") {
		t.Errorf("printed %q", out)
	}
	var doc struct {
		Run     struct{ Name string }
		Metrics []struct {
			Metric, Kind string
			Points       int
		}
	}
	if err := json.Unmarshal([]byte(k.ok("top", "lab/digits/once", "--json", "--sort", "points")), &doc); err != nil || doc.Run.Name != "once" || len(doc.Metrics) != 3 {
		t.Errorf("%v: %+v", err, doc)
	}
	if out := k.ok("top", "lab/digits/once", "--metric", "nothing"); !strings.Contains(out, "0 metrics") {
		t.Error(out)
	}
	k.fails("--sort is", "top", "lab/digits/once", "--sort", "size")
	k.fails("there is no axis", "top", "lab/digits/once", "--axis", "stepp")
	k.fails("no run \"nothing-of-this-name\"", "top", "nothing-of-this-name")
	k.fails("there is no run", "top", "lab/digits/none")
}
