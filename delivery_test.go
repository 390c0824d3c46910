package kymogram

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/spool"
)

// The four numbers of each kind agree with each other and with what a server got.
func TestMetricsAgreeWithTheServer(t *testing.T) {
	f := startFake(t)
	r, err := f.init(t, Options{RunName: "name"})
	must(t, err)
	episode := int64(3)
	must(t,
		r.Log("a", 1), r.LogInt("i", 2), r.LogText("t", "x"), r.LogValues("v", []float64{1, 2, 3}),
		r.LogMap(map[string]float64{"m1": 1, "m2": 2}), r.LogDistributed("d", 4, 1),
		r.LogRLEpisode("ret", 1, 0.5, Episode(3)),
		r.LogRLEnvironmentSteps("rew", 1, []EnvValues{{Env: "x", Episode: &episode, Values: []float64{1, 2}}, {Env: "y", Values: []float64{1, 2, 3}}}),
		r.LogConfig(map[string]any{"lr": 1, "n": 2}), r.SetTags("t"), r.LogEnvAttributes("x", map[string]any{"p": 1}),
	)
	must(t, r.Close(context.Background()))
	m := r.Metrics()
	all := func(n uint64) Counts { return Counts{Added: n, Enqueued: n, Sent: n} }
	want := Metrics{FloatPoints: all(1 + 1 + 1 + 3 + 2 + 1), RLFloatPoints: all(1 + 5), AttributeUpdates: all(3), EnvAttributeUpdates: all(1)}
	got := m
	got.RequestsSent, got.ConnectionAttempts = 0, 0
	if diff := cmp.Diff(want, got); diff != "" || m.RequestsSent == 0 || m.ConnectionAttempts == 0 {
		t.Errorf("(-want +got)\n%s\n%+v", diff, m)
	}
}

func TestStepsThatDoNotRiseAreCounted(t *testing.T) {
	r := offline(t, Options{})
	must(t, r.Log("a", 1, Step(5)), r.Log("a", 1, Step(5)), r.Log("a", 1, Step(2)), r.Log("a", 1, Step(9)), r.LogDistributed("d", 5, 1), r.LogDistributed("d", 1, 1))
	if n := r.Metrics().StepsNotRising; n != 2 {
		t.Errorf("%d steps do not rise, want 2", n)
	}
}

func TestBackpressure(t *testing.T) {
	t.Run("drop_new", func(t *testing.T) {
		r := offline(t, Options{Backpressure: BackpressureDropNew, QueueCapacity: 10, EnqueueTimeout: time.Millisecond})
		for range 25 {
			must(t, r.Log("a", 1))
		}
		must(t, r.LogValues("v", make([]float64, 4)))
		m := r.Metrics()
		if m.FloatPoints != (Counts{Added: 29, Enqueued: 10, Dropped: 19}) || m.Pending != 10 {
			t.Errorf("%+v", m)
		}
		if n := len(logged(t, r)); n != 10 {
			t.Errorf("%d points are in the spool", n)
		}
	})
	t.Run("raise", func(t *testing.T) {
		r := offline(t, Options{Backpressure: BackpressureRaise, QueueCapacity: 1, EnqueueTimeout: time.Millisecond})
		must(t, r.Log("a", 1))
		if err := r.Log("a", 2); !errors.Is(err, ErrQueueFull) {
			t.Errorf("a full queue: %v", err)
		}
	})
	t.Run("block", func(t *testing.T) {
		r := offline(t, Options{Backpressure: BackpressureBlock, QueueCapacity: 2})
		must(t, r.Log("a", 1), r.Log("a", 2))
		done := make(chan error)
		go func() { done <- r.Log("a", 3) }()
		select {
		case err := <-done:
			t.Fatalf("a full queue was passed: %v", err)
		case <-time.After(20 * time.Millisecond):
		}
		// The server acks one: as the deliverer would say it.
		must(t, r.w.Status().SetCounts(spool.Page{Acked: 1}))
		must(t, <-done)
	})
}

