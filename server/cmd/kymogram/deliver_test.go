package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/spool"
	"github.com/kymogram/kymogram/server/internal/delivery"
	"github.com/kymogram/kymogram/server/internal/doctor"
	"github.com/kymogram/kymogram/server/internal/store/local"
)

// silentServer is an address that nobody listens on.
const silentServer = "http://127.0.0.1:1"

// logAway logs a run of 100 points while its server is away.
func (k *kitchen) logAway(name string) {
	k.t.Helper()
	k.logMany(name, 100)
}

func (k *kitchen) spool() string { return filepath.Join(k.env["HOME"], "spool") }

// syncUntilRefused runs a sync and stops it once it knows that nobody listens.
func (k *kitchen) syncUntilRefused() (code int, out, errs string) {
	k.t.Helper()
	folder, err := spool.OpenFolder(k.spool())
	if err != nil {
		k.t.Fatal(err)
	}
	ids, err := folder.Writers()
	if err != nil || len(ids) != 1 {
		k.t.Fatalf("writers %v, %v", ids, err)
	}
	status, err := spool.OpenStatus(folder.WriterPath(ids[0]))
	if err != nil {
		k.t.Fatal(err)
	}
	defer status.Close()
	ctx, stop := context.WithCancel(k.t.Context())
	defer stop()
	go func() {
		for page := (spool.Page{}); ctx.Err() == nil && page.Errors == 0; page, _ = status.Read() {
			time.Sleep(time.Millisecond)
		}
		stop()
	}()
	var o, e bytes.Buffer
	code = run(ctx, []string{"sync", "--json"}, stdio{in: strings.NewReader(""), out: &o, err: &e, env: k.getenv})
	return code, o.String(), e.String()
}

func TestSync(t *testing.T) {
	k := serveKitchen(t)
	k.env["KYMOGRAM_SPOOL_DIR"] = k.spool()
	k.logAway("away")
	code, out, errs := k.syncUntilRefused()
	var report delivery.Outcome
	if err := json.Unmarshal([]byte(out), &report); err != nil || code != exitFailed {
		t.Fatalf("%d %v\n%s%s", code, err, out, errs)
	}
	if l := report.Left; l.Writers != 1 || l.Records != 102 || l.Points != 100 || l.Bytes < 100*40 || !strings.Contains(report.Error, "refused") || report.Ended != "interrupted" {
		t.Errorf("without a server: %+v", report)
	}
	if !strings.Contains(errs, "run it again") {
		t.Errorf("after an interrupt: %s", errs)
	}
	k.spoolTells()
	out = k.ok("sync", "--server", "http://"+k.address, "--json")
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatal(err)
	}
	if report.Delivered != 100 || report.Left != (delivery.Left{}) {
		t.Errorf("with one: %+v", report)
	}
	if out := k.ok("sync"); !strings.Contains(out, ", 0 refused, 0 points left in ") {
		t.Errorf("with nothing to do: %s", out)
	}
	if n := strings.Count(k.ok("export", "default/default/away", "--format", "jsonl"), "\n"); n != 100 {
		t.Errorf("%d points arrived", n)
	}
}

// spoolTells: what waits is listed with its age, its reason and a way out.
func (k *kitchen) spoolTells() {
	k.t.Helper()
	var report delivery.Report
	if err := json.Unmarshal([]byte(k.ok("spool", "--json")), &report); err != nil || len(report.Waiting) != 1 {
		k.t.Fatalf("%v: %+v", err, report)
	}
	one := report.Waiting[0]
	if one.Run != "default/default/away" || one.Points != 100 || one.Live || one.Server != silentServer || one.PID != int64(os.Getpid()) || !strings.Contains(one.Error, "refused") {
		k.t.Errorf("%+v", one)
	}
	if at := time.Unix(0, one.OldestNs); time.Since(at) < 0 || time.Since(at) > time.Minute {
		k.t.Errorf("the oldest is of %v", at)
	}
	if report.Left.Points != 100 || report.UsedBytes == 0 || report.CapBytes < report.UsedBytes || report.DeliveredBy != nil || len(report.Rejected) != 0 {
		k.t.Errorf("%+v", report)
	}
	before, err := os.Stat(k.spool())
	if err != nil {
		k.t.Fatal(err)
	}
	out := k.ok("spool")
	if after, err := os.Stat(k.spool()); err != nil || !after.ModTime().Equal(before.ModTime()) {
		k.t.Errorf("looking changed the folder: %v", err)
	}
	for _, want := range []string{"default/default/away", " 100 ", "connection refused", "`kymogram sync"} {
		if !strings.Contains(out, want) {
			k.t.Errorf("%q is missing in\n%s", want, out)
		}
	}
}

