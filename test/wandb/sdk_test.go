//go:build e2e

package wandb

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/platform"
	"github.com/kymogram/kymogram/test/rig"
)

// sdk is a version of the SDK in its own environment.
type sdk struct{ version, folder string }

func (s *sdk) python() string { return filepath.Join(s.folder, "bin", "python") }

// old tells versions whose part that sends is written in Python.
func (s *sdk) old() bool { return s.version < "0.19" }

// The versions that -short runs a test with.
const (
	newest = "0.31.0"
	pinned = "0.19.0" // by NI Compute's code
	both   = "0.31.0 0.19.0"
)

// each runs a test once for each version that docs/wandb.md names, with a server of its
// own. It is not for -short.
func each(t *testing.T, test func(t *testing.T, r *room)) {
	t.Helper()
	quick(t, "", test)
}

// quick is each, and for -short the versions that it names.
func quick(t *testing.T, short string, test func(t *testing.T, r *room)) {
	t.Helper()
	versions := []string{newest, pinned}
	if !testing.Short() {
		versions = append(versions, "0.17.9", "0.16.6")
	}
	if only := os.Getenv("WANDB_SDKS"); only != "" {
		versions = strings.Split(only, ",")
	}
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			if testing.Short() && !slices.Contains(strings.Fields(short), version) {
				t.Skip("not in -short")
			}
			test(t, open(t, version))
		})
	}
}

// install makes the environment of a version where it is not there yet. Tests are
// skipped, and say why, where it cannot be made.
func install(t *testing.T, version string) *sdk {
	t.Helper()
	requirements := filepath.Join("requirements", version+".txt")
	text, err := os.ReadFile(requirements)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(text)
	s := &sdk{version: version, folder: filepath.Join(cache(t), version)}
	// Tests run side by side, also of several processes; one of them makes it.
	lock, err := os.OpenFile(s.folder+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close() // ends the lock
	if err := platform.Lock(lock); err != nil {
		t.Fatal(err)
	}
	marker := filepath.Join(s.folder, ".installed")
	if have, err := os.ReadFile(marker); err == nil && string(have) == hex.EncodeToString(sum[:]) {
		return s
	}
	// Where it did not install, the next tests need not try again.
	failure := s.folder + ".failed"
	if info, err := os.Stat(failure); err == nil && time.Since(info.ModTime()) < 10*time.Minute {
		why, _ := os.ReadFile(failure)
		t.Skipf("%s", why)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	for _, args := range [][]string{
		{"python3", "-m", "venv", "--clear", s.folder},
		{s.python(), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", requirements},
	} {
		if out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput(); err != nil {
			why := fmt.Sprintf("SKIPPED: wandb %s does not install here: %s: %v\n%s", version, strings.Join(args, " "), err, out)
			_ = os.WriteFile(failure, []byte(why), 0o600) // else the next test says it again
			t.Skip(why)
		}
	}
	if err := os.WriteFile(marker, []byte(hex.EncodeToString(sum[:])), 0o644); err != nil {
		t.Fatal(err)
	}
	return s
}

func cache(t *testing.T) string {
	t.Helper()
	folder := os.Getenv("KYMOGRAM_TESTDATA")
	if folder == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		folder = filepath.Join(user, "kymogram-testdata")
	}
	folder = filepath.Join(folder, "wandb")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	return folder
}

// room is a server, and an SDK that knows it.
type room struct {
	*sdk
	*testing.T
	rig    *rig.Rig
	server *rig.Server
	client *rig.Client
	folder string // where programs run
	key    string
	many   int
	// longest is how long a program may run.
	longest time.Duration
}

// place is where the programs log.
const (
	entity  = "lab"
	project = "sdk"
	place   = entity + "/" + project
)

func open(t *testing.T, version string) *room {
	t.Helper()
	s := install(t, version)
	machine := rig.New(t)
	server := machine.Serve(t)
	r := &room{sdk: s, T: t, rig: machine, server: server, client: server.Client(t), folder: t.TempDir(), key: server.Key(t), longest: 4 * time.Minute}
	return r
}

// said is what a program said, by name.
type said map[string]any

// program is one that runs.
type program struct {
	*room
	cmd    *exec.Cmd
	name   string
	say    string
	output bytes.Buffer
}

// start runs a program of programs/ in a folder of its own.
func (r *room) start(name string, args ...string) *program {
	r.Helper()
	return r.startIn(r.fresh(), nil, name, args...)
}

// fresh is a new folder.
func (r *room) fresh() string {
	r.Helper()
	r.many++
	folder := filepath.Join(r.folder, strconv.Itoa(r.many))
	if err := os.MkdirAll(folder, 0o755); err != nil {
		r.Fatal(err)
	}
	return folder
}

func (r *room) startIn(folder string, env []string, name string, args ...string) *program {
	r.Helper()
	p := r.prepare(folder, env, name, args...)
	if err := p.cmd.Start(); err != nil {
		r.Fatal(err)
	}
	return p
}

func (r *room) prepare(folder string, env []string, name string, args ...string) *program {
	r.Helper()
	script, err := filepath.Abs(filepath.Join("programs", name))
	if err != nil {
		r.Fatal(err)
	}
	p := &program{room: r, name: name, say: filepath.Join(folder, "said.jsonl")}
	p.cmd = r.python3(folder, append([]string{"SAY=" + p.say}, env...), append([]string{script}, args...)...)
	p.cmd.Stdout, p.cmd.Stderr = &p.output, &p.output
	return p
}

// python3 prepares the SDK's Python. Nothing of it may go anywhere but to the server.
func (r *room) python3(folder string, env []string, args ...string) *exec.Cmd {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), r.longest)
	r.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, r.python(), args...)
	cmd.Dir = folder
	cmd.WaitDelay = 5 * time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a signal of the terminal is not theirs
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	for _, name := range []string{"PATH", "LANG", "TMPDIR", "LD_LIBRARY_PATH"} {
		if value, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	cmd.Env = append(cmd.Env, "HOME="+folder, "WANDB_DIR="+folder, "WANDB_CACHE_DIR="+filepath.Join(folder, "cache"),
		"WANDB_CONFIG_DIR="+filepath.Join(folder, "config"), "WANDB_DATA_DIR="+filepath.Join(folder, "data"),
		"WANDB_BASE_URL="+r.server.Address, "WANDB_API_KEY="+r.key, "WANDB_ENTITY="+entity, "WANDB_PROJECT="+project,
		"WANDB__DISABLE_UPDATE_CHECK=true", "WANDB_ERROR_REPORTING=false", "WANDB_DISABLE_GIT=true", "NO_COLOR=1", "PYTHONUNBUFFERED=1",
		"NO_PROXY=127.0.0.1", "no_proxy=127.0.0.1")
	cmd.Env = append(cmd.Env, env...)
	return cmd
}

