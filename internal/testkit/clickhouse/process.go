package clickhouse

import (
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// process is a program that a test kills and freezes.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed when it has
}

// wait waits until a program that was started answers. One that ends by itself is started again,
// as a machine's service manager does.
func (p *process) wait(t testing.TB, program func() *exec.Cmd, answers func() bool) {
	t.Helper()
	for end := time.Now().Add(3 * time.Minute); !answers(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s does not answer", p.cmd.Path)
		}
		select {
		case <-p.ended:
			p.start(t, program())
		default:
		}
	}
}

func (p *process) start(t testing.TB, program *exec.Cmd) {
	t.Helper()
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	p.cmd, p.ended = program, ended
	go func() {
		_ = program.Wait() // it was killed, or says why in its log
		close(ended)
	}()
}

// Kill ends it as a crash does.
func (p *process) Kill() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill()
	<-p.ended
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
