//go:build e2e

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/test/rig"
)

// From a wheel to a chart in three commands, with neither Go nor Node: pip install, kymogram
// serve, and the first Python program of docs/start.md.
func TestFromAWheelToAChart(t *testing.T) {
	r := rig.New(t)
	wheels, err := filepath.Glob(filepath.Join(r.Root, "dist", "kymogram-*.whl"))
	if err != nil || len(wheels) != 1 {
		t.Fatalf("wheels %q, %v: make setup builds one", wheels, err)
	}
	environment := filepath.Join(r.Dir, "environment")
	if out, err := r.Command(t, "python3", "-m", "venv", environment).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	bin := filepath.Join(environment, "bin")
	alone := func(name string, args ...string) *exec.Cmd {
		cmd := r.Command(t, filepath.Join(bin, name), args...)
		cmd.Dir = r.Dir
		cmd.Env = append(cmd.Env, "PATH="+bin) // nothing of the machine: no go, no node
		return cmd
	}
	if out, err := alone("pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", wheels[0]).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}

	data := filepath.Join(r.Dir, "kymogram")
	printed := start(t, alone("kymogram", "serve", "--data", data, "--http", "127.0.0.1:0"))
	if !printed.Scan() {
		t.Fatal("the server printed nothing")
	}
	found := regexp.MustCompile(`http=(\S+)`).FindStringSubmatch(printed.Text())
	if found == nil {
		t.Fatalf("the server printed %q", printed.Text())
	}

	page, err := os.ReadFile(filepath.Join(r.Root, "docs", "start.md"))
	if err != nil {
		t.Fatal(err)
	}
	program := regexp.MustCompile("(?s)```python\n(.*?)```").FindSubmatch(page)
	if program == nil {
		t.Fatal("docs/start.md has no program")
	}
	script := filepath.Join(r.Dir, "hello.py")
	if err := os.WriteFile(script, program[1], 0o600); err != nil {
		t.Fatal(err)
	}
	hello := alone("python", script)
	hello.Env = append(hello.Env, "KYMOGRAM_SERVER=http://"+found[1]) // the port of the test is not the default one
	if out, err := hello.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}

	key, err := os.ReadFile(filepath.Join(data, "admin.key"))
	if err != nil {
		t.Fatal(err)
	}
	c := rig.NewClient("http://"+found[1], strings.TrimSpace(string(key)))
	run := c.Run(t, "default/start", "hello")
	points := c.Points(t, run.ID, "train/loss", "ML_STEP", nil)
	if n := len(points["value"]); n != 1000 || run.Status != "finished" {
		t.Errorf("%d points, %s", n, run.Status)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("http://%s/runs/%s", found[1], run.ID), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", "text/html") // as a browser does
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK || !strings.HasPrefix(answer.Header.Get("Content-Type"), "text/html") {
		t.Errorf("the page of the run: %s, %s", answer.Status, answer.Header.Get("Content-Type"))
	}
}
