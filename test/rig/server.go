package rig

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Server is a running `kymogram serve`.
type Server struct {
	Address string // http://HOST:PORT
	Data    string
	Start   time.Duration // how long the last start took until the ready line
	rig     *Rig
	cmd     *exec.Cmd
	done    chan error
	stderr  lockedBuffer
}

// Pid is the server's process.
func (s *Server) Pid() int { return s.cmd.Process.Pid }

// Serve starts a server on a free port and waits until it is ready.
func (r *Rig) Serve(t *testing.T, args ...string) *Server {
	t.Helper()
	s := &Server{Data: filepath.Join(r.Dir, "data"), rig: r}
	s.start(t, "127.0.0.1:0", args...)
	t.Cleanup(func() {
		if s.cmd != nil {
			s.Kill(t)
		}
		if t.Failed() {
			t.Logf("the server's last words:\n%s", tail(s.stderr.String(), 40))
		}
	})
	return s
}

// ServeData starts a server on a data folder that is there already.
func (r *Rig) ServeData(t *testing.T, data string) *Server {
	t.Helper()
	s := &Server{Data: data, rig: r}
	s.start(t, "127.0.0.1:0")
	t.Cleanup(func() {
		if s.cmd != nil {
			s.Kill(t)
		}
	})
	return s
}

func (s *Server) start(t *testing.T, address string, args ...string) {
	t.Helper()
	cmd := s.rig.Command(t, s.rig.Binary(), append([]string{"serve", "--data", s.Data, "--http", address}, args...)...)
	cmd.Stderr = &s.stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatalf("start the server: %v", err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed: there is no other news
		t.Fatalf("the server said no ready line: %v\n%s", err, tail(s.stderr.String(), 40))
	}
	s.Start = time.Since(began)
	m := regexp.MustCompile(`^ready http=(\S+) grpc=(\S+)\n$`).FindStringSubmatch(line)
	if m == nil {
		t.Fatalf("the ready line is %q", line)
	}
	s.Address, s.cmd, s.done = "http://"+m[1], cmd, make(chan error, 1)
	done := s.done
	go func() { done <- cmd.Wait() }()
}

// Kill sends SIGKILL and waits for the end.
func (s *Server) Kill(t *testing.T) {
	t.Helper()
	_ = s.cmd.Process.Kill()
	if err := <-s.done; err == nil {
		t.Error("the server had ended before it was killed")
	}
	s.cmd = nil
}

// Stop sends SIGTERM: the server must drain and end with 0 within 5 s.
func (s *Server) Stop(t *testing.T) {
	t.Helper()
	start, process := time.Now(), s.cmd.Process
	if err := process.Signal(syscall.SIGTERM); err != nil {
		t.Fatalf("stop the server: %v", err)
	}
	// A server that hangs tells with its stacks where.
	stuck := time.AfterFunc(time.Minute, func() { _ = process.Signal(syscall.SIGQUIT) })
	defer stuck.Stop()
	if err := <-s.done; err != nil {
		t.Errorf("the server ended with %v after SIGTERM\n%s", err, tail(s.stderr.String(), 400))
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("the server took %v to stop", took)
	}
	s.cmd = nil
}

// Restart starts it again on the same address and data.
func (s *Server) Restart(t *testing.T, args ...string) {
	t.Helper()
	s.start(t, strings.TrimPrefix(s.Address, "http://"), args...)
}

// Move starts it again on another port.
func (s *Server) Move(t *testing.T) {
	t.Helper()
	s.start(t, "127.0.0.1:0")
}

// LoginLink is a one-time link that signs a browser in.
func (s *Server) LoginLink(t *testing.T) string {
	t.Helper()
	return strings.TrimSpace(s.rig.CLI(t, "key", "link", "--server", s.Address, "--key", s.Key(t)))
}

// Key is the admin key.
func (s *Server) Key(t *testing.T) string {
	t.Helper()
	key, err := os.ReadFile(filepath.Join(s.Data, "admin.key"))
	if err != nil {
		t.Fatalf("read the admin key: %v", err)
	}
	return strings.TrimSpace(string(key))
}

// Client reads the server's API with its admin key.
func (s *Server) Client(t *testing.T) *Client {
	t.Helper()
	return &Client{base: s.Address, key: s.Key(t)}
}

// lockedBuffer collects output while a test reads it.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func tail(text string, lines int) string {
	all := strings.Split(text, "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
