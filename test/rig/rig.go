// Package rig runs the real binary and the real Python package as processes,
// for the tests in test/e2e and test/crash. Each Rig has a folder of its own:
// data, spool and credentials of one test never meet those of another, nor those
// of whoever runs the tests. `make setup` builds what it needs.
//
// server.go starts and kills servers, loop.go trainings, proxy.go cuts the network
// between them; oracle.go reads what the trainings said that they logged, which is
// what tests compare with. Start reading at [New].
package rig

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kymogram/kymogram"
)

// Rig is one test's machine room.
type Rig struct {
	Root  string // of the repository
	Dir   string // of this test
	Spool string
	// Program is another binary than bin/kymogram.
	Program string
	env     []string
}

// New makes the folders of a test. Its agents are ended with the test.
func New(t *testing.T) *Rig {
	t.Helper()
	r := &Rig{Root: root(t), Dir: t.TempDir()}
	r.Spool = filepath.Join(r.Dir, "spool")
	for _, file := range []string{r.Binary(), r.python()} {
		if _, err := os.Stat(file); err != nil {
			t.Fatalf("%v: run make setup", err)
		}
	}
	r.env = append(cleanEnv(os.Environ()),
		"XDG_CONFIG_HOME="+filepath.Join(r.Dir, "config"),
		"XDG_STATE_HOME="+filepath.Join(r.Dir, "state"),
		"KYMOGRAM_SPOOL_DIR="+r.Spool)
	t.Cleanup(func() { r.endAgent(t) })
	return r
}

// cleanEnv drops what would make a test depend on who runs it.
func cleanEnv(env []string) []string {
	var out []string
	for _, v := range env {
		if !strings.HasPrefix(v, "KYMOGRAM_") && !strings.HasPrefix(v, "XDG_") {
			out = append(out, v)
		}
	}
	return out
}

func root(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for dir != filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir
		}
		dir = filepath.Dir(dir)
	}
	t.Fatal("no go.work above the test")
	return ""
}

// Binary is the kymogram binary under test.
func (r *Rig) Binary() string {
	if r.Program != "" {
		return r.Program
	}
	return filepath.Join(r.Root, "bin", "kymogram")
}

func (r *Rig) python() string { return filepath.Join(r.Root, ".venv", "bin", "python") }

// Env is the environment of every process of the rig, and more.
func (r *Rig) Env(more ...string) []string { return append(r.env[:len(r.env):len(r.env)], more...) }

// Setenv adds NAME=VALUE to the environment of every later process of the rig.
func (r *Rig) Setenv(entry string) { r.env = append(r.env, entry) }

// Command prepares a program in the rig's environment. It is killed with the
// test, and Wait does not wait for what its children keep open.
func (r *Rig) Command(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = r.Env()
	cmd.Dir = r.Root
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// Python prepares a script, given by its path below the repository's root.
func (r *Rig) Python(t *testing.T, script string, args ...string) *exec.Cmd {
	t.Helper()
	return r.Command(t, r.python(), append([]string{filepath.Join(r.Root, script)}, args...)...)
}

// CLI runs `kymogram ARGS…` and returns what it printed on stdout; it must end with 0.
func (r *Rig) CLI(t *testing.T, args ...string) string {
	t.Helper()
	out, err := r.Command(t, r.Binary(), args...).Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("kymogram %s: %v\n%s", strings.Join(args, " "), err, exit.Stderr)
		}
		t.Fatalf("kymogram %s: %v", strings.Join(args, " "), err)
	}
	return string(out)
}

// Sync delivers the whole spool.
func (r *Rig) Sync(t *testing.T) {
	t.Helper()
	r.CLI(t, "sync", "--spool", r.Spool, "--timeout", "60s")
}

// Closed takes what a Close said. On a busy machine the server may answer too late
// for it; what waits in the spool is then delivered here.
func (r *Rig) Closed(t *testing.T, err error) {
	t.Helper()
	var left *kymogram.UndeliveredError
	switch {
	case errors.As(err, &left) && left.Lost == 0:
		r.CLI(t, "sync", "--spool", left.Folder, "--timeout", "60s")
	case err != nil:
		t.Fatal(err)
	}
}

// Agent is the process id of the agent that delivers the rig's spool now.
func (r *Rig) Agent() (pid int, ok bool) {
	data, err := os.ReadFile(filepath.Join(r.Spool, "agent.json"))
	if err != nil {
		return 0, false
	}
	var holder struct {
		PID  int    `json:"pid"`
		Kind string `json:"kind"`
	}
	if json.Unmarshal(data, &holder) != nil || holder.Kind != "agent" || holder.PID <= 1 {
		return 0, false
	}
	// The file outlives a killed agent: the pid may be another's by now.
	cmdline, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(holder.PID), "cmdline"))
	if err != nil || !strings.Contains(string(cmdline), "kymogram") {
		return 0, false
	}
	return holder.PID, true
}

// KillAgent sends SIGKILL to the agent and waits until it is gone; false when
// there is none right now.
func (r *Rig) KillAgent(t *testing.T) bool {
	t.Helper()
	pid, ok := r.Agent()
	if !ok {
		return false
	}
	err := syscall.Kill(pid, syscall.SIGKILL)
	if err != nil && !errors.Is(err, syscall.ESRCH) {
		t.Fatalf("kill agent %d: %v", pid, err)
	}
	waitGone(t, pid)
	return err == nil
}

// endAgent ends the agent and waits until it is gone, so that the folder can go.
func (r *Rig) endAgent(t *testing.T) {
	t.Helper()
	pid, ok := r.Agent()
	if !ok {
		return
	}
	_ = syscall.Kill(pid, syscall.SIGTERM)
	waitGone(t, pid)
}

func waitGone(t *testing.T, pid int) {
	t.Helper()
	Eventually(t, 10*time.Second, "the agent ends", func() bool {
		_, err := os.Stat(filepath.Join("/proc", strconv.Itoa(pid)))
		return errors.Is(err, fs.ErrNotExist) || isZombie(pid)
	})
}

// isZombie: where no init reaps orphans, a dead agent keeps its pid.
func isZombie(pid int) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return true
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(rest, "Z")
}

// Eventually polls until ok, and fails the test after the limit.
func Eventually(t *testing.T, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}
