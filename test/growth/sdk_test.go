package growth

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kymogram/kymogram"
	"github.com/kymogram/kymogram/internal/spool"
	"github.com/kymogram/kymogram/metrics"
	"github.com/kymogram/kymogram/read"
	"github.com/kymogram/kymogram/read/record"
)

// program is a process that logs: this one, with a spool of its own.
type program struct {
	t     *testing.T
	spool string
	lab   *lab // what package read reads; nil for the others
}

// took measures this process while do runs.
func (p *program) took(do func()) cost {
	before := p.spent()
	do()
	return p.spent().minus(before)
}

// reserved is the noise of a program: its spool grows by 512 KiB at a time, ahead of
// what is logged.
func reserved() cost {
	c := noise()
	c.disk = 2 << 20
	return c
}

func (p *program) spent() cost {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	c := cost{bytes: float64(m.TotalAlloc), objects: float64(m.Mallocs), disk: folderBytes(p.t, p.spool)}
	var usage syscall.Rusage
	if *processor && syscall.Getrusage(syscall.RUSAGE_SELF, &usage) == nil {
		c.seconds = time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
	}
	return c
}

func (p *program) must(errs ...error) {
	p.t.Helper()
	if err := errors.Join(errs...); err != nil {
		p.t.Fatal(err)
	}
}

func (p *program) options() kymogram.Options {
	return kymogram.Options{
		Server: "http://127.0.0.1:9", RunName: "r", NoUplink: true, SpoolDir: p.spool, NoEnvironment: true, NoSystemMetrics: true,
		CloseTimeout: time.Millisecond, Log: slog.New(slog.DiscardHandler),
	}
}

// open opens a run that nothing delivers.
func (p *program) open(options kymogram.Options) *kymogram.Run {
	p.t.Helper()
	r, err := kymogram.Init(context.Background(), options)
	p.must(err)
	p.t.Cleanup(func() { _ = r.Close(context.Background()) }) // its points stay in the spool
	return r
}

// times logs n times to an open run.
func times(log func(r *kymogram.Run, i int) error) func(*program, int) func() {
	return func(p *program, n int) func() {
		r := p.open(p.options())
		return func() {
			for i := range n {
				p.must(log(r, i))
			}
		}
	}
}

// once makes one call of size n, which may be refused for its size.
func once(log func(r *kymogram.Run, n int) error) func(*program, int) func() {
	return func(p *program, n int) func() {
		r := p.open(p.options())
		return func() { _ = log(r, n) }
	}
}

