// Package clickhouse runs Debian's ClickHouse in tests, or uses the one of CLICKHOUSE_ADDRS.
// Where it is not installed the test says so and is skipped; tools/prepare installs it.
package clickhouse

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/testkit/clock"
	"github.com/kymogram/kymogram/internal/testkit/port"
)

// Server is a ClickHouse that runs until the test ends.
type Server struct {
	process

	// Addrs are HOST:PORT of the native protocol; the user is default, without a password.
	// A server of the test's own has one, on 127.0.0.1.
	Addrs  []string
	folder string // empty for the user's own
	binary string
	http   int
	env    []string // more of it
}

// Any is the server of CLICKHOUSE_ADDRS, addresses with commas between, where that is set, else
// one of the test's own.
func Any(t testing.TB) *Server {
	t.Helper()
	if given := os.Getenv("CLICKHOUSE_ADDRS"); given != "" {
		return &Server{Addrs: strings.Split(given, ",")}
	}
	return Start(t)
}

// Start makes an empty server in a folder of its own, and waits until it answers.
func Start(t testing.TB) *Server {
	t.Helper()
	s := prepare(t, port.Free(t, 2), "")
	s.Serve(t)
	return s
}

// prepare makes a folder for a server on two ports, the native and the HTTP one. More is for its
// configuration.
func prepare(t testing.TB, ports []int, more string) *Server {
	t.Helper()
	s := &Server{binary: binary(t), folder: t.TempDir(), http: ports[1]}
	s.Addrs = []string{net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[0]))}
	t.Cleanup(func() {
		s.Kill()
		if t.Failed() {
			t.Logf("ClickHouse reported:\n%s", s.errors())
		}
	})
	s.write(t, "config.xml", fmt.Sprintf(configuration, s.folder, ports[0], ports[1], more))
	s.write(t, "users.xml", users)
	return s
}

// binary is the server's program, or the test is skipped. Debian puts it where only root's
// PATH leads.
func binary(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"clickhouse-server", "/usr/sbin/clickhouse-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("ClickHouse is not installed: apt-get install --no-install-recommends clickhouse-server clickhouse-client, or set CLICKHOUSE_ADDRS")
	return ""
}

func (s *Server) write(t testing.TB, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(s.folder, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Serve starts it, also again after [Server.Kill], and waits until it answers.
func (s *Server) Serve(t testing.TB) {
	t.Helper()
	s.start(t, s.program())
	s.ready(t)
}

func (s *Server) ready(t testing.TB) {
	t.Helper()
	s.wait(t, s.program, func() bool { return s.answers(t.Context()) })
}

func (s *Server) program() *exec.Cmd {
	cmd := exec.CommandContext(context.Background(), s.binary, "--config-file="+filepath.Join(s.folder, "config.xml"))
	cmd.Dir, cmd.Env = s.folder, append(os.Environ(), s.env...)
	return cmd
}

// Ahead gives it a clock that is ahead by so much, from its next start on.
func (s *Server) Ahead(t testing.TB, by time.Duration) {
	t.Helper()
	s.env = clock.Env(t, by)
}

func (s *Server) answers(ctx context.Context) bool {
	_, err := s.ask(ctx, "SELECT 1")
	return err == nil
}

// errors is the end of its log.
func (s *Server) errors() string {
	text, _ := os.ReadFile(filepath.Join(s.folder, "log")) // empty where it did not start
	return string(text[max(0, len(text)-8_000):])
}

// Database is a new one, which goes with the test.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	name := "kymogram_" + strings.ToLower(rand.Text())
	s.Do(t, "CREATE DATABASE "+name)
	if s.folder == "" {
		t.Cleanup(func() { s.Do(t, "DROP DATABASE "+name) })
	}
	return name
}

// Do runs one statement and returns its answer, a line for each row with tabs between.
func (s *Server) Do(t testing.TB, statement string) string {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	out, err := s.ask(ctx, statement)
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	return out
}

// ask speaks HTTP with the test's own server, and uses clickhouse-client for the user's, whose
// HTTP port is not known.
func (s *Server) ask(ctx context.Context, statement string) (string, error) {
	if s.folder == "" {
		host, port, err := net.SplitHostPort(s.Addrs[0])
		if err != nil {
			return "", fmt.Errorf("read CLICKHOUSE_ADDRS: %w", err)
		}
		out, err := exec.CommandContext(ctx, "clickhouse-client", "--host", host, "--port", port, "--query", statement).CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("clickhouse-client: %w: %s", err, out)
		}
		return string(out), nil
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, fmt.Sprintf("http://127.0.0.1:%d/", s.http), strings.NewReader(statement))
	if err != nil {
		return "", fmt.Errorf("make a request: %w", err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", fmt.Errorf("ask ClickHouse: %w", err)
	}
	defer answer.Body.Close()
	out, err := io.ReadAll(answer.Body)
	if err != nil {
		return "", fmt.Errorf("read ClickHouse's answer: %w", err)
	}
	if answer.StatusCode != http.StatusOK {
		return "", fmt.Errorf("ClickHouse answered %s: %s", answer.Status, out)
	}
	return string(out), nil
}
