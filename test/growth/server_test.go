package growth

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// lab is one server with an empty data folder.
type lab struct {
	t            *testing.T
	folder       string
	address, key string
	conn         *grpc.ClientConn
	client       *http.Client
}

// scratch holds the binary under test as long as the tests run.
var scratch string

func TestMain(m *testing.M) {
	var err error
	if scratch, err = os.MkdirTemp("", "growth-"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(scratch) // it is a temporary one
	os.Exit(code)
}

// built makes the binary under test, once for all tests, unless KYMOGRAM_BINARY
// names one.
var built = sync.OnceValues(func() (string, error) {
	if path := os.Getenv("KYMOGRAM_BINARY"); path != "" {
		return path, nil
	}
	path := filepath.Join(scratch, "kymogram")
	out, err := exec.Command("go", "build", "-o", path, "../../server/cmd/kymogram").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the binary: %w\n%s", err, out)
	}
	return path, nil
})

// start starts a server; it ends with the test.
func start(t *testing.T) *lab {
	t.Helper()
	path, err := built()
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{t: t, folder: t.TempDir(), client: &http.Client{Transport: &http.Transport{}}}
	cmd := exec.CommandContext(t.Context(), path, "serve", "--data", l.data(), "--http", "127.0.0.1:0", "--log-level", "error")
	cmd.Env = append(os.Environ(), "HOME="+l.folder, "XDG_CONFIG_HOME="+l.folder, "KYMOGRAM_STATE_LOG=true")
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatalf("start the server: %v", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed: there is no other news
		l.client.CloseIdleConnections()
	})
	line, _ := bufio.NewReader(out).ReadString('\n')
	m := regexp.MustCompile(`http=(\S+)`).FindStringSubmatch(line)
	if m == nil {
		t.Fatalf("the server printed no ready line, but %q", line)
	}
	key, err := os.ReadFile(filepath.Join(l.data(), "admin.key"))
	if err != nil {
		t.Fatal(err)
	}
	l.address, l.key = m[1], strings.TrimSpace(string(key))
	if l.conn, err = grpc.NewClient("passthrough:///"+l.address, grpc.WithTransportCredentials(insecure.NewCredentials())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.conn.Close() })
	return l
}

func (l *lab) data() string { return filepath.Join(l.folder, "data") }

// spent is what the server has used since its start, by its own /metrics.
func (l *lab) spent() cost {
	l.t.Helper()
	_, text := l.send("GET", "/metrics", nil, nil)
	value := func(name string) float64 {
		m := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindSubmatch(text)
		if m == nil {
			l.t.Fatalf("/metrics has no %s:\n%.300s", name, text)
		}
		v, err := strconv.ParseFloat(string(m[1]), 64)
		if err != nil {
			l.t.Fatal(err)
		}
		return v
	}
	c := cost{bytes: value("go_memstats_alloc_bytes_total"), objects: value("go_memstats_mallocs_total"), disk: folderBytes(l.t, l.data())}
	if *processor {
		c.seconds = value("process_cpu_seconds_total")
	}
	return c
}

// rests waits until the server has ended what the calls before made it begin, such as the
// summaries of a run: looks at it cost the same again. One that always does something is
// measured as it is. It gives what a look costs.
func (l *lab) rests() (look cost) {
	l.t.Helper()
	look.objects = math.Inf(1)
	calm, before := 0, l.spent()
	for looks := 1; looks <= 50 && (looks < 4 || calm < 2); looks++ {
		time.Sleep(100 * time.Millisecond)
		now := l.spent()
		spent := now.minus(before)
		if before = now; spent.objects < look.objects {
			look = spent
		}
		if calm++; spent.objects > 1.3*look.objects {
			calm = 0
		}
	}
	return look
}

// took measures the server while do runs, less what a look at /metrics costs.
func (l *lab) took(do func()) cost {
	l.t.Helper()
	look := l.rests()
	before := l.spent()
	do()
	return l.spent().minus(before).minus(look)
}

// folderBytes are the bytes of all files below a folder. SQLite's own logs are
// left out: their size says when SQLite last took one in, not what a call left.
// What they hold is in the mirror beside them too, and that one counts.
func folderBytes(t *testing.T, folder string) float64 {
	t.Helper()
	var sum int64
	err := filepath.WalkDir(folder, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(d.Name(), ".db-wal") || strings.HasSuffix(d.Name(), ".db-shm") {
			return nil //nolint:nilerr // a file that was deleted in the meantime
		}
		if info, err := d.Info(); err == nil {
			sum += info.Size()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return float64(sum)
}

// send makes one request with the admin key and reads the whole answer.
func (l *lab) send(method, path string, body []byte, header map[string]string) (int, []byte) {
	l.t.Helper()
	response := l.ask(method, path, body, header)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		l.t.Fatalf("%s %s: %v", method, path, err)
	}
	return response.StatusCode, text
}

// ask makes one request and leaves the answer unread.
func (l *lab) ask(method, path string, body []byte, header map[string]string) *http.Response {
	l.t.Helper()
	r, err := http.NewRequestWithContext(l.t.Context(), method, "http://"+l.address+path, bytes.NewReader(body))
	if err != nil {
		l.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+l.key)
	r.Header.Set("Accept-Encoding", "identity")
	for k, v := range header {
		r.Header.Set(k, v)
	}
	response, err := l.client.Do(r)
	if err != nil {
		l.t.Fatalf("%s %s: %v", method, path, err)
	}
	return response
}

// ok makes one request that must be taken.
func (l *lab) ok(method, path string, body []byte, header ...map[string]string) []byte {
	l.t.Helper()
	var h map[string]string
	if len(header) > 0 {
		h = header[0]
	}
	code, text := l.send(method, path, body, h)
	if code/100 != 2 {
		l.t.Fatalf("%s %s: %d %.300s", method, path, code, text)
	}
	return text
}

// any makes one request that may be refused, but not by a failure.
func (l *lab) any(method, path string, body []byte, header map[string]string) {
	l.t.Helper()
	if code, text := l.send(method, path, body, header); code >= 500 && code != http.StatusServiceUnavailable {
		l.t.Fatalf("%s %s: %d %.300s", method, path, code, text)
	}
}

// measure runs rows against servers of their own, some at a time.
func measure(t *testing.T, rows []row[*lab]) {
	t.Helper()
	short(t)
	for _, r := range rows {
		if !r.wanted() {
			continue
		}
		t.Run(titled(r.name()), func(t *testing.T) {
			if !*processor {
				t.Parallel()
			}
			r.judge(t, noise(), func(n int) cost {
				l := start(t)
				return l.took(r.run(l, n))
			})
		})
	}
}