func sdk() []row[*program] {
	values := func(n int) []float64 { return collect(n, func(i int) float64 { return float64(i) / 7 }) }
	config := func(n int) map[string]any {
		c := map[string]any{}
		for i := range n {
			c[text(i, "a%d")] = i
		}
		return c
	}
	labels := func(n int) map[string]string {
		c := map[string]string{}
		for i := range n {
			c[text(i, "k%d")] = "v"
		}
		return c
	}
	env := func(i int) kymogram.LogOption { return kymogram.EnvID(text(i, "env-%d")) }
	point := func(name string) func(*kymogram.Run, int) error {
		return func(r *kymogram.Run, i int) error { return r.Log(name, 1, kymogram.Step(int64(i))) }
	}
	return []row[*program]{
		{call: "Init", grows: "attributes", n: 1_000, run: func(p *program, n int) func() {
			o := p.options()
			o.Config = config(n)
			return func() { p.open(o) }
		}},
		{call: "Init", grows: "runs", n: 20, run: func(p *program, n int) func() {
			return func() {
				for i := range n {
					o := p.options()
					o.RunName, o.OrchestrationID = text(i, "run-%d"), text(i, "job-%d")
					p.open(o)
				}
			}
		}},
		{call: "Run.Log", grows: "points", n: 20_000, run: times(point("m"))},
		{call: "Run.Log", grows: "series", n: 2_000, run: times(func(r *kymogram.Run, i int) error { return r.Log(text(i, "m%d"), 1) })},
		{call: "Run.Log", grows: "labels", n: 1_000, run: once(func(r *kymogram.Run, n int) error { return r.Log("m", 1, kymogram.Labels(labels(n))) })},
		{call: "Run.LogInt", grows: "points", n: 20_000, run: times(func(r *kymogram.Run, i int) error { return r.LogInt("m", int64(i)) })},
		{call: "Run.LogDistributed", grows: "points", n: 20_000, run: times(func(r *kymogram.Run, i int) error { return r.LogDistributed("m", int64(i), 1) })},
		{call: "Run.LogMap", grows: "metrics", n: 2_000, run: func(p *program, n int) func() {
			r, values := p.open(p.options()), map[string]float64{}
			for i := range n {
				values[text(i, "m%d")] = 1
			}
			return func() { p.must(r.LogMap(values)) }
		}},
		{call: "Run.LogValues", grows: "points", n: 20_000, run: once(func(r *kymogram.Run, n int) error { return r.LogValues("m", values(n)) })},
		{call: "LogSlice", grows: "points", n: 20_000, run: once(func(r *kymogram.Run, n int) error { return kymogram.LogSlice(r, "m", make([]float32, n)) })},
		{call: "Run.LogText", grows: "bytes", n: 100_000, run: once(func(r *kymogram.Run, n int) error { return r.LogText("m", strings.Repeat("x", n)) })},
		{call: "Run.LogPoint", grows: "points", n: 20_000, run: times(func(r *kymogram.Run, i int) error {
			return r.LogPoint(kymogram.Point{Fields: fields(2), Axes: map[string]int64{"window": int64(i)}})
		})},
		{call: "Run.LogPoint", grows: "fields", n: 2_000, run: once(func(r *kymogram.Run, n int) error { return r.LogPoint(kymogram.Point{Fields: fields(n)}) })},
		{call: "Run.LogHistogram", grows: "bins", n: 5_000, run: once(func(r *kymogram.Run, n int) error {
			return r.LogHistogram("m", kymogram.Histogram{BinEdges: values(n + 1), Counts: values(n)})
		})},
		{call: "Run.LogScatter", grows: "dots", n: 5_000, run: once(func(r *kymogram.Run, n int) error {
			return r.LogScatter("m", kymogram.Dots{X: values(n), Y: values(n)})
		})},
		{call: "Run.LogConfig", grows: "attributes", n: 500, run: once(func(r *kymogram.Run, n int) error { return r.LogConfig(config(n)) })},
		{call: "Run.LogAttributes", grows: "attributes", n: 500, run: once(func(r *kymogram.Run, n int) error { return r.LogAttributes("a", config(n)) })},
		{call: "Run.LogEnvAttributes", grows: "environments", n: 1_000, run: times(func(r *kymogram.Run, i int) error {
			return r.LogEnvAttributes(text(i, "env-%d"), map[string]any{"a": i})
		})},
		{call: "Run.LogEnvAttributes", grows: "attributes", n: 500, run: once(func(r *kymogram.Run, n int) error { return r.LogEnvAttributes("e", config(n)) })},
		{call: "Run.LogRLEpisode", grows: "environments", n: 2_000, run: times(func(r *kymogram.Run, i int) error { return r.LogRLEpisode("m", 1, 1, env(i), kymogram.Episode(1)) })},
		{call: "Run.LogRLEnvironmentStep", grows: "points", n: 10_000, run: times(func(r *kymogram.Run, i int) error { return r.LogRLEnvironmentStep("m", int64(i), 1, env(0)) })},
		{call: "Run.LogRLEnvironmentStep", grows: "environments", n: 2_000, run: times(func(r *kymogram.Run, i int) error { return r.LogRLEnvironmentStep("m", 1, 1, env(i)) })},
		{call: "Run.LogRLEnvironmentSteps", grows: "environments", n: 2_000, run: once(func(r *kymogram.Run, n int) error {
			envs := collect(n, func(i int) kymogram.EnvValues {
				return kymogram.EnvValues{Env: text(i, "env-%d"), Values: []float64{1}}
			})
			return r.LogRLEnvironmentSteps("m", 1, envs)
		})},
		{call: "Run.SetTags", grows: "tags", n: 1_000, run: once(func(r *kymogram.Run, n int) error { return r.SetTags(tags(n)...) })},
		{call: "Run.AddTags", grows: "tags", n: 1_000, run: once(func(r *kymogram.Run, n int) error { return r.AddTags(tags(n)...) })},
		{call: "Run.RemoveTags", grows: "tags", n: 1_000, run: once(func(r *kymogram.Run, n int) error { return r.RemoveTags(tags(n)...) })},
		{call: "Run.SetDescription", grows: "bytes", n: 100_000, run: once(func(r *kymogram.Run, n int) error { return r.SetDescription(strings.Repeat("x", n)) })},
		{call: "Run.Series", grows: "series", n: 2_000, run: times(func(r *kymogram.Run, i int) error {
			_, err := r.Series(text(i, "m%d"))
			return err
		})},
		{call: "Series.Log", grows: "points", n: 20_000, run: series(func(s *kymogram.Series, _ int) error { return s.Log(1) })},
		{call: "Series.LogAt", grows: "points", n: 20_000, run: series(func(s *kymogram.Series, i int) error { return s.LogAt(int64(i), 1) })},
		{call: "Run.LastStep", grows: "series", n: 2_000, run: asks(func(r *kymogram.Run, i int) error { return r.Log(text(i, "m%d"), 1) }, func(r *kymogram.Run, i int) { r.LastStep(text(i, "m%d")) })},
		{call: "Run.FindLastStep", grows: "series", n: 2_000, run: asks(func(r *kymogram.Run, i int) error { return r.Log(text(i, "m%d"), 1, kymogram.Step(1)) }, func(r *kymogram.Run, i int) {
			_, _, _ = r.FindLastStep(context.Background(), text(i, "m%d"))
		})},
		{call: "Run.LastRL", grows: "environments", n: 2_000, run: asks(func(r *kymogram.Run, i int) error { return r.LogRLEnvironmentStep("m", 1, 1, env(i)) }, func(r *kymogram.Run, i int) { r.LastRL(text(i, "env-%d")) })},
		{call: "Run.Metrics", grows: "points", n: 2_000, run: asks(point("m"), func(r *kymogram.Run, _ int) { r.Metrics() })},
		{call: "Run.Flush", grows: "points", n: 20_000, run: asks(point("m"), func(r *kymogram.Run, i int) {
			if i == 0 {
				_ = r.Flush(context.Background(), true) // nothing delivers
			}
		})},
		{call: "Run.Close", grows: "series", n: 2_000, run: asks(func(r *kymogram.Run, i int) error { return r.Log(text(i, "m%d"), 1) }, func(r *kymogram.Run, i int) {
			if i == 0 {
				_ = r.Close(context.Background()) // nothing delivers
			}
		})},
		{call: "metrics.Registry.PutMetric", grows: "names", n: 2_000, run: func(p *program, n int) func() {
			registry := metrics.New(metrics.Options{})
			registry.Configure(metrics.ToRun(p.open(p.options())))
			return func() {
				for i := range n {
					registry.PutMetric(text(i, "m%d"), 1, "g")
				}
				_ = registry.Flush(context.Background()) // nothing delivers
			}
		}},
		{call: "metrics.Exposition.Emit", grows: "names", n: 2_000, run: func(_ *program, n int) func() {
			x := metrics.NewEndpoint(metrics.EndpointOptions{}).Exposition()
			return func() {
				for i := range n {
					_ = x.Emit(metrics.Data{Group: "g", Name: text(i, "m%d"), Value: 1}) // refused above its own limit
				}
			}
		}},
	}
}

