package kymogram

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	kymogramv1 "github.com/kymogram/kymogram/gen/kymogram/v1"
	"github.com/kymogram/kymogram/internal/job"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/spool"
	"github.com/kymogram/kymogram/internal/wire"
)

// row is one value as it lies in the spool or arrives at a server: axes by
// number, a relative one with a "+".
type row struct {
	series string
	axes   string
	value  string
}

// logged reads what a run left in its spool.
func logged(t *testing.T, r *Run) []row {
	t.Helper()
	tail, err := spool.OpenTail(r.folder.WriterPath(r.w.ID), r.w.ID, 1, true)
	if err != nil {
		t.Fatal(err)
	}
	defer tail.Close()
	var out []row
	var rec spool.Record
	for {
		progress, err := tail.Next(&rec)
		if err != nil || progress == spool.Skipped {
			t.Fatalf("%v %v", err, tail.Skip)
		}
		if progress != spool.Got {
			return out
		}
		out = append(out, rows(tail, &rec)...)
	}
}

func rows(tail *spool.Tail, rec *spool.Record) (out []row) {
	name := func(id uint32) string {
		d := tail.Series[id]
		key := model.NewSeriesKey(d.Metric, d.Scale, d.Labels)
		text := key.Metric
		if key.Scale != ScaleStep {
			text += " " + key.Scale
		}
		for _, l := range key.Labels {
			text += " " + l.Name + "=" + l.Value
		}
		return text
	}
	number := func(kind model.Kind, bits uint64) string {
		if kind == model.KindInt {
			return fmt.Sprintf("i%d", int64(bits))
		}
		return fmt.Sprint(math.Float64frombits(bits))
	}
	sign := func(relative bool) string { return map[bool]string{true: "+"}[relative] }
	switch rec.Type {
	case spool.TypePoint, spool.TypeDocument:
		value := string(rec.Document)
		if rec.Type == spool.TypePoint {
			value = number(rec.Kind, rec.Bits)
		}
		axes := ""
		if rec.Flags&spool.FlagStep != 0 {
			axes = fmt.Sprintf("1:%s%d", sign(rec.Flags&spool.FlagRelative != 0), rec.Step)
		}
		out = append(out, row{name(rec.Series), axes, value})
	case spool.TypeBlock:
		b := &rec.Block
		for s, id := range b.Series {
			for r := range b.Rows {
				var axes []string
				for _, a := range b.Axes {
					axes = append(axes, fmt.Sprintf("%d:%s%d", a.Axis, sign(a.Column.Mode&spool.ModeRelative != 0), a.Column.At(s, r, b.Rows)))
				}
				out = append(out, row{name(id), strings.Join(axes, " "), number(b.Kind, b.Values[s*b.Rows+r])})
			}
		}
	case spool.TypeUpdate:
		doc, _ := json.Marshal(rec.Updates)
		out = append(out, row{"update", "", string(doc)})
	}
	return out
}

// The variables that Init writes.
const (
	envOrchestration        = job.EnvID
	envMetranaOrchestration = job.EnvMetranaID
	envAttempt              = job.EnvAttempt
	envAttemptPID           = job.EnvAttemptPID
)

var silent = slog.New(slog.DiscardHandler)

