// Package postgres runs Debian's PostgreSQL in tests, or uses the one of POSTGRES_URL. Where
// it is not installed the test says so and is skipped; tools/prepare installs it.
package postgres

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Server is a PostgreSQL that runs until the test ends.
type Server struct {
	// Port is on 127.0.0.1; the user is postgres, without a password.
	Port   int
	given  string // the address of a server that is the user's
	folder string
	bin    string
	cmd    *exec.Cmd
	env    []string
	said   bytes.Buffer
}

// Any is the server of POSTGRES_URL where that is set, else one of the test's own.
func Any(t testing.TB) *Server {
	t.Helper()
	if given := os.Getenv("POSTGRES_URL"); given != "" {
		return &Server{given: given, bin: Bin(t), folder: t.TempDir()}
	}
	return Start(t)
}

// Bin is the folder of PostgreSQL's programs, or the test is skipped.
func Bin(t testing.TB) string {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb") // the pattern is valid
	if len(found) == 0 {
		t.Skip("PostgreSQL is not installed: apt-get install postgresql")
	}
	slices.SortFunc(found, func(a, b string) int { return version(a) - version(b) })
	return filepath.Dir(found[len(found)-1])
}

func version(path string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path)))) // 0 where it is none
	return n
}

// Start makes a database in a folder of its own and serves it. Settings are lines of its
// configuration.
func Start(t testing.TB, settings ...string) *Server {
	t.Helper()
	s := Prepare(t)
	s.run(t, "initdb", "--pgdata", s.Data(), "--username", "postgres", "--auth", "trust", "--encoding", "UTF8", "--locale", "C.UTF-8", "--no-sync", "--no-instructions")
	s.Configure(t, append([]string{"max_connections = 200", "fsync = off", "max_pred_locks_per_transaction = 256", "wal_retrieve_retry_interval = 200ms"}, settings...)...)
	s.Serve(t)
	return s
}

// Prepare has a folder and a port, and no database yet.
func Prepare(t testing.TB) *Server {
	t.Helper()
	s := &Server{bin: Bin(t)}
	folder, err := os.MkdirTemp("", "kymogram-postgres-") // a test's own lies where other users may not go
	if err != nil {
		t.Fatal(err)
	}
	s.folder = folder
	t.Cleanup(func() {
		s.Kill()
		if t.Failed() {
			t.Logf("PostgreSQL said:\n%s", s.said.String())
		}
		_ = os.RemoveAll(folder)
	})
	if owner := credential(t); owner != nil {
		if err := os.Chown(folder, int(owner.Uid), int(owner.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.Port = listener.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // it listens on TCP
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	return s
}

// credential is the user postgres where the test runs as root, whom PostgreSQL refuses.
func credential(t testing.TB) *syscall.Credential {
	t.Helper()
	if os.Getuid() != 0 {
		return nil
	}
	account, err := user.Lookup("postgres")
	if err != nil {
		t.Fatal(err)
	}
	uid, _ := strconv.Atoi(account.Uid) // numbers on every system with this user
	gid, _ := strconv.Atoi(account.Gid)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

// PID is the number of its first process at the operating system; the others are its children.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Data is its folder of data.
func (s *Server) Data() string { return filepath.Join(s.folder, "data") }

// Configure adds lines to its configuration.
func (s *Server) Configure(t testing.TB, lines ...string) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(s.Data(), "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString("\n" + strings.Join(lines, "\n") + "\n"); err != nil {
		t.Fatal(err)
	}
}

// command is one of its programs, as its user.
func (s *Server) command(ctx context.Context, t testing.TB, name string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(ctx, filepath.Join(s.bin, name), args...)
	cmd.Dir = s.folder
	cmd.Env = append([]string{"PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8", "HOME=" + s.folder}, s.env...)
	if s.given != "" {
		cmd.Env = os.Environ() // with the user's password
		return cmd
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential(t)}
	return cmd
}

func (s *Server) run(t testing.TB, name string, args ...string) {
	t.Helper()
	if out, err := s.command(t.Context(), t, name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
}

// Serve starts it, and waits until it answers.
func (s *Server) Serve(t testing.TB) {
	t.Helper()
	s.cmd = s.command(context.Background(), t, "postgres", "-D", s.Data(), "-p", strconv.Itoa(s.Port), "-k", s.folder, "-h", "127.0.0.1")
	s.cmd.Stdout, s.cmd.Stderr = &s.said, &s.said
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(3 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if s.command(t.Context(), t, "pg_isready", "-q", "-h", "127.0.0.1", "-p", strconv.Itoa(s.Port)).Run() == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("PostgreSQL does not answer:\n%s", s.said.String())
		}
	}
}

func (s *Server) address() string {
	if s.given != "" {
		return s.given
	}
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres", s.Port)
}

// URL is a new schema, which is dropped with the test.
func (s *Server) URL(t testing.TB) string {
	t.Helper()
	name := "kymogram_" + strings.ToLower(rand.Text())
	s.Do(t, "CREATE SCHEMA "+name)
	if s.given != "" {
		t.Cleanup(func() { s.Do(t, "DROP SCHEMA "+name+" CASCADE") })
	}
	joint := "?"
	if strings.Contains(s.address(), "?") {
		joint = "&"
	}
	return s.address() + joint + "search_path=" + name
}

// Do runs statements with psql.
func (s *Server) Do(t testing.TB, statements string) string {
	t.Helper()
	cmd := s.command(context.WithoutCancel(t.Context()), t, "psql", "-v", "ON_ERROR_STOP=1", "-At", "-c", statements, s.address())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("psql: %v\n%s", err, out)
	}
	return string(out)
}
