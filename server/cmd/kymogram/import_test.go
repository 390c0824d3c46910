package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/importer"
	"github.com/kymogram/kymogram/server/internal/transfer"
)

const fixtures = "../../internal/importer/testdata/"

// imports runs an import that has to work and reads its report.
func (k *kitchen) imports(args ...string) transfer.Report {
	k.t.Helper()
	return k.report(k.ok(append(append([]string{"import"}, args...), "--json")...))
}

func (k *kitchen) report(out string) (r transfer.Report) {
	k.t.Helper()
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		k.t.Fatalf("import printed %q: %v", out, err)
	}
	return r
}

// curves are all points of a run as `kymogram export` gives them: series → step → value.
func (k *kitchen) curves(ref string) map[string]string {
	k.t.Helper()
	out := map[string]string{}
	for line := range strings.Lines(k.ok("export", ref)) {
		var p struct {
			Metric string          `json:"metric"`
			Step   int64           `json:"step"`
			TimeNs int64           `json:"time_ns"`
			Value  json.RawMessage `json:"value"`
		}
		if err := json.Unmarshal([]byte(line), &p); err != nil {
			k.t.Fatal(err)
		}
		key := fmt.Sprintf("%s %d", p.Metric, p.Step)
		if _, twice := out[key]; twice {
			k.t.Errorf("%s has two points at %s", ref, key)
		}
		out[key] = fmt.Sprintf("%d %s", p.TimeNs, p.Value)
	}
	return out
}