// An Init costs the same beside 100 writers that wait in the spool and beside 500:
// be they of others, or of its own job, of which it names the newest.
func TestInitBesideOthers(t *testing.T) {
	for job, limit := range map[string]float64{"another": 1.3, "its own": 1.6} {
		few, many := besides(t, job, 100), besides(t, job, 500)
		t.Logf("%s job: beside 100 writers %.0f kB and %.0f objects, beside 500 %.0f kB and %.0f", job, few.bytes/1e3, few.objects, many.bytes/1e3, many.objects)
		if many.bytes > limit*few.bytes || many.objects > limit*few.objects {
			t.Errorf("%s job: an Init beside 500 writers allocates more than %.1f times what it does beside 100", job, limit)
		}
	}
}

// besides is what ten Inits cost beside writers of a job whose processes are over.
func besides(t *testing.T, job string, writers int) cost {
	p := &program{t: t, spool: t.TempDir()}
	folder, err := spool.OpenFolder(p.spool)
	p.must(err)
	for i := range writers {
		r := opening(text(i, "other-%d"))
		r.OrchestrationID = job
		p.must(os.Mkdir(folder.WriterPath(r.Writer), 0o700), folder.ReplaceOpen(spool.Open{Format: 2, Open: *r}))
	}
	o := p.options()
	o.Workspace, o.Project, o.OrchestrationID = "w", "p", "its own"
	p.open(o) // the first one lists what is there
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 10 {
		p.open(o)
	}
	runtime.ReadMemStats(&after)
	return cost{bytes: float64(after.TotalAlloc - before.TotalAlloc), objects: float64(after.Mallocs - before.Mallocs)}
}

