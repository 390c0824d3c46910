//go:build e2e

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kymogram/kymogram/test/rig"
)

// demo runs `make demo ARGS=--once`, shortened. It returns the server's data
// folder and the folder of what the trainings said they logged.
func demo(t *testing.T, r *rig.Rig) (server, logged string) {
	t.Helper()
	folder, oracle := filepath.Join(r.Dir, "demo"), filepath.Join(r.Dir, "oracle")
	start := time.Now()
	cmd := r.Python(t, "examples/demo/run", "--once", "--data", folder, "--oracle", oracle,
		"--http", "127.0.0.1:0", "--epochs", "24", "--updates", "60")
	out, err := cmd.CombinedOutput()
	t.Logf("the demo took %v and said:\n%s", time.Since(start).Round(time.Millisecond), out)
	if err != nil {
		t.Fatalf("the demo ended with %v", err)
	}
	return filepath.Join(folder, "server"), oracle
}

// The demo ends by itself, leaves its data, and the data is what was logged.
func TestDemo(t *testing.T) {
	r := rig.New(t)
	data, oracle := demo(t, r)
	server := r.ServeData(t, data)
	c := server.Client(t)
	logged := rig.ReadLogged(t, oracle)
	logged.MustEqual(t, c)

	runs := c.Runs(t, "demo/digits")
	if len(runs) != 6 {
		t.Fatalf("%d runs on the digits", len(runs))
	}
	for _, run := range runs {
		want := "finished"
		if run.Config["lr"] == 0.8 {
			want = "failed" // the loss stopped being a number
		}
		if run.Status != want || !slices.Contains(run.Tags, "digits") {
			t.Errorf("run %s: status %s, tags %v", run.Name, run.Status, run.Tags)
		}
	}
	t.Run("export", func(t *testing.T) { mustExport(t, r, server, logged) })
	t.Run("page", func(t *testing.T) { demoPage(t, r, server) })
}

// mustExport compares `kymogram export` with what was logged, for one run.
func mustExport(t *testing.T, r *rig.Rig, server *rig.Server, logged rig.Logged) {
	out := r.CLI(t, "export", "demo/digits/lr0.3-seed1", "--format", "jsonl",
		"--server", server.Address, "--key", server.Key(t))
	lines := strings.Split(strings.TrimSpace(out), "\n")
	want := 0
	for series, points := range logged {
		if series.Run == "demo/digits/lr0.3-seed1" {
			want += len(points)
		}
	}
	if len(lines) != want {
		t.Errorf("%d lines exported of %d points", len(lines), want)
	}
	for _, line := range lines {
		if !json.Valid([]byte(line)) {
			t.Fatalf("not JSON: %s", line)
		}
	}
}

// `train.py | tee log` ends when training ends: the agent holds no descriptor.
func TestPipeEndsWithTheTraining(t *testing.T) {
	r := rig.New(t)
	server := r.Serve(t)
	log := filepath.Join(r.Dir, "log")
	loop := r.Python(t, "test/rig/loop.py", "--server", server.Address, "--run", "piped", "--count", "500")
	cmd := r.Command(t, "sh", "-c", `"$@" | tee "$LOG" > "$LOG.copy"`, "sh", loop.Args[0], loop.Args[1])
	cmd.Args = append(cmd.Args, loop.Args[2:]...)
	cmd.Env = r.Env("LOG=" + log)
	start := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("the pipe took %v to end", took)
	}
	if _, ok := r.Agent(); !ok {
		t.Error("no agent was left: the test shows nothing")
	}
	text, err := os.ReadFile(log)
	if err != nil || !strings.HasSuffix(string(text), "\n499\n") {
		t.Errorf("the log ends with %q, %v", text[max(0, len(text)-20):], err)
	}
}

// Without a server training goes on; close returns within a second and says what
// the spool holds and what delivers it; sync delivers.
func TestServerAway(t *testing.T) {
	r := rig.New(t)
	server := r.Serve(t)
	server.Stop(t)
	cmd := r.Python(t, "test/e2e/away.py", "--server", server.Address)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	seconds := func(what string) float64 {
		m := regexp.MustCompile(what + ` took ([\d.]+) s`).FindSubmatch(out)
		if m == nil {
			t.Fatalf("no time of %s in %s", what, out)
		}
		f, err := strconv.ParseFloat(string(m[1]), 64)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	if s := seconds("init"); s > 1.5 {
		t.Errorf("init took %v s without a server", s)
	}
	if s := seconds("close"); s > 1.3 {
		t.Errorf("close took %v s without a server", s)
	}
	if !regexp.MustCompile(`(?s)1,?000.*(sync|agent)`).Match(out) {
		t.Errorf("close does not say what the spool holds and what delivers it:\n%s", out)
	}
	server.Restart(t)
	r.Sync(t)
	c := server.Client(t)
	if n := len(c.Points(t, c.Run(t, "default/e2e", "away").ID, "value", "ML_STEP", nil)["value"]); n != 1000 {
		t.Errorf("%d of 1000 points arrived", n)
	}
}

// A restarted server goes on where it was, and the loop never notices.
func TestServerRestarts(t *testing.T) {
	r := rig.New(t)
	server := r.Serve(t)
	loop := r.StartLoop(t, server.Address, "restarts", "--count", "3000", "--pause", "0.001")
	loop.WaitOpen(t)
	for range 3 {
		time.Sleep(300 * time.Millisecond)
		server.Stop(t)
		server.Restart(t)
	}
	loop.Wait(t)
	r.Sync(t)
	c := server.Client(t)
	run := c.Run(t, "default/crash", "restarts")
	if n := len(c.Points(t, run.ID, "value", "ML_STEP", nil)["value"]); n != 3000 {
		t.Errorf("%d of 3000 points arrived", n)
	}
	if run := c.Run(t, "default/crash", "restarts"); run.Status != "finished" {
		t.Errorf("the run is %s", run.Status)
	}
}

// The Go example logs a run of its own through the Go package.
func TestGoExample(t *testing.T) {
	r := rig.New(t)
	server := r.Serve(t)
	cmd := r.Command(t, "go", "run", "./examples/train", "-run", "go", "-steps", "200", "-pause", "1ms")
	cmd.Env = append(cmd.Env, "KYMOGRAM_SERVER="+server.Address)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	r.Sync(t)
	c := server.Client(t)
	run := c.Run(t, "default/default", "go")
	if run.Status != "finished" {
		t.Errorf("the run is %s", run.Status)
	}
	points := c.Points(t, run.ID, "train/loss", "ML_STEP", nil)
	for i, step := range points["step"] {
		if rig.Text(step) != strconv.Itoa(i) {
			t.Fatalf("row %d has step %v", i, step)
		}
	}
	if n := len(points["value"]); n != 200 {
		t.Errorf("%d of 200 points arrived", n)
	}
}