// want is what a source's reader found, the last of each step.
func want(t *testing.T, source, path, key string) map[string]string {
	t.Helper()
	i := slices.IndexFunc(importer.Sources(), func(s importer.Source) bool { return s.Name == source })
	found, err := importer.Sources()[i].Find(t.Context(), path, importer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(found, func(f importer.Found) bool { return f.Key == key })
	run, err := found[at].Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, s := range run.Series {
		for i := range s.Steps {
			var value []byte
			switch s.Kind {
			case model.KindFloat:
				value = model.AppendJSONFloat(nil, s.Floats[i])
			case model.KindText:
				value = model.AppendJSONText(nil, string(s.Docs[i]))
			default:
				value = s.Docs[i]
			}
			out[fmt.Sprintf("%s %d", s.Key.Metric, s.Steps[i])] = fmt.Sprintf("%d %s", s.TimeNs[i], value)
		}
	}
	return out
}

func compareCurves(t *testing.T, what string, got, want map[string]string) {
	t.Helper()
	if len(got) != len(want) || len(got) == 0 {
		t.Errorf("%s: %d points, want %d", what, len(got), len(want))
	}
	for key, w := range want {
		if got[key] != w {
			t.Errorf("%s: %s is %s, want %s", what, key, got[key], w)
			return
		}
	}
}

func TestImportOfRealFiles(t *testing.T) {
	t.Parallel()
	k := serveKitchen(t)
	for _, c := range []struct{ source, path string }{{"tensorboard", "tensorboard"}, {"wandb-offline", "wandb"}, {"mlflow", "mlruns"}, {"mlflow", "mlflow.db"}} {
		args := []string{c.source, fixtures + c.path, "--workspace", "lab", "--project", c.path}
		dry := k.imports(append(args, "--dry-run")...)
		if code, _, _ := k.run("runs", "list", "lab/"+c.path); code == 0 && len(dry.Runs) == 0 {
			t.Errorf("%s: a dry run found nothing", c.path)
		}
		report := k.imports(args...)
		if report.Points != dry.Points || report.Points == 0 || report.Refused != 0 {
			t.Errorf("%s: %d points, %d when dry, %d refused", c.path, report.Points, dry.Points, report.Refused)
		}
		for _, one := range report.Runs {
			if one.State == transfer.LeftOut && strings.HasSuffix(one.Run, "/deleted") {
				continue
			}
			if one.State != transfer.Imported {
				t.Errorf("%s is %s: %s", one.Run, one.State, one.Error)
			}
			compareCurves(t, one.Run, k.curves(one.Run), want(t, c.source, fixtures+c.path, one.Key))
		}
		before := k.ok("export", report.Runs[0].Run)
		again := k.imports(args...)
		for _, one := range again.Runs {
			if one.State == transfer.LeftOut {
				continue
			}
			if one.State != transfer.Unchanged || one.ID == "" {
				t.Errorf("%s is %s at the second import", one.Run, one.State)
			}
		}
		if after := k.ok("export", report.Runs[0].Run); again.Points != 0 || after != before {
			t.Errorf("%s: the second import brought %d points", c.path, again.Points)
		}
	}
	shown := k.ok("runs", "show", "lab/wandb/twoid")
	for _, part := range []string{"failed", "run two", "a note", "baseline", "config lr", "config layers/1", "config later"} {
		if !strings.Contains(shown, part) {
			t.Errorf("runs show has no %q:\n%s", part, shown)
		}
	}
}

// A source that grew becomes a new attempt; nothing is there twice, though the
// first import was cut off in its middle.
func TestImportOfAFileThatGrows(t *testing.T) {
	t.Parallel()
	k := serveKitchen(t)
	whole, folder := "", t.TempDir()
	err := filepath.WalkDir(fixtures+"tensorboard/first", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			whole = path
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(folder, filepath.Base(whole))
	for _, size := range []int{2000, 2001, len(data)} {
		if err := os.WriteFile(name, data[:size], 0o600); err != nil {
			t.Fatal(err)
		}
		report := k.imports("tensorboard", folder, "--run", "grows")
		one := report.Runs[0]
		if wantDamage := size < len(data); (len(one.Damage) == 1) != wantDamage {
			t.Errorf("%d bytes: damage %v", size, one.Damage)
		}
		if wantState := map[int]string{2000: transfer.Imported, 2001: transfer.Unchanged, len(data): transfer.Updated}[size]; one.State != wantState {
			t.Errorf("%d bytes: %s, want %s", size, one.State, wantState)
		}
		compareCurves(t, one.Run, k.curves(one.Run), want(t, "tensorboard", folder, filepath.Base(folder)))
	}
	var doc struct {
		Attempts []struct{} `json:"attempts"`
	}
	if err := json.Unmarshal([]byte(k.ok("runs", "show", "--json", "default/default/grows")), &doc); err != nil || len(doc.Attempts) != 2 {
		t.Errorf("%d attempts, want 2 (%v)", len(doc.Attempts), err)
	}
}

func TestImportTellsOfDamageAndGoesOn(t *testing.T) {
	t.Parallel()
	k := serveKitchen(t)
	names, err := filepath.Glob(fixtures + "wandb/*/run-oneid.wandb")
	if err != nil || len(names) != 1 {
		t.Fatal(names, err)
	}
	data, err := os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	data = bytes.Clone(data)
	data[len(data)-300] ^= 1
	for name, content := range map[string][]byte{"run-damaged.wandb": data, "run-none.wandb": []byte("hello")} {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	code, out, errs := k.run("import", "wandb-offline", folder, "--project", "default")
	if code != exitFailed || !strings.Contains(out, "damaged: imported") || !strings.Contains(out, "none: failed") {
		t.Errorf("%d\n%s", code, out)
	}
	for _, part := range []string{"checksum", "at byte", "does not begin", "not every run"} {
		if !strings.Contains(errs, part) {
			t.Errorf("nothing about %q in\n%s", part, errs)
		}
	}
	if n := len(k.curves("default/default/damaged")); n < 50 {
		t.Errorf("%d points of the damaged file arrived", n)
	}
}

func TestImportLeavesOtherRunsAlone(t *testing.T) {
	t.Parallel()
	k := serveKitchen(t)
	folder := t.TempDir()
	first, second := filepath.Join(folder, "a.csv"), filepath.Join(folder, "b.csv")
	for _, name := range []string{first, second} {
		if err := os.WriteFile(name, []byte("step,loss\n1,"+fmt.Sprint(len(name))+"\n2,x\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if one := k.imports("csv", first, "--run", "mine").Runs[0]; one.State != transfer.Imported || len(one.Skipped) != 0 || one.Points != 2 {
		t.Errorf("%+v", one)
	}
	code, out, _ := k.run("import", "csv", second, "--run", "mine", "--json")
	if one := k.report(out).Runs[0]; code != exitFailed || !strings.Contains(one.Error, "does not come from this source") {
		t.Errorf("%d: %+v", code, one)
	}
	for _, args := range [][]string{
		{"import"}, {"import", "csv"}, {"import", "csv", first, second, "--run", "x"}, {"import", "csv", first, "--project", "a b"}, {"import", "csv", first, "--run", "a\x00"}, {"import", "csv", first, "--start", "soon"},
	} {
		if code, _, errs := k.run(args...); code != exitUsage {
			t.Errorf("%v: %d, %s", args, code, errs)
		}
	}
	if code, _, errs := k.run("import", "tensorboard", folder); code != exitFailed || !strings.Contains(errs, "no run of tensorboard") {
		t.Errorf("%d, %s", code, errs)
	}
	if code, _, errs := k.run("import", "csv", first, "--key", strings.Repeat("0", 40)); code != exitFailed || !strings.Contains(errs, "key") {
		t.Errorf("a wrong key: %d, %s", code, errs)
	}
}

// What export writes as CSV comes back as it was.
func TestImportOfAnExport(t *testing.T) {
	t.Parallel()
	k := serveKitchen(t)
	k.imports("wandb-offline", fixtures+"wandb", "--project", "default")
	name := filepath.Join(t.TempDir(), "back.csv")
	k.ok("export", "default/default/oneid", "--format", "csv", "-o", name)
	k.imports("csv", name)
	compareCurves(t, "back", k.curves("default/default/back"), k.curves("default/default/oneid"))
}

// A table of runs becomes runs, each known again by itself.
func TestImportOfATableOfRuns(t *testing.T) {
	t.Parallel()
	k := serveKitchen(t)
	name := filepath.Join(t.TempDir(), "wandb_export.csv")
	const head = "Name,State,Created,Runtime,Tags,lr,loss\ncalm,finished,2024-05-01T12:00:00.000Z,90,base,0.1,0.5\n"
	for i, rows := range []string{"wild,crashed,2024-05-01T13:00:00.000Z,30,,0.2,0.7\n", "wild,finished,2024-05-01T13:00:00.000Z,60,,0.2,0.25\n"} {
		if err := os.WriteFile(name, []byte(head+rows), 0o600); err != nil {
			t.Fatal(err)
		}
		states := []string{}
		for _, one := range k.imports("csv", name, "--config-column", "lr").Runs {
			states = append(states, one.Run+" "+one.State)
		}
		want := [][]string{{"default/default/calm imported", "default/default/wild imported"}, {"default/default/calm unchanged", "default/default/wild updated"}}[i]
		if !slices.Equal(states, want) {
			t.Errorf("import %d: %v, want %v", i, states, want)
		}
	}
	began := time.Date(2024, 5, 1, 13, 0, 0, 0, time.UTC)
	if got, want := k.span("default/default/wild"), [2]int64{began.UnixNano(), began.Add(time.Minute).UnixNano()}; got != want {
		t.Errorf("wild took %v, want %v", got, want)
	}
	shown := k.ok("runs", "show", "default/default/wild")
	for _, part := range []string{"finished", "config lr", "0.2"} {
		if !strings.Contains(shown, part) {
			t.Errorf("runs show has no %q:\n%s", part, shown)
		}
	}
	compareCurves(t, "wild", k.curves("default/default/wild"), map[string]string{"loss 0": fmt.Sprintf("%d 0.25", began.Add(time.Minute).UnixNano())})
}

// beginImport is an import of a file of three points before its first step.
func (k *kitchen) beginImport(said io.Writer) (path string, w *transfer.Import) {
	k.t.Helper()
	path = filepath.Join(k.t.TempDir(), "log.csv")
	if err := os.WriteFile(path, []byte("step,loss\n0,1\n1,2\n2,3\n"), 0o600); err != nil {
		k.t.Fatal(err)
	}
	var c connection
	c.server, c.key = k.env["KYMOGRAM_SERVER"], k.key()
	std := stdio{in: strings.NewReader(""), out: io.Discard, err: said, env: k.getenv}
	server, err := c.dial(std)
	if err != nil {
		k.t.Fatal(err)
	}
	return path, &transfer.Import{Server: server, Process: std.delivery(), Source: "csv", Workspace: "default", Project: "default"}
}

// An import that is killed leaves half a run without a digest, and its writer
// may still count as open: the next import replaces what is there.
func TestImportAfterOneThatWasKilled(t *testing.T) {
	t.Parallel()
	k := serveKitchen(t)
	path, killed := k.beginImport(io.Discard)
	half := &importer.Run{Attributes: map[string]*model.Value{}, Series: []*importer.Series{{
		Key: model.NewSeriesKey("loss", "", nil), Kind: model.KindFloat, Steps: []int64{0, 1}, TimeNs: []int64{1, 2}, Floats: []float64{-1, -2},
	}, { // no record has room for it: the writing ends here, without a digest and an end
		Key: model.NewSeriesKey("note", "", nil), Kind: model.KindText, Steps: []int64{0}, TimeNs: []int64{1}, Docs: [][]byte{make([]byte, 2<<20)},
	}}}
	found := importer.Found{Key: "log.csv", Name: "log", Read: func(context.Context) (*importer.Run, error) { return half, nil }}
	if err := killed.Run(t.Context(), found); err != nil || killed.Report.Runs[0].State != transfer.Failed {
		t.Fatalf("%v, %+v", err, killed.Report)
	}
	killed.Close()
	_, next := k.beginImport(io.Discard)
	if err := next.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := k.curves("default/default/log"); len(got) != 2 {
		t.Fatalf("half an import left %v", got)
	}
	if one := k.imports("csv", path).Runs[0]; one.State != transfer.Updated || one.Points != 3 {
		t.Errorf("the import after it is %+v", one)
	}
	compareCurves(t, "log", k.curves("default/default/log"), want(t, "csv", path, "log.csv"))
}

// An import that ends before it delivered leaves its spool, which the next import to
// that server delivers first: nothing is written twice, and the run has its end.
func TestImportAfterOneThatWasInterrupted(t *testing.T) {
	t.Parallel()
	k := serveKitchen(t)
	var said bytes.Buffer
	path, first := k.beginImport(&said)
	found, err := importer.Sources()[3].Find(t.Context(), path, importer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Run(t.Context(), found[0]); err != nil {
		t.Fatal(err)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if err := first.Deliver(stopped); !errors.Is(err, transfer.ErrInterrupted) {
		t.Errorf("interrupted: %v", err)
	}
	first.Close()
	match := regexp.MustCompile(`^3 points wait in (\S+); `).FindStringSubmatch(said.String())
	if match == nil {
		t.Fatalf("it said %q", said.String())
	}
	at := match[1]
	if one := k.imports("csv", path).Runs[0]; one.State != transfer.Unchanged {
		t.Errorf("the import after it is %+v", one)
	}
	if _, err := os.Stat(at); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the spool is still there: %v", err)
	}
	compareCurves(t, "log", k.curves("default/default/log"), want(t, "csv", path, "log.csv"))
	var doc struct {
		Status string `json:"status"`
		Ledger struct {
			Logged uint64 `json:"logged"`
		} `json:"ledger"`
	}
	if err := json.Unmarshal([]byte(k.ok("runs", "show", "--json", "default/default/log")), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Status != "finished" || doc.Ledger.Logged != 3 {
		t.Errorf("the run is %+v", doc)
	}
}

// An imported run is as old and as long as it was, whatever the day of its
// import: the times are those of the trackers' own readers.
func TestImportedRunsKeepTheirTime(t *testing.T) {
	t.Parallel()
	k := serveKitchen(t)
	data, err := os.ReadFile(fixtures + "oracle.json")
	if err != nil {
		t.Fatal(err)
	}
	var oracle map[string][]struct {
		Key       string `json:"key"`
		StartedNs int64  `json:"started_ns"`
		EndedNs   int64  `json:"ended_ns"`
		Series    map[string]struct {
			Points [][]json.RawMessage `json:"points"` // step, time, value
		} `json:"series"`
		Stats [][]json.RawMessage `json:"stats"` // time, values
	}
	if err := json.Unmarshal(data, &oracle); err != nil {
		t.Fatal(err)
	}
	ns := func(raw json.RawMessage) (n int64) {
		if err := json.Unmarshal(raw, &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for _, c := range [][2]string{{"tensorboard", "tensorboard"}, {"wandb-offline", "wandb"}, {"mlflow", "mlruns"}, {"mlflow", "mlflow.db"}} {
		want := map[string][2]int64{}
		for _, run := range oracle[c[1]] {
			first, last := int64(math.MaxInt64), int64(0)
			for _, s := range run.Series {
				for _, p := range s.Points {
					first, last = min(first, ns(p[1])), max(last, ns(p[1]))
				}
			}
			for _, stat := range run.Stats {
				last = max(last, ns(stat[0]))
			}
			if run.StartedNs > 0 {
				first = run.StartedNs
			}
			if run.EndedNs > 0 {
				last = run.EndedNs
			}
			want[run.Key] = [2]int64{first, last}
		}
		for _, one := range k.imports(c[0], fixtures+c[1], "--project", c[1]).Runs {
			if one.State == transfer.LeftOut {
				continue
			}
			if got := k.span(one.Run); got != want[one.Key] {
				t.Errorf("%s took from %d to %d, want %v", one.Run, got[0], got[1], want[one.Key])
			}
		}
	}
	name := filepath.Join(t.TempDir(), "log.csv")
	if err := os.WriteFile(name, []byte("step,when,loss\n0,2020-03-01 10:00:00,1\n1,2020-03-01T12:30:00Z,2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	start := time.Date(2020, 3, 1, 10, 0, 0, 0, time.UTC)
	for range 2 { // a run that was deleted for good may be imported again
		k.imports("csv", name, "--time-column", "when")
		if got, want := k.span("default/default/log"), [2]int64{start.UnixNano(), start.Add(150 * time.Minute).UnixNano()}; got != want {
			t.Errorf("the CSV file took from %d to %d, want %v", got[0], got[1], want)
		}
		k.ok("runs", "delete", "default/default/log", "--now")
	}
}

// span is when a run that has ended began and ended.
func (k *kitchen) span(ref string) [2]int64 {
	k.t.Helper()
	var doc struct {
		Status     model.RunStatus `json:"status"`
		CreatedNs  int64           `json:"created_ns"`
		LastNs     int64           `json:"last_ns"`
		DurationMs int64           `json:"duration_ms"`
	}
	if err := json.Unmarshal([]byte(k.ok("runs", "show", "--json", ref)), &doc); err != nil {
		k.t.Fatal(err)
	}
	if doc.DurationMs != (doc.LastNs-doc.CreatedNs)/1e6 || doc.Status == model.StatusRunning {
		k.t.Errorf("%s is %s and took %d ms", ref, doc.Status, doc.DurationMs)
	}
	return [2]int64{doc.CreatedNs, doc.LastNs}
}

// How many points a run has is said before they are sent, where they are very many.
func TestImportAnnouncesManyPoints(t *testing.T) {
	t.Parallel()
	k := serveKitchen(t)
	const many = 1_000_000
	var said strings.Builder
	_, work := k.beginImport(&said)
	defer work.Close()
	for _, n := range []int{many - 1, many} {
		run := &importer.Run{Attributes: map[string]*model.Value{}, Series: []*importer.Series{{
			Key: model.NewSeriesKey("loss", "", nil), Kind: model.KindFloat, Steps: make([]int64, n), TimeNs: make([]int64, n), Floats: make([]float64, n),
		}}}
		for i := range n {
			run.Series[0].Steps[i] = int64(i)
		}
		found := importer.Found{Key: fmt.Sprint(n), Name: fmt.Sprint("r", n), Read: func(context.Context) (*importer.Run, error) { return run, nil }}
		if err := work.Run(t.Context(), found); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := said.String(), "default/default/r1000000: 1,000,000 points in 1 series are sent\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