// TestSpoolOfDamage: a writer that cannot be read is listed, and the others are delivered.
func TestSpoolOfDamage(t *testing.T) {
	k := serveKitchen(t)
	k.env["KYMOGRAM_SPOOL_DIR"] = k.spool()
	k.logAway("broken")
	writers, err := filepath.Glob(filepath.Join(k.spool(), "writers", "*", "open.json"))
	if err != nil || len(writers) != 1 {
		t.Fatal(writers, err)
	}
	if err := os.WriteFile(writers[0], []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	k.logAway("whole")
	code, out, errs := k.run("sync", "--server", "http://"+k.address, "--timeout", "3s", "--json")
	var report delivery.Outcome
	if err := json.Unmarshal([]byte(out), &report); err != nil || code != exitFailed {
		t.Fatalf("%d %v\n%s%s", code, err, out, errs)
	}
	if report.Delivered != 100 || len(report.Waiting) != 1 || report.Waiting[0].State != delivery.Unreadable || !strings.Contains(report.Waiting[0].Error, "open.json") {
		t.Errorf("%+v", report)
	}
	if out := k.ok("spool"); !strings.Contains(out, "unreadable: read ") || !strings.Contains(out, "nothing there is deleted") {
		t.Error(out)
	}
}

func TestDeliveryCommandsFailClearly(t *testing.T) {
	k := serveKitchen(t)
	missing := filepath.Join(t.TempDir(), "missing")
	tests := []struct {
		code int
		want string
		args []string
	}{
		{exitFailed, "there is no spool at", []string{"sync", "--spool", missing}},
		{exitFailed, "there is no spool at", []string{"agent", "--spool", missing}},
		{exitFailed, "there is no spool at", []string{"spool", "--spool", missing}},
		{exitUsage, "is not the address of a server", []string{"sync", "--server", "nonsense"}},
		{exitUsage, "is not the address of a server", []string{"doctor", "--server", "nonsense"}},
		{exitUsage, "--timeout", []string{"sync", "--timeout", "-1s"}},
		{exitUsage, "--idle", []string{"agent", "--idle", "-1s"}},
		{exitUsage, "--kind", []string{"agent", "--kind", "x"}},
		{exitUsage, "unknown flag", []string{"agent", "--x"}},
	}
	k.env["KYMOGRAM_SPOOL_DIR"] = k.spool()
	for _, tt := range tests {
		code, _, errs := k.run(tt.args...)
		if code != tt.code || !strings.Contains(errs, tt.want) {
			t.Errorf("%v: %d %s", tt.args, code, errs)
		}
	}
}

func TestDoctor(t *testing.T) {
	k := serveKitchen(t)
	k.env["KYMOGRAM_SPOOL_DIR"] = k.spool()
	k.logAway("away")
	findings := func(args ...string) (int, map[string]doctor.Finding) {
		t.Helper()
		code, out, errs := k.run(append([]string{"doctor", "--json"}, args...)...)
		var d doctor.Diagnosis
		if err := json.Unmarshal([]byte(out), &d); err != nil || d.OK != (code == exitDone) {
			t.Fatalf("%d %v\n%s%s", code, err, out, errs)
		}
		byName := map[string]doctor.Finding{}
		for _, f := range d.Findings {
			byName[f.Name] = f
		}
		return code, byName
	}
	code, f := findings("--server", "http://"+k.address)
	if !f["store"].OK || !strings.HasPrefix(f["store"].Detail, "0 points of 0 runs") {
		t.Errorf("the store: %+v", f["store"])
	}
	if code != exitFailed || f["agent"].OK || !strings.Contains(f["agent"].Detail, "100 points of 1 runs wait, and nobody delivers them") {
		t.Errorf("nobody delivers: %d %+v", code, f["agent"])
	}
	if f["key"].Detail != "accepted" || !strings.HasPrefix(f["waiting"].Detail, "100 points of 1 runs") || !strings.Contains(f["spool"].Detail, "survives a killed process") {
		t.Errorf("%d %+v", code, f)
	}
	code, f = findings("--server", "http://"+k.address, "--key", strings.Repeat("0", 40))
	if code != exitFailed || f["key"].OK || !f["server"].OK {
		t.Errorf("with a wrong key: %d %+v", code, f)
	}
	code, f = findings("--server", silentServer)
	if code != exitFailed || f["server"].OK || !strings.Contains(f["server"].Hint, "kymogram serve") {
		t.Errorf("without a server: %d %+v", code, f)
	}
	k.ok("sync", "--server", "http://"+k.address)
	code, out, _ := k.run("doctor", "--server", "http://"+k.address)
	if code != exitDone || !strings.Contains(out, "ok    clock") {
		t.Errorf("%d\n%s", code, out)
	}
}

// TestDoctorTellsOfDamage: a segment of noise does not keep the server from
// starting, and the doctor says that it is there.
func TestDoctorTellsOfDamage(t *testing.T) {
	data := t.TempDir()
	segments := filepath.Join(data, "store", "segments")
	if err := os.MkdirAll(segments, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(segments, "0000000000000001.kgs"), bytes.Repeat([]byte("noise"), 100), 0o600); err != nil {
		t.Fatal(err)
	}
	k := serveKitchen(t, "--data", data)
	k.env["KYMOGRAM_SPOOL_DIR"] = k.spool()
	code, out, _ := k.run("doctor")
	if code != exitFailed || !strings.Contains(out, "FAIL  store    the server met 1 damaged files or ranges") {
		t.Errorf("%d\n%s", code, out)
	}
}

// TestDoctorTellsOfLostRuns: a run that only the store knows is listed, served
// and said.
func TestDoctorTellsOfLostRuns(t *testing.T) {
	data, run := t.TempDir(), model.RunID{6: 1}
	engine, err := local.Open(t.Context(), local.Config{Dir: filepath.Join(data, "store")})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(engine.PutAttempt(t.Context(), run, model.Attempt{Number: 1, OpenedNs: 1}), engine.Close()); err != nil {
		t.Fatal(err)
	}
	k := serveKitchen(t, "--data", data)
	k.env["KYMOGRAM_SPOOL_DIR"] = k.spool()
	var out string
	k.until("the doctor tells of it", func() bool {
		var code int
		code, out, _ = k.run("doctor")
		return code == exitFailed
	})
	if !strings.Contains(out, "FAIL  catalog  the catalog had lost 1 runs") {
		t.Error(out)
	}
	if list := k.ok("runs", "list", "recovered/recovered"); !strings.Contains(list, run.String()) || !strings.Contains(list, "lost") {
		t.Error(list)
	}
}

// TestDetachedAgent: an agent goes on without its starter, delivers, and ends by
// itself; one of a person takes the spool over from it.
func TestDetachedAgent(t *testing.T) {
	k := serveKitchen(t)
	k.env["KYMOGRAM_SPOOL_DIR"] = k.spool()
	k.logAway("away")
	folder, err := spool.OpenFolder(k.spool())
	if err != nil {
		t.Fatal(err)
	}
	binary := buildBinary(t)
	// The pipe ends when its last holder does: not with the agent.
	cmd := exec.Command(binary, "agent", "--detached", "--idle", "30s", "--spool", k.spool())
	cmd.Env = []string{"HOME=" + k.env["HOME"], "XDG_CONFIG_HOME=" + k.env["XDG_CONFIG_HOME"], "KYMOGRAM_API_KEY=secret"}
	pipe, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said, err := io.ReadAll(pipe)
	if err != nil || cmd.Wait() != nil || !strings.Contains(string(said), "delivers "+k.spool()) {
		t.Fatalf("%v: %s", err, said)
	}
	agent := holder(t, folder, spool.KindAgent)
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", agent.PID))
	if err != nil || strings.Contains(string(environ), "secret") {
		t.Errorf("the agent's environment holds a key (%v)", err)
	}
	if cwd, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", agent.PID)); err != nil || cwd != "/" {
		t.Errorf("the agent works in %s (%v)", cwd, err)
	}
	ctx, stop := context.WithCancel(context.Background())
	person := make(chan int, 1)
	go func() {
		person <- run(ctx, []string{"agent"}, stdio{in: strings.NewReader(""), out: io.Discard, err: io.Discard, env: k.getenv})
	}()
	holder(t, folder, spool.KindPerson)
	if code, _, errs := k.run("agent", "--kind", "person"); code != exitFailed || !strings.Contains(errs, "another program delivers") {
		t.Errorf("a second person's agent: %d %s", code, errs)
	}
	stop()
	if code := <-person; code != exitDone {
		t.Errorf("an agent that is stopped ends with %d", code)
	}
	log, err := os.ReadFile(filepath.Join(k.spool(), "agent.log"))
	if err != nil || !strings.Contains(string(log), "takes the spool over") {
		t.Errorf("%v, the log is\n%s", err, log)
	}
}

// buildBinary makes the program, for what takes a process of its own.
func buildBinary(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "kymogram")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return binary
}

// holder waits until the folder is held by a kind.
func holder(t *testing.T, folder *spool.Folder, kind spool.HolderKind) spool.Holder {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if h, held, err := folder.Held(); err == nil && held && h.Kind == kind {
			return h
		}
	}
	t.Fatalf("never held by %s", kind)
	return spool.Holder{}
}
