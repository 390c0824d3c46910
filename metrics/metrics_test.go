package metrics_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kymogram/kymogram"
	"github.com/kymogram/kymogram/internal/spool"
	"github.com/kymogram/kymogram/metrics"
)

// recorder remembers everything: the oracle of most tests.
type recorder struct {
	mu   sync.Mutex
	seen []metrics.Data
}

func (r *recorder) Emit(d metrics.Data) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = append(r.seen, d)
	return nil
}

// names are "group name=value" of what was seen once all is delivered.
func (r *recorder) names(t *testing.T, reg *metrics.Registry) (out []string) {
	t.Helper()
	if err := reg.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range r.seen {
		out = append(out, fmt.Sprintf("%s %s=%v", d.Group, d.Name, d.Value))
	}
	return out
}

// newRegistry has a clock that goes a second at each look.
func newRegistry(t *testing.T, capacity int) (*metrics.Registry, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	now := time.Unix(1_700_000_000, 0)
	var mu sync.Mutex
	reg := metrics.New(metrics.Options{Capacity: capacity, Log: slog.New(slog.NewTextHandler(&log, nil)), Now: func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		now = now.Add(time.Second)
		return now
	}})
	t.Cleanup(func() { _ = reg.Close(context.WithoutCancel(t.Context())) })
	return reg, &log
}

func wantNames(t *testing.T, got []string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
}

func TestGroupsHaveTheirOwnHandlers(t *testing.T) {
	reg, _ := newRegistry(t, 0)
	mine, others := &recorder{}, &recorder{}
	reg.PutMetric("nobody", 1)
	reg.Configure(mine, "mine", "ours")
	reg.Configure(others)
	reg.PutMetric("a", 1, "mine")
	reg.PutMetric("a", 2, "ours")
	reg.PutMetric("b", 3)
	reg.PutMetric("c", 4, "theirs", "mine")
	wantNames(t, mine.names(t, reg), "mine a=1", "ours a=2", "mine c=4")
	wantNames(t, others.names(t, reg), "torchelastic b=3", "theirs c=4")

	reg.Configure(metrics.Null(), "mine")
	reg.PutMetric("a", 5, "mine")
	wantNames(t, mine.names(t, reg), "mine a=1", "ours a=2", "mine c=4")
	if n := len(reg.Counts()); n != 2 {
		t.Fatalf("%d handlers in use, want 2", n)
	}
	reg.Configure(nil, "ours")
	reg.Configure(nil)
	if n := len(reg.Counts()); n != 0 {
		t.Fatalf("%d handlers in use, want none", n)
	}
}

func TestWithoutARegistryMetricsAreForgotten(t *testing.T) {
	ctx := t.Context()
	metrics.PutMetric(ctx, "a", 1)
	ran := false
	if err := metrics.Profile(ctx, "f", func(context.Context) error { ran = true; return nil }); err != nil || !ran {
		t.Fatalf("ran %v: %v", ran, err)
	}
	var none *metrics.Registry
	none.Configure(metrics.Null())
	if err := errors.Join(none.Flush(ctx), none.Close(ctx)); err != nil || none.Counts() != nil {
		t.Fatal(err)
	}
}

var errStep = errors.New("step")

