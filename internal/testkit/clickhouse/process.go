package clickhouse

import (
	"os/exec"
	"syscall"
	"testing"
)

// process is a program that a test kills and freezes.
type process struct{ cmd *exec.Cmd }

// Kill ends it as a crash does.
func (p *process) Kill() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	p.cmd = nil
}

// PID is its number at the operating system.
func (p *process) PID() int { return p.cmd.Process.Pid }

// Freeze stops it where it is: connections stay, and nothing is answered until it thaws.
func (p *process) Freeze(t testing.TB) { p.signal(t, syscall.SIGSTOP) }

// Thaw lets it go on.
func (p *process) Thaw(t testing.TB) { p.signal(t, syscall.SIGCONT) }

func (p *process) signal(t testing.TB, what syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(what); err != nil {
		t.Fatal(err)
	}
}
