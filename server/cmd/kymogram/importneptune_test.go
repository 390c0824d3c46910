package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kymogram/kymogram/server/internal/transfer"
)

// What neptune-exporter wrote comes over with its series, files and forks, and a repeated
// import brings nothing twice. The fixture's values are those of testdata/neptune.py.
func TestImportOfNeptune(t *testing.T) {
	t.Parallel()
	k := serveKitchen(t)
	for n := range 10 {
		report := k.imports("neptune", fixtures+"neptune")
		if len(report.Runs) != 2 || report.Refused != 0 {
			t.Fatalf("%+v", report)
		}
		for _, one := range report.Runs {
			if want := map[bool]string{true: transfer.Imported, false: transfer.Unchanged}[n == 0]; one.State != want || one.Files != 1 || len(one.Skipped)+len(one.Damage) != 0 {
				t.Errorf("import %d: %+v", n, one)
			}
		}
	}
	if got := k.curves("default/digits/RUN-1"); len(got) != 12 || got["train/loss 4"] != "1700000004000000000 0.2" || got["log 9"] != `1700000009000000000 "a line"` {
		t.Errorf("RUN-1 has %v", got)
	}
	shown := k.ok("runs", "show", "default/digits/RUN-2")
	for _, part := range []string{"failed", "config lr", "config layers", "base", "RUN-1"} {
		if !strings.Contains(shown, part) {
			t.Errorf("runs show has no %q:\n%s", part, shown)
		}
	}
	folder := t.TempDir()
	k.ok("files", "default/digits/RUN-1", "--download", folder)
	if text, err := os.ReadFile(filepath.Join(folder, "model", "best.txt")); err != nil || string(text) != "weights of RUN-1\n" {
		t.Errorf("the file: %q, %v", text, err)
	}
}

// Tables that grow are imported ten times: each point is there once, as a count of the rows
// written says, and a second run in a table makes no second copy of the first.
func TestImportTenTimesOfWhatGrows(t *testing.T) {
	t.Parallel()
	k := serveKitchen(t)
	name := filepath.Join(t.TempDir(), "log.csv")
	text, rows := "run,step,loss\n", map[string]int{}
	for n := range 10 {
		run := "a"
		if n > 4 {
			run = "b"
		}
		text += fmt.Sprintf("%s,%d,%d\n", run, n, n)
		rows[run]++
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if report := k.imports("csv", name); len(report.Runs) != len(rows) {
			t.Fatalf("import %d: %+v", n, report)
		}
	}
	var list struct {
		Runs []struct{ Name string } `json:"runs"`
	}
	if err := json.Unmarshal([]byte(k.ok("runs", "list", "default/default", "--json")), &list); err != nil || len(list.Runs) != 2 {
		t.Fatalf("%d runs, %v", len(list.Runs), err)
	}
	for ref, want := range map[string]int{"log": rows["a"], "b": rows["b"]} { // the first keeps the name that it got alone
		if got := k.curves("default/default/" + ref); len(got) != want {
			t.Errorf("%s has %d points, want %d", ref, len(got), want)
		}
	}
}

// A run of the same name that MLflow got later makes no copy of the first.
func TestImportOfMLflowByItsIDs(t *testing.T) {
	t.Parallel()
	k := serveKitchen(t)
	store := t.TempDir()
	for n, id := range []string{"aaaaaaaaaaaa", "bbbbbbbbbbbb", "cccccccccccc"} {
		folder := filepath.Join(store, "0", id)
		if err := os.MkdirAll(filepath.Join(folder, "metrics"), 0o700); err != nil {
			t.Fatal(err)
		}
		meta := "run_id: " + id + "\nrun_name: same\nlifecycle_stage: active\nstatus: 3\n"
		if err := os.WriteFile(filepath.Join(folder, "meta.yaml"), []byte(meta), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, "metrics", "loss"), []byte("1000 0.5 1\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		k.imports("mlflow", store)
		var list struct {
			Runs []struct{ Name string } `json:"runs"`
		}
		if err := json.Unmarshal([]byte(k.ok("runs", "list", "default/default", "--json")), &list); err != nil || len(list.Runs) != n+1 {
			t.Fatalf("%d runs of %d: %+v, %v", len(list.Runs), n+1, list, err)
		}
	}
}

// An export as Parquet comes back as it was, also after an import that was killed.
func TestImportOfParquetAfterAKill(t *testing.T) {
	t.Parallel()
	k := serveKitchen(t)
	var rows strings.Builder
	rows.WriteString("step,loss,acc\n")
	for i := range 200_000 {
		fmt.Fprintf(&rows, "%d,%d.5,%d.25\n", i, i, i)
	}
	name := filepath.Join(t.TempDir(), "log.csv")
	if err := os.WriteFile(name, []byte(rows.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	k.imports("csv", name, "--run", "first")
	table := filepath.Join(t.TempDir(), "log.parquet")
	k.ok("export", "default/default/first", "--format", "parquet", "-o", table)
	temporary := t.TempDir()
	for wait := 20 * time.Millisecond; ; wait *= 2 {
		cmd := exec.CommandContext(t.Context(), "kymogram", "import", "parquet", table, "--run", "second")
		cmd.Env = []string{"HOME=" + k.env["HOME"], "PATH=" + os.Getenv("PATH"), "XDG_CONFIG_HOME=" + k.env["XDG_CONFIG_HOME"], "KYMOGRAM_SERVER=" + k.env["KYMOGRAM_SERVER"], "TMPDIR=" + temporary}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(wait, func() { _ = cmd.Process.Signal(syscall.SIGKILL) })
		if cmd.Wait() == nil {
			break
		}
	}
	var doc struct {
		Status string `json:"status"`
	}
	if err := json.Unmarshal([]byte(k.ok("runs", "show", "--json", "default/default/second")), &doc); err != nil || doc.Status != "finished" {
		t.Errorf("%+v, %v", doc, err)
	}
	compareCurves(t, "second", k.curves("default/default/second"), k.curves("default/default/first"))
}