// offline opens a run that has no server and no uplink.
func offline(t testing.TB, opts Options) *Run {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	lis.Close()
	opts.Server, opts.NoUplink, opts.SpoolDir, opts.Log = "http://"+lis.Addr().String(), true, t.TempDir(), silent
	opts.env = func(string) string { return "" }
	for _, name := range []string{envOrchestration, envMetranaOrchestration, envAttempt, envAttemptPID} {
		t.Setenv(name, "")
	}
	r, err := Init(context.Background(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.end(context.Background(), model.StatusFinished, "") })
	return r
}

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func TestLogCalls(t *testing.T) {
	r := offline(t, Options{})
	if !r.Offline() || r.Name() == "" || r.ID() == "" {
		t.Errorf("offline %v, name %q, id %q", r.Offline(), r.Name(), r.ID())
	}
	s, err := r.Series("handle")
	must(t, err)
	must(t,
		r.Log("a", 1), r.Log("a", 2), r.Log("a", 3, Step(10)), r.Log("a", 4),
		r.Log("a", 5, Labels(map[string]string{"rank": "1"}), Evaluation(), Scale("EPOCH")),
		s.Log(1), s.LogAt(5, 2), s.Log(3),
		r.LogInt("n", math.MaxInt64), r.Log("n", 4),
		r.LogText("note", "héllo"),
		r.LogDistributed("d", 7, 1), r.LogDistributed("d", 7, 2),
		r.LogValues("v", []float64{1, 2, 3}), r.LogValues("v", []float64{4}), r.LogValues("v", nil),
		r.LogMap(map[string]float64{"y": 2, "x": 1, "a": 9}), r.LogMap(map[string]float64{"x": 3, "y": 4}, Step(100)),
	)
	want := []row{
		{"a", "1:+0", "1"},
		{"a", "1:+1", "2"},
		{"a", "1:10", "3"},
		{"a", "1:11", "4"},
		{"a EPOCH evaluation=true rank=1", "1:+0", "5"},
		{"handle", "1:+0", "1"},
		{"handle", "1:5", "2"},
		{"handle", "1:6", "3"},
		{"n", "1:+0", "i9223372036854775807"},
		{"n", "1:+1", "i4"},
		{"note", "1:+0", "héllo"},
		{"d", "1:7", "1"},
		{"d", "1:7", "2"},
		{"v", "1:+0", "1"},
		{"v", "1:+1", "2"},
		{"v", "1:+2", "3"},
		{"v", "1:+3", "4"},
		{"a", "1:12", "9"},
		{"x", "1:+0", "1"},
		{"y", "1:+0", "2"},
		{"x", "1:100", "3"},
		{"y", "1:100", "4"},
	}
	if diff := cmp.Diff(want, logged(t, r), cmp.AllowUnexported(row{})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for name, last := range map[string]int64{"a": 12, "x": 100} {
		if got, ok := r.LastStep(name); !ok || got != last {
			t.Errorf("last step of %s: %d %v, want %d", name, got, ok, last)
		}
	}
	if _, ok := r.LastStep("never"); ok {
		t.Error("a series that was never logged has a last step")
	}
}

func TestRL(t *testing.T) {
	r := offline(t, Options{})
	e1, e2 := int64(1), int64(2)
	must(t,
		r.LogRLEpisode("return", 3, 10), r.LogRLEpisode("return", 4, 11, Episode(5), EnvID("e")),
		r.LogRLEnvironmentStep("reward", 0, 1), r.LogRLEnvironmentStep("reward", 1, 2),
		r.LogRLEnvironmentSteps("r", 7, []EnvValues{{Env: "a", Episode: &e1, Values: []float64{1, 2}}, {Env: "b", Episode: &e2, Values: []float64{3, 4}}}),
		r.LogRLEnvironmentSteps("r", 8, []EnvValues{{Env: "a", Episode: &e2, Values: []float64{5}}}),
		r.LogRLEnvironmentSteps("r", 8, []EnvValues{{Env: "a", Episode: &e1, Values: []float64{6}}}),
	)
	want := []row{
		{"return EPISODE env_id=default", "1:+0 2:3", "10"},
		{"return EPISODE env_id=e", "1:5 2:4 3:5", "11"},
		{"reward ENVIRONMENT_STEP env_id=default", "1:+0 2:0 4:+0", "1"},
		{"reward ENVIRONMENT_STEP env_id=default", "1:+1 2:1 4:+1", "2"},
		{"r ENVIRONMENT_STEP env_id=a", "1:+0 2:7 3:1 4:+0", "1"},
		{"r ENVIRONMENT_STEP env_id=a", "1:+1 2:7 3:1 4:+1", "2"},
		{"r ENVIRONMENT_STEP env_id=b", "1:+0 2:7 3:2 4:+0", "3"},
		{"r ENVIRONMENT_STEP env_id=b", "1:+1 2:7 3:2 4:+1", "4"},
		{"r ENVIRONMENT_STEP env_id=a", "1:+0 2:8 3:2 4:+0", "5"},
		{"r ENVIRONMENT_STEP env_id=a", "1:+2 2:8 3:1 4:+2", "6"},
	}
	if diff := cmp.Diff(want, logged(t, r), cmp.AllowUnexported(row{})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if step, episode, ok := r.LastRL("a"); !ok || step != 8 || *episode != 1 {
		t.Errorf("environment a stands at %d %v", step, episode)
	}
}

func TestAttributes(t *testing.T) {
	r := offline(t, Options{})
	must(t,
		r.LogConfig(map[string]any{"lr": 0.1, "net": struct {
			Width int `json:"width"`
		}{64}, "l": []any{true, nil, "x"}, "empty": map[string]any{}, "big": int64(math.MaxInt64)}),
		r.SetTags("a", "b"), r.SetDescription("d"),
		r.LogEnvAttributes("e", map[string]any{"seed": 1}, Episode(4)),
	)
	var got []string
	for _, one := range logged(t, r) {
		var updates []model.Update
		must(t, json.Unmarshal([]byte(one.value), &updates))
		for _, u := range updates {
			u.TimeNs = 0
			doc, _ := json.Marshal(u)
			got = append(got, string(doc))
		}
	}
	want := []string{
		`{"op":"set_attribute","path":"config/big","value":{"type":"int64","value":"9223372036854775807"}}`,
		`{"op":"set_attribute","path":"config/l/0","value":{"type":"bool","value":true}}`,
		`{"op":"set_attribute","path":"config/l/1"}`,
		`{"op":"set_attribute","path":"config/l/2","value":{"type":"string","value":"x"}}`,
		`{"op":"set_attribute","path":"config/lr","value":{"type":"float64","value":0.1}}`,
		`{"op":"set_attribute","path":"config/net/width","value":{"type":"int64","value":64}}`,
		`{"op":"set_tags","tags":["a","b"]}`,
		`{"op":"set_description","text":"d"}`,
		`{"op":"set_env_attribute","path":"seed","value":{"type":"int64","value":1},"env":"e","episode":4}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestBadInput(t *testing.T) {
	r := offline(t, Options{})
	must(t, r.Log("f", 1), r.LogInt("i", 1), r.LogText("t", "x"), r.LogDistributed("d", 1, 1))
	tests := map[string]error{
		"metric name is empty": r.Log("", 1),
		"'='":                  r.Log("a=b", 1),
		"white space":          r.Log("a b", 1),
		"control character":    r.Log("a\nb", 1),
		"starts with ':'":      r.Log(":a", 1),
		"1024 are allowed":     r.Log(strings.Repeat("x", 1025), 1),
		"not valid UTF-8":      r.Log("\xff", 1),
		"step is negative":     r.Log("f", 1, Step(-1)),
		"episode is negative":  r.LogRLEpisode("e", 0, 1, Episode(-1)),
		"rl step is negative":  r.LogRLEpisode("e", -1, 1),
		"label name contains":  r.Log("f", 1, Labels(map[string]string{"a&b": "x"})),
		"Reserved between":     r.Log("f", 1, Labels(map[string]string{"a": "x=y"})),
		"one part of a URL":    r.LogRLEpisode("e", 0, 1, EnvID("a/b")),
		"env id is empty":      r.LogRLEpisode("e", 0, 1, EnvID("")),
		"0.5 is no int64":      r.Log("i", 0.5),
		"not exact in float64": r.LogInt("f", 1<<53+1),
		"a text does not fit":  r.LogText("f", "x"),
		"kind float64 does":    r.Log("t", 1),
		"choose one":           errors.Join(r.Log("d", 1)),
		"reserved: \"sys/x\"":  r.LogAttributes("sys", map[string]any{"x": 1}),
		"step is above 2^62":   r.Log("f", 1, Step(1<<62+1)),
		"cannot be an attr":    r.LogAttributes("a", func() {}),
		"tag is empty":         r.SetTags(""),
		"largest step":         r.LogValues("v", []float64{1, 2}, Step(math.MaxInt64)),
	}
	for want, err := range tests {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
		if code := model.CodeOf(err); code != model.CodeInvalid && code != model.CodeKindMismatch {
			t.Errorf("%q has the code %s", want, code)
		}
	}
	if n := len(logged(t, r)); n != 4 {
		t.Errorf("%d records, bad calls logged something", n)
	}
	for want, opts := range map[string]Options{
		"workspace contains '/' at place 1": {Workspace: "a/b"},
		"run name contains the control":     {RunName: "a\x00"},
		"is not the address of a server":    {Server: "nonsense"},
		"needs the run to fork from":        {ForkAtStep: new(int64)},
		"resume strategy \"x\"":             {ResumeStrategy: "x"},
	} {
		opts.env = func(string) string { return "" }
		if _, err := Init(context.Background(), opts); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

func TestCloseWithoutServer(t *testing.T) {
	r := offline(t, Options{})
	for range 42 {
		must(t, r.Log("a", 1))
	}
	began := time.Now()
	err := r.Close(context.Background())
	var left *UndeliveredError
	if !errors.As(err, &left) || left.Points != 42 || !strings.Contains(err.Error(), "`kymogram sync` delivers") {
		t.Errorf("close says %v", err)
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("close took %v", took)
	}
	if err := r.Log("a", 1); !errors.Is(err, ErrClosed) {
		t.Errorf("after close: %v", err)
	}
	if again := r.Close(context.Background()); !errors.Is(again, err) {
		t.Errorf("the second close says %v", again)
	}
}

// TestCloseInABatchJob: nobody delivers after the job, so Close waits its time,
// wherever the spool lies.
func TestCloseInABatchJob(t *testing.T) {
	for _, name := range []string{"SLURM_JOB_ID", "KUBERNETES_SERVICE_HOST"} {
		const limit = 1300 * time.Millisecond
		r := offline(t, Options{CloseTimeout: limit})
		r.opts.env = func(asked string) string { return map[string]string{name: "7", "KYMOGRAM_SPOOL_DIR": "/data"}[asked] }
		must(t, r.Log("a", 1))
		began := time.Now()
		var left *UndeliveredError
		if err := r.Close(context.Background()); !errors.As(err, &left) || left.Points != 1 {
			t.Errorf("close says %v", err)
		}
		if took := time.Since(began); took < limit {
			t.Errorf("%s: close took only %v", name, took)
		}
	}
}

// fake answers opens over HTTP and acks whatever comes over gRPC.
type fake struct {
	kymogramv1.UnimplementedIngestServiceServer
	http *httptest.Server
	grpc net.Listener
	open func(model.OpenRequest) (model.OpenResult, *model.Error)

	mu      sync.Mutex
	request model.OpenRequest
	steps   map[string][]int64
	updates []model.Update
}

func startFake(t *testing.T) *fake {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	f := &fake{grpc: lis, steps: map[string][]int64{}}
	f.open = func(r model.OpenRequest) (model.OpenResult, *model.Error) {
		return model.OpenResult{Run: model.RunID{1}, RunName: r.RunName, Attempt: 1, Created: true, StartsComplete: true}, nil
	}
	g := grpc.NewServer()
	kymogramv1.RegisterIngestServiceServer(g, f)
	go g.Serve(lis)
	t.Cleanup(g.Stop)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/server", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"name":"kymogram","api":1,"http":"x:1","grpc":%q}`, lis.Addr().String())
	})
	mux.HandleFunc("POST /api/v1/open", f.serveOpen)
	f.http = httptest.NewServer(mux)
	t.Cleanup(f.http.Close)
	return f
}

