package rig

import (
	"bytes"
	"os/exec"
	"strconv"
	"sync"
	"testing"
)

// Loop is a Python process that logs 0, 1, 2, … (test/rig/loop.py) and says each
// number after the call that logged it returned.
type Loop struct {
	cmd    *exec.Cmd
	opened chan struct{}
	ended  chan struct{}
	err    error
	stderr lockedBuffer

	mu       sync.Mutex
	returned int
	partial  []byte
}

// StartLoop starts a loop that logs into default/crash.
func (r *Rig) StartLoop(t *testing.T, server, run string, args ...string) *Loop {
	t.Helper()
	return r.StartLoopIn(t, nil, server, run, args...)
}

// StartLoopIn is StartLoop with more variables in the environment.
func (r *Rig) StartLoopIn(t *testing.T, env []string, server, run string, args ...string) *Loop {
	t.Helper()
	l := &Loop{opened: make(chan struct{}), ended: make(chan struct{})}
	l.cmd = r.Python(t, "test/rig/loop.py", append([]string{"--server", server, "--run", run}, args...)...)
	l.cmd.Env = r.Env(env...)
	l.cmd.Stdout, l.cmd.Stderr = (*loopOutput)(l), &l.stderr
	if err := l.cmd.Start(); err != nil {
		t.Fatalf("start the loop: %v", err)
	}
	go func() {
		l.err = l.cmd.Wait()
		close(l.ended)
	}()
	t.Cleanup(func() {
		_ = l.cmd.Process.Kill()
		<-l.ended
		if t.Failed() {
			t.Logf("the loop of %s said:\n%s", run, tail(l.stderr.String(), 20))
		}
	})
	return l
}

// WaitOpen waits until init returned.
func (l *Loop) WaitOpen(t *testing.T) {
	t.Helper()
	select {
	case <-l.opened:
	case <-l.ended:
		t.Fatalf("the loop ended before it began: %v\n%s", l.err, l.stderr.String())
	}
}

// Kill sends SIGKILL and waits until all output is read.
func (l *Loop) Kill() {
	_ = l.cmd.Process.Kill()
	<-l.ended
}

// Wait waits for the loop's own end, which must be a good one.
func (l *Loop) Wait(t *testing.T) {
	t.Helper()
	<-l.ended
	if l.err != nil {
		t.Fatalf("the loop ended with %v\n%s", l.err, l.stderr.String())
	}
}

// Ended reports whether the process is over.
func (l *Loop) Ended() bool {
	select {
	case <-l.ended:
		return true
	default:
		return false
	}
}

// Returned is how many calls of log() have returned, as far as they were heard.
func (l *Loop) Returned() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.returned
}

// loopOutput reads the loop's lines: "open", then one number a line.
type loopOutput Loop

func (o *loopOutput) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.partial = append(o.partial, p...)
	rest := o.partial
	for {
		line, after, found := bytes.Cut(rest, []byte("\n"))
		if !found {
			o.partial = bytes.Clone(rest)
			return len(p), nil
		}
		if string(line) == "open" {
			close(o.opened)
		} else if n, err := strconv.Atoi(string(line)); err == nil {
			o.returned = n + 1
		}
		rest = after
	}
}