// wait waits for the end of a program.
func (p *program) wait() (said, int) {
	p.Helper()
	err := p.cmd.Wait()
	code := 0
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		code = exit.ExitCode()
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			code = -int(status.Signal())
		}
	case err != nil:
		p.Fatalf("%s: %v\n%s", p.name, err, last(p.output.String()))
	}
	p.Cleanup(func() {
		if p.Failed() {
			p.Logf("%s ended with %d\n%s", p.name, code, last(p.output.String()))
		}
	})
	return p.saying(), code
}

// until waits until a program said something.
func (p *program) until(name string) {
	p.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if _, ok := p.saying()[name]; ok {
			return
		}
	}
	p.Fatalf("%s did not say %q\n%s", p.name, name, last(p.output.String()))
}

func (p *program) saying() said {
	p.Helper()
	text, err := os.ReadFile(p.say)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		p.Fatal(err)
	}
	all := said{}
	for line := range bytes.Lines(text) {
		var pair [2]any
		if err := json.Unmarshal(line, &pair); err != nil {
			p.Fatalf("%s said %q: %v", p.name, line, err)
		}
		all[fmt.Sprint(pair[0])] = pair[1]
	}
	return all
}

// run is a program from its start to its end, which must be with 0.
func (r *room) run(name string, args ...string) said {
	r.Helper()
	p := r.start(name, args...)
	words, code := p.wait()
	if code != 0 {
		r.Errorf("%s %s ended with %d", name, strings.Join(args, " "), code)
	}
	return words
}

// is compares what a program said with JSON, or with the beginning of a text that ends in "…".
func (r *room) is(words said, name, want string) {
	r.Helper()
	value, ok := words[name]
	if !ok {
		r.Errorf("%q: the program said nothing", name)
		return
	}
	text, err := json.Marshal(value)
	if err != nil {
		r.Fatal(err)
	}
	if begin, found := strings.CutSuffix(want, "…"); found {
		if !strings.HasPrefix(fmt.Sprint(value), begin) {
			r.Errorf("%q: the SDK says %s, want %s", name, text, want)
		}
		return
	}
	var normal any
	if err := json.Unmarshal([]byte(want), &normal); err != nil {
		r.Fatalf("%q: %v", want, err)
	}
	if wanted, err := json.Marshal(normal); err != nil || !bytes.Equal(text, wanted) {
		r.Errorf("%q: the SDK says %s, want %s", name, text, want)
	}
}

func last(text string) string {
	lines := strings.Split(strings.ReplaceAll(text, "\r", "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-60):], "\n")
}
