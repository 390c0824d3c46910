package postgres

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/testkit/clock"
)

// Kill ends it as a crash does, with all its processes.
func (s *Server) Kill() {
	if s.cmd == nil {
		return
	}
	// SIGQUIT is its immediate shutdown: no checkpoint, and its children end with it. What is
	// frozen does so when it goes on.
	s.signal(syscall.SIGQUIT)
	s.signal(syscall.SIGCONT)
	_ = s.cmd.Wait()
	s.cmd = nil
}

// Freeze stops it with all its processes: connections stay, and nothing is answered until it thaws.
func (s *Server) Freeze(t testing.TB) {
	t.Helper()
	s.signal(syscall.SIGSTOP)
	for end := time.Now().Add(time.Minute); !s.frozen(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("PostgreSQL does not stop")
		}
	}
	s.signal(syscall.SIGSTOP) // what it began meanwhile
}

// Thaw lets it go on.
func (s *Server) Thaw() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(what syscall.Signal) {
	for _, pid := range append([]int{s.cmd.Process.Pid}, s.children()...) {
		_ = syscall.Kill(pid, what) // it may have ended
	}
}

func (s *Server) frozen() bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
	return err == nil && strings.Contains(string(stat), ") T ")
}

// children are the processes that it began, each with a session of its own.
func (s *Server) children() (out []int) {
	pid := s.cmd.Process.Pid
	list, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid)) // empty where it ended
	for _, text := range strings.Fields(string(list)) {
		if n, err := strconv.Atoi(text); err == nil {
			out = append(out, n)
		}
	}
	return out
}

// Ahead gives it a clock that is ahead by so much, from its next start on.
func (s *Server) Ahead(t testing.TB, by time.Duration) {
	t.Helper()
	s.env = clock.Env(t, by)
}