func (f *fake) serveOpen(w http.ResponseWriter, req *http.Request) {
	doc, _ := io.ReadAll(req.Body)
	var open model.OpenRequest
	if err := json.Unmarshal(doc, &open); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	f.mu.Lock()
	f.request = open
	f.mu.Unlock()
	result, refusal := f.open(open)
	if refusal != nil {
		w.WriteHeader(http.StatusConflict)
		json.NewEncoder(w).Encode(map[string]any{"error": refusal})
		return
	}
	json.NewEncoder(w).Encode(result)
}

func (f *fake) Stream(stream grpc.BidiStreamingServer[kymogramv1.StreamRequest, kymogramv1.StreamResponse]) error {
	series := map[uint32]string{}
	for {
		m, err := stream.Recv()
		if err != nil {
			return nil
		}
		answer := &kymogramv1.StreamResponse{Message: &kymogramv1.StreamResponse_Opened{Opened: &kymogramv1.Opened{Result: []byte(`{}`)}}}
		if b := m.GetBatch(); b != nil {
			f.take(b, series)
			answer.Message = &kymogramv1.StreamResponse_Ack{Ack: &kymogramv1.Ack{Mark: b.Last}}
		} else if m.GetOpen() == nil {
			continue
		}
		if err := stream.Send(answer); err != nil {
			return err
		}
	}
}