func TestErrorStrategies(t *testing.T) {
	var heard []string
	bad := errors.New("the key is refused")
	for strategy, want := range map[ErrorStrategy]struct{ log, close bool }{
		ErrorsSilent: {}, ErrorsWarn: {}, ErrorsRaiseOnLog: {log: true}, ErrorsRaiseOnClose: {close: true},
	} {
		t.Run(string(strategy), func(t *testing.T) {
			heard = nil
			var warned strings.Builder
			opts := Options{ErrorStrategy: strategy, OnError: func(err error) { heard = append(heard, err.Error()) }}
			r := offline(t, opts)
			r.opts.Log = slog.New(slog.NewTextHandler(&warned, nil))
			r.errors.Report(bad)
			r.errors.Report(bad) // the same words are one error
			if err := r.Log("a", 1); errors.Is(err, bad) != want.log {
				t.Errorf("the next call: %v", err)
			}
			must(t, r.Log("a", 1))
			if got := r.SenderErrors(); len(got) != 1 || len(r.SenderErrors()) != 0 || len(heard) != 1 {
				t.Errorf("kept %v, heard %v", got, heard)
			}
			if err := r.Close(context.Background()); errors.Is(err, bad) != want.close {
				t.Errorf("close: %v", err)
			}
			if says := warned.Len() > 0; says != (strategy == ErrorsWarn || strategy == ErrorsRaiseOnClose) {
				t.Errorf("warned %q", warned.String())
			}
		})
	}
}