// series logs n times to one handle.
func series(log func(s *kymogram.Series, i int) error) func(*program, int) func() {
	return func(p *program, n int) func() {
		s, err := p.open(p.options()).Series("m")
		p.must(err)
		return func() {
			for i := range n {
				p.must(log(s, i))
			}
		}
	}
}

// asks logs n times unmeasured, then asks n times.
func asks(log func(r *kymogram.Run, i int) error, ask func(r *kymogram.Run, i int)) func(*program, int) func() {
	return func(p *program, n int) func() {
		r := p.open(p.options())
		for i := range n {
			p.must(log(r, i))
		}
		return func() {
			for i := range n {
				ask(r, i)
			}
		}
	}
}

// walk reads a sequence to its end.
func walk[T any](p *program, seq iter.Seq2[T, error]) {
	for _, err := range seq {
		p.must(err)
	}
}

// asked prepares something on a server and reads it with package read.
func asked(prepare func(*lab, int) string, do func(p *program, c *read.Client, r *read.Run)) func(*program, int) func() {
	return func(p *program, n int) func() {
		id := prepare(p.lab, n)
		client, err := read.Dial("http://"+p.lab.address, p.lab.key)
		p.must(err)
		return func() { do(p, client, client.ByID(id)) }
	}
}

func readers() []row[*program] {
	ctx := context.Background()
	return []row[*program]{
		{call: "read.Client.Projects", grows: "projects", n: 50, run: asked(projects, func(p *program, c *read.Client, _ *read.Run) { walk(p, c.Projects(ctx)) })},
		{call: "read.Client.Runs", grows: "runs", n: 50, run: asked(runs, func(p *program, c *read.Client, _ *read.Run) { walk(p, c.Runs(ctx, "w", "p", read.RunFilter{})) })},
		{call: "read.Run.Attributes", grows: "attributes", n: 500, run: asked(described(attributes), func(p *program, _ *read.Client, r *read.Run) {
			_, err := r.Attributes(ctx)
			p.must(err)
		})},
		{call: "read.Run.Series", grows: "series", n: 1_000, run: asked(filled(ofSeries), func(p *program, _ *read.Client, r *read.Run) { walk(p, r.Series(ctx, "")) })},
		{call: "read.Run.Points", grows: "points", n: 10_000, run: asked(filled(ofPoints), func(p *program, _ *read.Client, r *read.Run) { walk(p, r.Points(ctx, "m0")) })},
		{call: "read.Run.Chunks", grows: "points", n: 10_000, run: asked(filled(ofPoints), func(p *program, _ *read.Client, r *read.Run) { walk(p, r.Chunks(ctx, "m0", 1_000)) })},
		{call: "record.Batches", grows: "points", n: 10_000, run: asked(filled(ofPoints), func(p *program, _ *read.Client, r *read.Run) {
			walk(p, record.Batches(r.Arrow(ctx, "m0", 1_000)))
		})},
		{call: "read.Run.Config", grows: "attributes", n: 500, run: asked(described(attributes), func(p *program, _ *read.Client, r *read.Run) {
			_, err := r.Config(ctx)
			p.must(err)
		})},
		{call: "read.Run.Summary", grows: "series", n: 1_000, run: asked(filled(ofSeries), func(p *program, _ *read.Client, r *read.Run) {
			_, err := r.Summary(ctx)
			p.must(err)
		})},
		{call: "read.Run.Buckets", grows: "points", n: 20_000, run: asked(filled(ofPoints), func(p *program, _ *read.Client, r *read.Run) {
			_, err := r.Buckets(ctx, "m0", 100)
			p.must(err)
		})},
	}
}