func (f *fake) take(b *kymogramv1.Batch, series map[uint32]string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, d := range b.Series {
		series[d.Id] = d.Metric
	}
	for _, g := range b.Groups {
		for _, c := range g.Columns {
			if !g.Axes[0].Relative {
				f.steps[series[c.Series]] = append(f.steps[series[c.Series]], g.Axes[0].Values...)
			}
		}
	}
	if updates, _, err := wire.ReadUpdates(b); err == nil {
		f.updates = append(f.updates, updates...)
	}
}

func (f *fake) init(t *testing.T, opts Options) (*Run, error) {
	t.Helper()
	opts.Server, opts.SpoolDir, opts.Log, opts.NoEnvironment = f.http.URL, filepath.Join(t.TempDir(), "s"), silent, true
	opts.env = func(name string) string { return map[string]string{"SLURM_RESTART_COUNT": "3", "RANK": "2"}[name] }
	for _, name := range []string{envOrchestration, envMetranaOrchestration, envAttempt, envAttemptPID} {
		t.Setenv(name, "")
	}
	return Init(context.Background(), opts)
}

// TestOnlineRun: a run that the server opened continues its series' steps, and
// everything is delivered when Close returns.
func TestOnlineRun(t *testing.T) {
	f := startFake(t)
	f.open = func(r model.OpenRequest) (model.OpenResult, *model.Error) {
		return model.OpenResult{Run: model.RunID{1}, RunName: r.RunName, StartsComplete: true, Starts: []model.Start{{Metric: "a", Scale: ScaleStep, Next: 500}}}, nil
	}
	r, err := f.init(t, Options{RunName: "name", Tags: []string{"t"}, Config: map[string]any{"lr": 1}, APIKey: "secret"})
	must(t, err)
	if r.Offline() || r.ID() != (model.RunID{1}).String() {
		t.Errorf("offline %v, id %s", r.Offline(), r.ID())
	}
	if got, ok := r.LastStep("a"); !ok || got != 499 {
		t.Errorf("last step %d %v", got, ok)
	}
	must(t, r.Log("a", 1), r.Log("b", 1), r.Flush(context.Background(), true), r.Log("a", 1))
	dir := r.folder.WriterPath(r.w.ID)
	must(t, r.Close(context.Background()))
	if diff := cmp.Diff(map[string][]int64{"a": {500, 501}, "b": {0}}, f.steps); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if len(f.updates) != 1 || f.updates[0].Op != model.OpClose || f.updates[0].Text != "finished" {
		t.Errorf("updates %v", f.updates)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the writer's folder is left: %v", err)
	}
	req := f.request
	if req.RunName != "name" || *req.RestartCount != 3 || *req.Rank != 2 || len(req.Initial) != 2 || req.SDK != "go/"+Version || !req.WithStarts {
		t.Errorf("request %+v", req)
	}
	doc, err := os.ReadFile(filepath.Join(r.SpoolDir(), "credentials"))
	if err != nil || !strings.Contains(string(doc), "secret") {
		t.Errorf("the key for the uplink: %s %v", doc, err)
	}
}