func TestDocuments(t *testing.T) {
	r := offline(t, Options{})
	must(t,
		r.LogHistogram("h", Histogram{BinEdges: []float64{0, 1, 3}, Counts: []float64{2, 5}}, Step(4)),
		r.LogScatter("s", Dots{X: []float64{1, math.NaN()}, Y: []float64{2, math.Inf(1)}, XTitle: "x"}),
	)
	got := logged(t, r)
	want := []string{`{"bin_edges":[0,1,3],"counts":[2,5]}`, `{"x":[1,"NaN"],"y":[2,"Infinity"],"x_title":"x"}`}
	for i, one := range want {
		if i >= len(got) || !strings.Contains(got[i].value, one) || !json.Valid([]byte(one)) {
			t.Errorf("%+v, want %s", got, one)
		}
	}
	for name, err := range map[string]error{
		"falling edges": r.LogHistogram("h", Histogram{BinEdges: []float64{1, 0}, Counts: []float64{1}}),
		"both":          r.LogHistogram("h", Histogram{BinEdges: []float64{0, 1}, Counts: []float64{1}, Densities: []float64{1}}),
		"lengths":       r.LogScatter("s", Dots{X: []float64{1}, Y: nil}),
		"another kind":  r.Log("h", 1),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestDeliveryOptionsFromTheEnvironment(t *testing.T) {
	settle := func(env map[string]string) (Options, error) {
		o := Options{env: func(name string) string { return env[name] }, Log: silent}
		return o, o.settle()
	}
	o, err := settle(map[string]string{
		"METRANA_BACKPRESSURE_STRATEGY": "drop_new", "KYMOGRAM_ERROR_MODES": "raise_on_log", "METRANA_RESUME_STRATEGY": "allow",
		"METRANA_EVENT_QUEUE_MAX_SIZE": "77", "METRANA_SKIP_DRAIN_RENDER_ON_CLOSE": "true", "METRANA_RENDERING_CLOSE_TIMEOUT": "1.5",
		"METRANA_CAPTURE_SYSTEM_METRICS": "0", "METRANA_SYSTEM_METRICS_INTERVAL_SECS": "5", "METRANA_API_KEY": "key",
	})
	must(t, err)
	if o.Backpressure != BackpressureDropNew || o.ErrorStrategy != ErrorsRaiseOnLog || o.ResumeStrategy != ResumeAllow || o.QueueCapacity != 77 ||
		!o.Rendering.SkipDrainOnClose || o.Rendering.CloseTimeout != 1500*time.Millisecond || !o.NoSystemMetrics || o.SystemMetricsInterval != 5*time.Second || o.APIKey != "key" {
		t.Errorf("%+v", o)
	}
	if p := o.pace(); p == nil || p.GiveUpAfter == nil || *p.GiveUpAfter != defaultRetries || o.system() != nil {
		t.Errorf("pace %+v", p)
	}
	for name, value := range map[string]string{
		"KYMOGRAM_BACKPRESSURE_STRATEGY": "x", "KYMOGRAM_ERROR_MODES": "x", "KYMOGRAM_RESUME_STRATEGY": "x", "KYMOGRAM_EVENT_QUEUE_MAX_SIZE": "-1",
		"KYMOGRAM_SKIP_DRAIN_RENDER_ON_CLOSE": "maybe", "KYMOGRAM_RENDERING_CLOSE_TIMEOUT": "-1", "KYMOGRAM_CAPTURE_SYSTEM_METRICS": "x", "KYMOGRAM_SYSTEM_METRICS_INTERVAL_SECS": "NaN",
	} {
		if _, err := settle(map[string]string{name: value}); model.CodeOf(err) != model.CodeInvalid {
			t.Errorf("%s=%s: %v", name, value, err)
		}
	}
	if o, err = settle(nil); err != nil || o.pace() != nil || o.Backpressure != BackpressureSpool || o.system() == nil {
		t.Errorf("the defaults: %v, pace %+v", err, o.pace())
	}
}

// Close returns within 0.2 s of its limit, whatever the server does.
func TestCloseHonoursItsLimit(t *testing.T) {
	hole, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and never answers
	must(t, err)
	defer hole.Close()
	for _, limit := range []time.Duration{time.Millisecond, 300 * time.Millisecond} {
		opts := Options{Server: "http://" + hole.Addr().String(), SpoolDir: t.TempDir(), Log: silent, CloseTimeout: limit, NoEnvironment: true}
		// Where the program's end is the machine's, Close is patient up to its limit.
		opts.env = func(name string) string { return map[string]string{"SLURM_JOB_ID": "1"}[name] }
		for _, name := range []string{envOrchestration, envAttempt, envAttemptPID} {
			t.Setenv(name, "")
		}
		r, err := Init(context.Background(), opts)
		must(t, err)
		for range 10_000 {
			must(t, r.Log("a", 1))
		}
		began := time.Now()
		err = r.Close(context.Background())
		took := time.Since(began)
		var left *UndeliveredError
		if !errors.As(err, &left) || left.Points != 10_000 {
			t.Errorf("close says %v", err)
		}
		if took > limit+200*time.Millisecond && !busy() {
			t.Errorf("close took %s, its limit is %s", took, limit)
		}
	}
}

// busy reports whether this machine gives a sleeping goroutine its turn so late
// that times say nothing.
func busy() bool {
	began := time.Now()
	time.Sleep(time.Millisecond)
	return time.Since(began) > 20*time.Millisecond
}

func TestPointsThatWaitInMemoryAreToldOnce(t *testing.T) {
	var mu sync.Mutex
	var heard []string
	r := offline(t, Options{OnError: func(err error) {
		mu.Lock()
		defer mu.Unlock()
		heard = append(heard, err.Error())
	}, MaxSpoolBytes: 256 << 10})
	n := uint64(0)
	for ; r.Metrics().InMemory < 2; n++ {
		must(t, r.Log("a", 1))
	}
	r.look()
	r.look()
	mu.Lock()
	defer mu.Unlock()
	if len(heard) != 1 || !strings.Contains(heard[0], "its share of the disk is used; delivery frees it; new points wait in memory") {
		t.Errorf("heard %q", heard)
	}
	if m := r.Metrics(); m.InMemory != 2 || m.FloatPoints != (Counts{Added: n, Enqueued: n}) {
		t.Errorf("%+v", m)
	}
}