func TestProfilePublishesDurationAndOutcome(t *testing.T) {
	reg, _ := newRegistry(t, 0)
	seen := &recorder{}
	reg.Configure(seen)
	ctx := metrics.NewContext(t.Context(), reg)
	if err := metrics.Profile(ctx, "a.good", func(context.Context) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if err := metrics.Profile(ctx, "a.bad", func(context.Context) error { return errStep }, "agent"); !errors.Is(err, errStep) {
		t.Fatal(err)
	}
	wantNames(
		t, seen.names(t, reg),
		"torchelastic a.good=1000", "torchelastic a.good.duration.ms=1000", "torchelastic a.good.count=1", "torchelastic a.good.success=1",
		"agent a.bad=1000", "agent a.bad.duration.ms=1000", "agent a.bad.count=1", "agent a.bad.failure=1",
	)
}

func outcome(t *testing.T, do func(ctx context.Context)) (last string, panicked any) {
	t.Helper()
	reg, _ := newRegistry(t, 0)
	seen := &recorder{}
	reg.Configure(seen)
	func() {
		defer func() { panicked = recover() }()
		do(metrics.NewContext(t.Context(), reg))
	}()
	names := seen.names(t, reg)
	return names[len(names)-1], panicked
}

func TestDeferredForm(t *testing.T) {
	step := func(ctx context.Context, result error) (err error) {
		defer metrics.Start(ctx, "step", "g").End(&err)
		return result
	}
	for name, test := range map[string]struct {
		do   func(context.Context)
		want string
		says any
	}{
		"success": {func(ctx context.Context) { _ = step(ctx, nil) }, "g step.success=1", nil},
		"failure": {func(ctx context.Context) { _ = step(ctx, errStep) }, "g step.failure=1", nil},
		"no error": {func(ctx context.Context) {
			defer metrics.Start(ctx, "step", "g").End(nil)
		}, "g step.success=1", nil},
		"panic": {func(ctx context.Context) {
			defer metrics.Start(ctx, "step", "g").End(nil)
			panic("boom")
		}, "g step.failure=1", "boom"},
		"panic in Profile": {func(ctx context.Context) {
			_ = metrics.Profile(ctx, "step", func(context.Context) error { panic("boom") }, "g")
		}, "g step.failure=1", "boom"},
	} {
		t.Run(name, func(t *testing.T) {
			if got, panicked := outcome(t, test.do); got != test.want || panicked != test.says {
				t.Fatalf("%s and panic %v, want %s and %v", got, panicked, test.want, test.says)
			}
		})
	}
}

// stuck blocks until it is let go.
type stuck struct {
	entered, free chan struct{}
	once          sync.Once
}

func newStuck() *stuck { return &stuck{entered: make(chan struct{}), free: make(chan struct{})} }

func (s *stuck) Emit(metrics.Data) error {
	s.once.Do(func() { close(s.entered) })
	<-s.free
	return nil
}

func TestABlockedHandlerCostsMetricsAndNeverTheCaller(t *testing.T) {
	reg, log := newRegistry(t, 100)
	blocked := newStuck()
	reg.Configure(blocked)
	reg.PutMetric("a", 0)
	<-blocked.entered
	for i := range 103 {
		reg.PutMetric("a", float64(i))
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := reg.Flush(ended); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "100 metrics wait") {
		t.Fatal(err)
	}
	if c := reg.Counts()[0]; c.Emitted != 0 || c.Dropped != 3 || c.Waiting != 100 {
		t.Fatalf("%+v", c)
	}
	close(blocked.free)
	if err := reg.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := reg.Counts()[0].Emitted; got != 101 {
		t.Fatalf("emitted %d, want 101", got)
	}
	if n := strings.Count(log.String(), "too slow"); n != 1 {
		t.Fatalf("told %d times:\n%s", n, log)
	}
}

func TestAFanOutHoldsNobodyUp(t *testing.T) {
	reg, _ := newRegistry(t, 0)
	blocked, first, last := newStuck(), &recorder{}, &recorder{}
	failing := metrics.HandlerFunc(func(metrics.Data) error { return errStep })
	reg.Configure(metrics.FanOut(first, failing, metrics.FanOut(blocked, last)))
	reg.PutMetric("a", 1)
	reg.PutMetric("b", 2)
	<-blocked.entered
	for len(reg.Counts()) != 4 || reg.Counts()[0].Emitted+reg.Counts()[3].Emitted < 4 {
		runtime.Gosched() // the two get both, though the one between them never moves
	}
	close(blocked.free)
	want := []string{"torchelastic a=1", "torchelastic b=2"}
	wantNames(t, first.names(t, reg), want...)
	wantNames(t, last.names(t, reg), want...)
}

// A run gets what the table of names says, at the time of the metric.
func TestToRun(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	run, err := kymogram.Init(t.Context(), kymogram.Options{SpoolDir: t.TempDir(), Server: "http://127.0.0.1:1", RunName: "r", NoUplink: true, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	reg, _ := newRegistry(t, 0)
	reg.Configure(metrics.ToRun(run))
	reg.PutMetric("loss", 0.5, "train")
	reg.PutMetric("f.<locals>.g", 2, "train")
	if err := reg.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	folder, err := spool.OpenFolder(run.SpoolDir())
	if err != nil {
		t.Fatal(err)
	}
	writers, err := folder.Writers()
	if err != nil || len(writers) != 1 {
		t.Fatal(writers, err)
	}
	tail, err := spool.OpenTail(folder.WriterPath(writers[0]), writers[0], 1, true)
	if err != nil {
		t.Fatal(err)
	}
	defer tail.Close()
	var got []string
	for r := (spool.Record{}); ; {
		progress, err := tail.Next(&r)
		if err != nil {
			t.Fatal(err)
		}
		if progress != spool.Got {
			break
		}
		if r.Type == spool.TypePoint {
			d := tail.Series[r.Series]
			got = append(got, fmt.Sprintf("%s %v %v at %d", d.Metric, d.Labels, math.Float64frombits(r.Bits), r.TimeNs/1e9))
		}
	}
	wantNames(t, got, "train/loss map[] 0.5 at 1700000001", "train/f._locals_.g map[exact_name:train/f.<locals>.g] 2 at 1700000002")
	_ = run.Close(t.Context())
	reg.PutMetric("loss", 0.5, "train")
	if err := reg.Flush(t.Context()); err != nil || reg.Counts()[0].Failed != 1 {
		t.Fatalf("after the run's end: %v, %+v", err, reg.Counts())
	}
}

func TestAFailingHandlerIsCountedAndToldOnce(t *testing.T) {
	reg, log := newRegistry(t, 0)
	reg.Configure(metrics.HandlerFunc(func(d metrics.Data) error {
		if d.Value > 1 {
			panic("worse")
		}
		return errors.New("no room")
	}))
	for i := range 5 {
		reg.PutMetric("a", float64(i))
	}
	if err := reg.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c := reg.Counts()[0]; c.Failed != 5 || c.Emitted != 0 {
		t.Fatalf("%+v", c)
	}
	if n := strings.Count(log.String(), "no room"); n != 1 {
		t.Fatalf("told %d times:\n%s", n, log)
	}
}

func TestConsolePrintsAsTheDocumentSays(t *testing.T) {
	reg := metrics.New(metrics.Options{})
	var out bytes.Buffer
	reg.Configure(metrics.Console(&out), "my_app")
	reg.PutMetric("my_metric", 7, "my_app")
	if err := reg.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`^\[\d+\.\d+\]\[my_app\]: my_metric=7\n$`).MatchString(out.String()) {
		t.Fatal(out.String())
	}
}

func TestJSONLinesAreReadBackExactly(t *testing.T) {
	reg, _ := newRegistry(t, 0)
	var out bytes.Buffer
	reg.Configure(metrics.JSONLines(&out))
	values := []float64{1, 0.1, -1e300, math.Inf(1), math.Inf(-1), math.NaN()}
	for _, v := range values {
		reg.PutMetric("nä\nme", v)
	}
	if err := reg.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []any{1.0, 0.1, -1e300, "Infinity", "-Infinity", "NaN"}
	for i, line := range strings.Split(strings.TrimSpace(out.String()), "\n") {
		var got map[string]any
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			t.Fatal(err)
		}
		wanted := map[string]any{"timestamp": 1_700_000_001.0 + float64(i), "group_name": "torchelastic", "name": "nä\nme", "value": want[i]}
		if diff := cmp.Diff(wanted, got); diff != "" {
			t.Errorf("line %d (-want +got):\n%s", i, diff)
		}
	}
}

// The table that Python's test reads too.
func TestSeriesNames(t *testing.T) {
	raw, err := os.ReadFile("../testdata/metrics/names.json")
	if err != nil {
		t.Fatal(err)
	}
	var table []struct{ Group, Name, Series, Exact string }
	if err := json.Unmarshal(raw, &table); err != nil || len(table) == 0 {
		t.Fatalf("%d rows: %v", len(table), err)
	}
	for _, row := range table {
		name, exact := metrics.SeriesOf(row.Group, row.Name)
		if name != row.Series || exact != row.Exact {
			t.Errorf("%q %q is %q %q, want %q %q", row.Group, row.Name, name, exact, row.Series, row.Exact)
		}
		labels := map[string]string{}
		if exact != "" {
			labels[metrics.ExactName] = exact
		}
		if back, ok := metrics.MetricOf(row.Group, name, labels); !ok || back != row.Name {
			t.Errorf("%q of group %q comes back as %q, %v", name, row.Group, back, ok)
		}
	}
	if _, ok := metrics.MetricOf("train", "training/loss", nil); ok {
		t.Error("a group took the series of another one with a longer name")
	}
}

func FuzzSeriesNames(f *testing.F) {
	f.Add("g", "f.<locals>.g")
	f.Add("g%", "a=b&c\n")
	f.Fuzz(func(t *testing.T, group, name string) {
		series, exact := metrics.SeriesOf(group, name)
		if strings.ContainsAny(series, " ()[],=<>!~\"|\n") || strings.ContainsAny(exact, "=&\n") {
			t.Fatalf("%q %q", series, exact)
		}
		labels := map[string]string{}
		if exact != "" {
			labels[metrics.ExactName] = exact
		}
		valid := strings.ToValidUTF8
		back, ok := metrics.MetricOf(valid(group, "\ufffd"), series, labels)
		if want := valid(name, "\ufffd"); name != "" && want == name && group == valid(group, "\ufffd") && (!ok || back != want) {
			t.Fatalf("%q %q comes back as %q, %v", group, name, back, ok)
		}
	})
}

// What a metric costs that nobody wants: at most 20 ns (docs/design/targets.md).
func BenchmarkPutMetricToNull(b *testing.B) {
	reg := metrics.New(metrics.Options{})
	reg.Configure(metrics.Null())
	for b.Loop() {
		reg.PutMetric("a", 1)
	}
}

func BenchmarkPutMetricToNullByContext(b *testing.B) {
	reg := metrics.New(metrics.Options{})
	reg.Configure(metrics.Null())
	ctx := metrics.NewContext(b.Context(), reg)
	for b.Loop() {
		metrics.PutMetric(ctx, "a", 1, "group")
	}
}

// Another group has a handler.
func BenchmarkPutMetricToNullBesideAHandler(b *testing.B) {
	reg := metrics.New(metrics.Options{})
	reg.Configure(metrics.HandlerFunc(func(metrics.Data) error { return nil }), "heard")
	for b.Loop() {
		reg.PutMetric("a", 1)
	}
}

func BenchmarkPutMetricToAHandler(b *testing.B) {
	reg := metrics.New(metrics.Options{Log: slog.New(slog.DiscardHandler)})
	reg.Configure(metrics.HandlerFunc(func(metrics.Data) error { return nil }))
	for b.Loop() {
		reg.PutMetric("a", 1)
	}
}