// TestLargeConfig: what the open has no room for comes behind it, in order, when
// this process made the run or cannot know.
func TestLargeConfig(t *testing.T) {
	config, want := map[string]any{}, map[string]int64{}
	for i := range 5000 {
		config[fmt.Sprintf("layer%d", i)] = map[string]any{"n": i}
		want[fmt.Sprintf("config/layer%d/n", i)] = int64(i)
	}
	add := func(t *testing.T, got map[string]int64, u *model.Update) {
		t.Helper()
		if _, twice := got[u.Path]; twice || u.Value == nil {
			t.Errorf("%+v", u)
			return
		}
		got[u.Path] = u.Value.Int
	}
	for name, c := range map[string]struct{ offline, created bool }{"offline": {offline: true}, "created": {created: true}, "joined": {}} {
		t.Run(name, func(t *testing.T) {
			f := startFake(t)
			f.open = func(r model.OpenRequest) (model.OpenResult, *model.Error) {
				if c.offline {
					return model.OpenResult{}, model.Errorf(model.CodeUnavailable, "later")
				}
				return model.OpenResult{Run: model.RunID{1}, RunName: r.RunName, Created: c.created}, nil
			}
			r, err := f.init(t, Options{RunName: "name", Config: config, Description: "d", NoUplink: true})
			must(t, err)
			got := map[string]int64{}
			described := false
			for i := range r.request.Initial {
				if u := &r.request.Initial[i]; strings.HasPrefix(u.Path, "config/") {
					add(t, got, u)
				} else {
					described = described || u.Op == model.OpSetDescription
				}
			}
			if len(got) == 0 || len(got) > 1000 || !described {
				t.Errorf("%d values in the open, described %v", len(got), described)
			}
			later := updatesOf(t, r)
			if !c.offline && !c.created {
				if len(later) > 0 {
					t.Errorf("%d values of a run that another process made", len(later))
				}
				return
			}
			for i := range later {
				if !later[i].Initial {
					t.Fatalf("%+v", later[i])
				}
				add(t, got, &later[i])
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestSlowRepository: what git says too late for Init comes behind the open.
func TestSlowRepository(t *testing.T) {
	bin := t.TempDir()
	script := "#!/bin/sh\n[ $1 = rev-parse ] && echo 0123456789012345678901234567890123456789 && exit\nsleep 2\necho ' M file'\n"
	must(t, os.WriteFile(filepath.Join(bin, "git"), []byte(script), 0o700))
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	f := startFake(t)
	f.open = func(r model.OpenRequest) (model.OpenResult, *model.Error) {
		return model.OpenResult{Run: model.RunID{1}, RunName: r.RunName, Created: true}, nil
	}
	t.Setenv(envAttempt, "")
	began := time.Now()
	r, err := Init(context.Background(), Options{
		RunName: "name", Server: f.http.URL, SpoolDir: filepath.Join(t.TempDir(), "s"), Log: silent, NoUplink: true, NoSystemMetrics: true,
		env: func(string) string { return "" },
	})
	must(t, err)
	if took := time.Since(began); took > 1500*time.Millisecond {
		t.Errorf("Init took %s", took)
	}
	var later []model.Update
	for end := time.Now().Add(10 * time.Second); len(later) == 0 && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		later = updatesOf(t, r)
	}
	if len(later) != 1 || later[0].Path != "git/dirty" || !later[0].Value.Bool {
		t.Errorf("%+v", later)
	}
}

// A name that another job's run has: a new run, unless a strategy was chosen, or the
// ranks of one job could become a run each.
func TestTakenName(t *testing.T) {
	f := startFake(t)
	f.open = func(r model.OpenRequest) (model.OpenResult, *model.Error) {
		if r.Offline {
			return model.OpenResult{Run: model.RunID{2}, RunName: "name-2", LinkedFrom: "name", Created: true, StartsComplete: true}, nil
		}
		return model.OpenResult{}, model.Errorf(model.CodeRunExists, "the run exists").WithHint("choose another name")
	}
	for name, opts := range map[string]Options{
		"a rank without a job": {RunName: "name"},
		"a chosen strategy":    {RunName: "name", ResumeStrategy: ResumeNever, OrchestrationID: "job"},
	} {
		if _, err := f.init(t, opts); model.CodeOf(err) != model.CodeRunExists {
			t.Errorf("%s: %v", name, err)
		}
	}
	r, err := f.init(t, Options{RunName: "name", OrchestrationID: "job"})
	must(t, err)
	if r.Name() != "name-2" || r.Offline() {
		t.Errorf("%s, offline %v", r.Name(), r.Offline())
	}
	must(t, r.Close(context.Background()))
}

// BenchmarkLog reports the time of the processor beside that of the clock: on a
// machine that others use only the first means something.
func BenchmarkLog(b *testing.B) {
	r := offline(b, Options{})
	s, err := r.Series("handle")
	must(b, err)
	ways := []struct {
		name string
		log  func(i int) error
	}{
		{"handle", func(i int) error { return s.Log(float64(i)) }},
		{"name", func(i int) error { return r.Log("name", float64(i)) }},
		{"step", func(i int) error { return r.Log("name", float64(i), Step(int64(i))) }},
	}
	for _, way := range ways {
		must(b, way.log(0))
		b.Run(way.name, func(b *testing.B) {
			b.ReportAllocs()
			began := processorTime(b)
			for i := 0; b.Loop(); i++ {
				if err := way.log(i); err != nil {
					b.Fatal(err)
				}
				if i%200_000 == 199_999 { // a server would have acked them
					must(b, spool.Prune(r.folder.WriterPath(r.w.ID), r.w.ID, r.w.Last()))
				}
			}
			b.ReportMetric(float64(processorTime(b)-began)/float64(b.N), "cpu-ns/op")
		})
	}
}

// BenchmarkLogEnvironments is 128 steps of 64 environments in one call.
func BenchmarkLogEnvironments(b *testing.B) {
	r := offline(b, Options{})
	envs := make([]EnvValues, 64)
	for i := range envs {
		envs[i] = EnvValues{Env: "env" + strconv.Itoa(i), Values: make([]float64, 128)}
	}
	b.ReportAllocs()
	began := processorTime(b)
	for i := 0; b.Loop(); i++ {
		if err := r.LogRLEnvironmentSteps("reward", int64(i), envs); err != nil {
			b.Fatal(err)
		}
		if i%500 == 499 { // a server would have acked them
			must(b, spool.Prune(r.folder.WriterPath(r.w.ID), r.w.ID, r.w.Last()))
		}
	}
	b.ReportMetric(float64(processorTime(b)-began)/float64(b.N), "cpu-ns/op")
}

func processorTime(b *testing.B) int64 {
	var usage unix.Rusage
	must(b, unix.Getrusage(unix.RUSAGE_SELF, &usage))
	return usage.Utime.Nano() + usage.Stime.Nano()
}

// BenchmarkLogParallel is eight goroutines on one run: on a series each, and all
// on one.
func BenchmarkLogParallel(b *testing.B) {
	const workers = 8
	for _, shared := range []bool{false, true} {
		b.Run(map[bool]string{false: "own", true: "shared"}[shared], func(b *testing.B) {
			r := offline(b, Options{})
			names := make([]string, workers)
			for i := range names {
				if names[i] = "series"; !shared {
					names[i] += strconv.Itoa(i)
				}
				must(b, r.Log(names[i], 0))
			}
			b.ReportAllocs()
			began := processorTime(b)
			b.ResetTimer()
			var group sync.WaitGroup
			for i := range workers {
				group.Go(func() {
					for k := range b.N / workers {
						if err := r.Log(names[i], float64(k)); err != nil {
							b.Error(err)
							return
						}
						if i == 0 && k%50_000 == 49_999 {
							must(b, spool.Prune(r.folder.WriterPath(r.w.ID), r.w.ID, r.w.Last()))
						}
					}
				})
			}
			group.Wait()
			b.ReportMetric(float64(processorTime(b)-began)/float64(b.N), "cpu-ns/op")
		})
	}
}
