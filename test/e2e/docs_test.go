//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/test/rig"
)

var (
	goBlock = regexp.MustCompile("(?ms)^```go\n(.*?)^```$")
	assigns = regexp.MustCompile(`(?m)^((?:\w+, )?err :?= [^\n]*\))[ \t]*(//.*)?$`)
)

// page is a page whose Go blocks are one function. What a reader has at hand, as
// the loss of his model, is declared before them.
type page struct{ file, function, names, close string }

var goPages = []page{
	{file: "README.md", function: "readme"},
	{file: "docs/go.md", function: "guide", names: `
	g, update, n, total, r := 1.5, int64(0), int64(0), 17.0, 1.0
	episode, text := int64(0), "Once upon a time"
	envs := []kymogram.EnvValues{{Env: "env0", Values: []float64{1}}, {Env: "env1", Values: []float64{0.5}}}
	edges, counts := []float64{-1, 0, 1}, []float64{3, 20}
	xs, ys := []float64{0.1, 0.4}, []float64{0.9, 0.2}
	img := image.NewRGBA(image.Rect(0, 0, 64, 64))`, close: "run.Close(ctx)"},
	{file: "docs/guides/metrics.md", function: "measure", names: `
	step := func(context.Context) error { return nil }`},
	{file: "docs/telemetry.md", function: "points"},
}

// source is a page's function: after each line that sets err, err is looked at.
func (p page) source(t *testing.T, root, server string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, p.file))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	fmt.Fprintf(&out, "func %s(ctx context.Context) error {%s\n", p.function, p.names)
	blocks := goBlock.FindAllStringSubmatch(string(text), -1)
	if len(blocks) == 0 {
		t.Fatalf("%s has no Go", p.file)
	}
	for i, block := range blocks {
		code := strings.ReplaceAll(block[1], "http://127.0.0.1:7070", server)
		code = assigns.ReplaceAllString(code, "$1\nif err != nil { return err } $2")
		if strings.Contains(code, "read.Dial") { // another program's: what was logged has arrived
			code = "if err = " + p.close + "; err != nil { return err }\n{\n" + code + "}\n"
		}
		if i == 0 && strings.HasSuffix(code, "\n})\n") { // Init over several lines
			code += "if err != nil { return err }\n"
		}
		out.WriteString(code)
	}
	out.WriteString("return nil\n}\n")
	return out.String()
}

const docsHead = `package main

import (
	"context"
	"fmt"
	"image"
	"log/slog"
	"math"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kymogram/kymogram"
	"github.com/kymogram/kymogram/bridge"
	"github.com/kymogram/kymogram/metrics"
	"github.com/kymogram/kymogram/read"
	"github.com/kymogram/kymogram/read/record"
	"github.com/kymogram/kymogram/telemetry"
	"github.com/kymogram/kymogram/telemetry/influx"
)

func main() {
	ctx := context.Background()
	for _, page := range []func(context.Context) error{readme, guide, measure, points} {
		if err := page(ctx); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}
`

// The Go of the pages compiles, runs, and the server has what it logs. (The
// Python and the shell of the pages are run by python/tests/test_guides.py.)
func TestGoOfTheDocs(t *testing.T) {
	r := rig.New(t)
	s := r.Serve(t)
	program := docsHead
	for _, p := range goPages {
		program += p.source(t, r.Root, s.Address)
	}
	file := filepath.Join(r.Dir, "main.go")
	if err := os.WriteFile(file, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(r.Dir, "pages")
	build := r.Command(t, "go", "build", "-o", binary, file)
	build.Dir = r.Root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for range 2 { // a reader does it again, with the same outcome
		cmd := r.Command(t, binary)
		cmd.Env = append(cmd.Env, "KYMOGRAM_SERVER="+s.Address)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		wantOfTheDocs(t, s.Client(t), out)
	}
}

func wantOfTheDocs(t *testing.T, c *rig.Client, out []byte) {
	t.Helper()
	hello := c.Run(t, "default/first", "hello-go")
	if points := c.Points(t, hello.ID, "train/loss", "", nil); len(points["value"]) != 1000 {
		t.Errorf("the README logged %d points", len(points["value"]))
	}
	guide := c.Run(t, "vision/digits", "lr0.3")
	if points := c.Points(t, guide.ID, "loss", "", nil); fmt.Sprint(points["step"]) != "[0 7 100 101 102]" {
		t.Errorf("docs/go.md logged loss at %v", points["step"])
	}
	// What docs/go.md reads are those five, with the value first logged at step 0.
	if !regexp.MustCompile(`(?m)^0 0\.5 \d{19}$`).Match(out) || strings.Count(string(out), "\n102 0.3 ") != 1 {
		t.Errorf("docs/go.md read\n%s", out)
	}
	if !strings.Contains(string(out), "[my_app]: restarts=1") {
		t.Errorf("the metrics' page printed\n%s", out)
	}
}