// callsWithoutRows are the exported calls that have no dimension, and why.
func callsWithoutRows() map[string]string {
	const (
		option  = "makes an option of constant size"
		field   = "returns a field"
		once    = "one request of constant size; its route has rows"
		through = "hands on to a call that has a row"
		handler = "makes a handler; each of its calls handles one value"
	)
	out := map[string]string{
		"Run.LogRendering":  "frames go to ffmpeg; `make bench-client` measures them",
		"Run.MarkRendering": "one record of constant size", "Run.TagRendering": "one record of constant size",
		"Run.SenderErrors": "at most 100 errors are kept",
		"Run.Fail":         through + ": Run.Close", "Run.Interrupt": through + ": Run.Close",
		"Run.Project":      field,
		"read.Run.Lineage": once, "read.Client.Run": once, "read.Client.Project": once, "read.Dial": "opens no connection",
		"read.Client.ByID": "makes no request",
		"read.Run.Files":   "as a list of renderings, which has a row; only the W&B receiver writes files",
		"read.File.Open":   "one blob, which has rows", "read.File.Download": "one blob, which has rows",
		"read.Series.Points": through + ": read.Run.Points", "read.Series.Buckets": through + ": read.Run.Buckets",
		"read.Run.BucketsOn": "as read.Run.Buckets, which hands on to it", "read.Series.BucketsOn": through + ": read.Run.Buckets",
		"read.Client.RunPage": "one page of read.Client.Runs", "read.Run.SeriesPage": "one page of read.Run.Series",
		"read.Run.PointPage": "one page of read.Run.Chunks", "read.Series.PointPage": "one page of read.Run.Chunks",
		"read.Run.Attempts": once,
		"NewHandler":        handler, "AllNumbers": option, "NewContext": field, "FromContext": field,
		"read.Series.Chunks": through + ": read.Run.Chunks", "read.Series.Arrow": through + ": record.Batches", "read.Run.Arrow": through + ": record.Batches",
		"read.Chunk.Rows": field, "read.Chunk.Point": "one row",
		"read.Last.UnmarshalJSON": "one value", "read.Run.UnmarshalJSON": through + ": read.Client.Runs", "read.Series.UnmarshalJSON": through + ": read.Run.Series",
		"read.Point.Step":   field,
		"metrics.PutMetric": through + ": metrics.Registry.PutMetric", "metrics.Profile": through + ": metrics.PutMetric",
		"metrics.Start": "takes the time", "metrics.Call.End": through + ": metrics.PutMetric",
		"metrics.Serve": "listens; the exposition has a row", "metrics.MetricOf": "of one name",
		"metrics.New": "makes an empty registry", "metrics.NewContext": field, "metrics.FromContext": field,
		"metrics.NewEndpoint": "makes an empty endpoint", "metrics.HandlerFunc.Emit": through,
		"metrics.Exposition.Resume": through + ": metrics.Exposition.Emit",
		"metrics.Registry.Flush":    "measured with metrics.Registry.PutMetric", "metrics.Registry.Close": through + ": metrics.Registry.Flush",
		"metrics.Registry.Configure": "one entry for each group", "metrics.Registry.Counts": "one line for each handler",
		"UndeliveredError.Error": "one sentence", "read.Over": field,
	}
	for _, name := range []string{"At", "EnvID", "Episode", "Evaluation", "Labels", "Scale", "Step", "read.Attempt", "read.Axis", "read.Between", "read.IncludeInherited", "read.Labels", "read.Scale"} {
		out[name] = option
	}
	for _, name := range []string{"Run.ID", "Run.Name", "Run.Offline", "Run.Server", "Run.SpoolDir"} {
		out[name] = field
	}
	for _, name := range []string{"Console", "FanOut", "JSONLines", "Null", "ToRun"} {
		out["metrics."+name] = handler
	}
	for _, name := range []string{"Exposition", "HTTP", "Handler", "Register", "Serve", "SetScores", "SetState", "Stream", "Unary", "Validated", "WeightsSet"} {
		out["metrics.Endpoint."+name] = "an endpoint's own gauges; the exposition has a row"
	}
	return out
}

// ofPrograms measures rows of this process, each with a server where it needs one.
func ofPrograms(t *testing.T, rows []row[*program], server func(t *testing.T) *lab, floor cost) {
	t.Helper()
	short(t)
	for _, r := range rows {
		if !r.wanted() {
			continue
		}
		t.Run(titled(r.name()), func(t *testing.T) {
			r.judge(t, floor, func(n int) cost {
				p := &program{t: t, spool: t.TempDir()}
				if server != nil {
					p.lab = server(t)
				}
				do := r.run(p, n)
				return p.took(do)
			})
		})
	}
}

func TestSDK(t *testing.T) { ofPrograms(t, sdk(), nil, reserved()) }

func TestReaders(t *testing.T) {
	short(t)
	ofPrograms(t, readers(), start, reserved())
}

// titled is a row's name as the name of a test.
func titled(name string) string {
	return strings.NewReplacer(" ", "_", "/", "·").Replace(name)
}

// fields are those of a point.
func fields(n int) (out []kymogram.Field) {
	for i := range n {
		out = append(out, kymogram.Field{Metric: text(i, "m%d"), Value: float64(i)})
	}
	return out
}
