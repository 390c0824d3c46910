// Package nats runs servers of NATS with JetStream in tests: the program in test/nats, as
// processes of their own. Where it cannot be built the test says so and is skipped.
package nats

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/kymogram/kymogram/internal/testkit/port"
)

// Server is a process.
type Server struct {
	Name string

	args []string
	port int
	cmd  *exec.Cmd
}

// Start makes servers that are one cluster, or one that is alone, and waits until they answer.
func Start(t testing.TB, servers int, more ...string) []*Server {
	t.Helper()
	program := build(t)
	ports := port.Free(t, 2*servers)
	var routes []string
	for i := range servers {
		routes = append(routes, address(ports[servers+i]))
	}
	var out []*Server
	for i := range servers {
		s := &Server{Name: fmt.Sprintf("n%d", i+1), port: ports[i]}
		s.args = append([]string{program, "-name", s.Name, "-dir", t.TempDir(), "-port", strconv.Itoa(s.port)}, more...)
		if servers > 1 {
			s.args = append(s.args, "-cluster", strconv.Itoa(ports[servers+i]), "-routes", strings.Join(routes, ","))
		}
		t.Cleanup(s.Kill)
		out = append(out, s)
		s.Serve(t)
	}
	return out
}

// URL is the address of some servers.
func URL(list ...*Server) string {
	var at []string
	for _, s := range list {
		at = append(at, address(s.port))
	}
	return "nats://" + strings.Join(at, ",")
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// Serve starts it, also again after [Server.Kill], and waits until it takes connections.
func (s *Server) Serve(t testing.TB) {
	t.Helper()
	s.cmd = exec.CommandContext(context.Background(), s.args[0], s.args[1:]...)
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("NATS does not start: %q, %v", line, err)
	}
}

// Kill ends it as a crash does.
func (s *Server) Kill() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
	s.cmd = nil
}

// Freeze stops it where it is: connections stay, and nothing is answered until it thaws.
func (s *Server) Freeze(t testing.TB) { s.signal(t, syscall.SIGSTOP) }

// Thaw lets it go on.
func (s *Server) Thaw(t testing.TB) { s.signal(t, syscall.SIGCONT) }

func (s *Server) signal(t testing.TB, what syscall.Signal) {
	t.Helper()
	if err := s.cmd.Process.Signal(what); err != nil {
		t.Fatal(err)
	}
}

// build gives the program, which is made anew when its source is newer.
func build(t testing.TB) string {
	t.Helper()
	_, file, _, _ := runtime.Caller(0)
	root := filepath.Join(filepath.Dir(file), "..", "..", "..")
	source, program := filepath.Join(root, "test", "nats"), filepath.Join(root, "bin", "tools", "nats")
	if fresh(program, filepath.Join(source, "main.go"), filepath.Join(source, "go.mod")) {
		return program
	}
	if err := os.MkdirAll(filepath.Dir(program), 0o750); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) ([]byte, error) {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir, cmd.Env = source, append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
		return cmd.CombinedOutput()
	}
	if out, err := run("mod", "download"); err != nil {
		t.Skipf("NATS needs its Go module: %v\n%s", err, out)
	}
	own := fmt.Sprintf("%s.%d", program, os.Getpid()) // several tests may build it at once
	if out, err := run("build", "-o", own, "."); err != nil {
		t.Fatalf("build NATS: %v\n%s", err, out)
	}
	if err := os.Rename(own, program); err != nil {
		t.Fatal(err)
	}
	return program
}

func fresh(program string, sources ...string) bool {
	made, err := os.Stat(program)
	if err != nil {
		return false
	}
	for _, name := range sources {
		if s, err := os.Stat(name); err != nil || s.ModTime().After(made.ModTime()) {
			return false
		}
	}
	return true
}
