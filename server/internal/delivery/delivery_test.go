package delivery_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/spool"
	"github.com/kymogram/kymogram/server/internal/delivery"
)

// silentServer is an address that nobody listens on.
const silentServer = "http://127.0.0.1:1"

func noEnv(string) string { return "" }

// logged makes a spool with a program that logged points and ended.
func logged(t *testing.T, folder *spool.Folder, name string, points int64) {
	t.Helper()
	request := model.OpenRequest{Writer: model.WriterID{byte(len(name)), 1}, Workspace: "w", Project: "p", RunName: name, Host: "box", PID: 7}
	w, err := spool.Create(folder, silentServer, request, spool.WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	series, err := w.Series(model.KindFloat, model.NewSeriesKey("loss", "", nil))
	if err != nil {
		t.Fatal(err)
	}
	for i := range points {
		if err := w.Point(series, spool.FlagStep, i, time.Now().UnixNano(), 0); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

func folder(t *testing.T) *spool.Folder {
	t.Helper()
	f, err := spool.OpenFolder(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestWhatWaitsIsListedWithItsRemedy(t *testing.T) {
	f := folder(t)
	logged(t, f, "one", 1234)
	logged(t, f, "other", 1)
	broken, err := filepath.Glob(filepath.Join(f.Path, "writers", "05*", "open.json"))
	if err != nil || len(broken) != 1 {
		t.Fatal(broken, err)
	}
	if err := os.WriteFile(broken[0], []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	report, err := delivery.Inspect(f)
	if err != nil || len(report.Waiting) != 2 || report.Left.Points != 1234 || report.Left.Writers != 2 || report.DeliveredBy != nil {
		t.Fatalf("%+v, %v", report, err)
	}
	states := map[string]string{}
	for _, one := range report.Waiting {
		states[one.Run] = one.State
	}
	if states["w/p/one"] != delivery.Nobody || states[""] != delivery.Unreadable {
		t.Errorf("%v", states)
	}
	var out strings.Builder
	if err := report.Print(&out); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"w/p/one", "box 7, ended", "1,234", "`kymogram sync` delivers it once", "nothing there is deleted"} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("%q is missing in\n%s", part, out.String())
		}
	}
	if doc, err := json.Marshal(report.Left); err != nil || !strings.HasPrefix(string(doc), `{"writers":2,"records":1235,"points":1234,"bytes":`) {
		t.Errorf("%s, %v", doc, err)
	}
	if left, err := delivery.LeftIn(f); err != nil || left != report.Left || left.String() != "1,234 points" {
		t.Errorf("%v, %v", left, err)
	}
}

func TestASyncWithoutAServerSaysWhatIsLeft(t *testing.T) {
	f := folder(t)
	logged(t, f, "one", 3)
	var said bytes.Buffer
	p := delivery.Process{Version: "1", Env: noEnv, Err: &said}
	out, err := p.Sync(t.Context(), f, delivery.Request{Timeout: 300 * time.Millisecond})
	if err != nil || out.Delivered != 0 || out.Left.Points != 3 || out.Ended != "the time is over" {
		t.Fatalf("%+v, %v", out, err)
	}
	if err := out.Err(); err == nil || !strings.HasPrefix(err.Error(), "not everything is delivered: ") {
		t.Errorf("%v", err)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	out, err = p.Sync(stopped, f, delivery.Request{})
	if err != nil || out.Err() == nil || out.Err().Error() != "not everything is delivered: interrupted; run it again, it resumes where it stopped" {
		t.Errorf("%+v, %v", out, err)
	}
	out, err = p.Sync(t.Context(), folder(t), delivery.Request{})
	if err != nil || out.Err() != nil {
		t.Errorf("an empty spool: %+v, %v", out, err)
	}
	var text strings.Builder
	if err := out.Print(&text); err != nil || !strings.HasPrefix(text.String(), "0 points delivered in ") || !strings.Contains(text.String(), "0 refused, 0 points left in") {
		t.Errorf("%s, %v", text.String(), err)
	}
}

// TestTheAgentGoesOnAfterASync: it gave way, and its programs count on it.
func TestTheAgentGoesOnAfterASync(t *testing.T) {
	f := folder(t)
	logged(t, f, "one", 3)
	agent := spool.Holder{PID: 1, Version: "1", Protocol: spool.Protocol, Kind: spool.KindAgent}
	var started int
	p := delivery.Process{Version: "1", Env: noEnv, Err: io.Discard, StartAgent: func(in *spool.Folder) error {
		started++
		_, err := in.Take(agent)
		return err
	}}
	if out, err := p.Sync(t.Context(), f, delivery.Request{Timeout: 300 * time.Millisecond}); err != nil || out.Agent || started > 0 {
		t.Errorf("nobody delivered before: %+v, %v", out, err)
	}
	hold, err := f.Take(agent)
	if err != nil || hold == nil {
		t.Fatal(hold, err)
	}
	go func() {
		for !hold.Asked() {
			time.Sleep(time.Millisecond)
		}
		_ = hold.Release()
	}()
	out, err := p.Sync(t.Context(), f, delivery.Request{Timeout: 2 * time.Second})
	if err != nil || !out.Agent || started != 1 || len(out.Waiting) != 1 || out.Waiting[0].State == delivery.Nobody {
		t.Errorf("%+v, %v, started %d", out, err, started)
	}
	var said strings.Builder
	if err := out.Print(&said); err != nil || !strings.Contains(said.String(), "the agent runs again") {
		t.Errorf("%v\n%s", err, said.String())
	}
}

// TestWhatIsKeptIsTold: refused records say why, damaged segments do not.
func TestWhatIsKeptIsTold(t *testing.T) {
	f := folder(t)
	for _, name := range []string{"a.jsonl", "b.jsonl", "c-rendering-1.mp4", "a-00000000.seg.bad"} {
		if err := os.WriteFile(filepath.Join(f.Path, "rejected", name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	report, err := delivery.Inspect(f)
	if err != nil || len(report.Rejected) != 4 {
		t.Fatal(report, err)
	}
	var out bytes.Buffer
	if err := report.Print(&out); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(f.Path, "rejected")
	for _, line := range []string{
		"3 files of what a server refused for good (each line says why): " + dir + "\n",
		"1 damaged segments, not read to their ends: " + dir + "\n",
	} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("%q is not in\n%s", line, &out)
		}
	}
}

func TestFolders(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	env := func(name string) string { return map[string]string{"KYMOGRAM_SPOOL_DIR": missing}[name] }
	_, opened := delivery.Open(noEnv, missing)
	_, viewed := delivery.View(env, missing)
	for _, err := range []error{opened, viewed} {
		if model.CodeOf(err) != model.CodeNotFound || !strings.Contains(err.Error(), "there is no spool at "+missing) {
			t.Errorf("%v", err)
		}
	}
	if _, err := os.Stat(missing); !errors.Is(err, os.ErrNotExist) {
		t.Error("looking made a spool")
	}
	if f, err := delivery.Open(env, ""); err != nil || f.Path != missing {
		t.Errorf("the one of the environment: %v, %v", f, err)
	}
	if _, err := delivery.View(noEnv, missing); err != nil {
		t.Error(err)
	}
}
