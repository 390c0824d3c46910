package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	prom "github.com/prometheus/common/model"

	"github.com/kymogram/kymogram"
	"github.com/kymogram/kymogram/internal/spool"
	"github.com/kymogram/kymogram/internal/testkit/prometheus"
	"github.com/kymogram/kymogram/internal/uplink"
	"github.com/kymogram/kymogram/metrics"
	"github.com/kymogram/kymogram/server/internal/expose"
)

// heard is what a command says while it runs.
type heard struct {
	mu sync.Mutex
	bytes.Buffer
}

func (h *heard) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.Buffer.Write(p)
}

func (h *heard) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.Buffer.String()
}

// serveAgent runs `kymogram agent --metrics` and gives the endpoint's address.
func (k *kitchen) serveAgent(args ...string) (url string) {
	k.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	var log heard
	done := make(chan int, 1)
	go func() {
		args := append([]string{"agent", "--metrics", "127.0.0.1:0"}, args...)
		done <- run(ctx, args, stdio{in: strings.NewReader(""), out: io.Discard, err: &log, env: k.getenv})
	}()
	k.t.Cleanup(func() {
		stop()
		if code := <-done; code != exitDone {
			k.t.Errorf("the agent ended with %d\n%s", code, log.String())
		}
	})
	address := regexp.MustCompile(`address=(http://\S+)`)
	k.until("the endpoint", func() bool { return address.MatchString(log.String()) })
	return address.FindStringSubmatch(log.String())[1]
}

// body is what an endpoint answers.
func body(t *testing.T, url string) string {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", url, response.Status, err)
	}
	return string(text)
}

// scrapeOf reads an endpoint by Prometheus' own parser: "name{label=value}" → value.
func scrapeOf(t *testing.T, url string) map[string]float64 {
	t.Helper()
	parser := expfmt.NewTextParser(prom.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(body(t, url)))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for name, family := range families {
		for _, m := range family.GetMetric() {
			key := name
			for _, l := range m.GetLabel() {
				key += "{" + l.GetName() + "=" + l.GetValue() + "}"
			}
			out[key] = m.GetGauge().GetValue() + m.GetCounter().GetValue() + m.GetUntyped().GetValue()
			if h := m.GetHistogram(); h != nil {
				out[key], out[key+" sum"] = float64(h.GetSampleCount()), h.GetSampleSum()
			}
		}
	}
	return out
}

// program is a program that publishes metrics, logs a series and ends.
func (k *kitchen) program(n int) {
	k.t.Helper()
	for _, v := range []string{"KYMOGRAM_ORCHESTRATION_ID", "KYMOGRAM_ATTEMPT", "KYMOGRAM_ATTEMPT_PID"} {
		k.t.Setenv(v, "")
	}
	ctx := context.Background()
	r, err := kymogram.Init(ctx, kymogram.Options{
		RunName: fmt.Sprint("short-", n), SpoolDir: k.spool(), Server: "http://" + k.address, APIKey: k.key(), NoUplink: true,
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		k.t.Fatal(err)
	}
	reg := metrics.New(metrics.Options{})
	reg.Configure(metrics.ToRun(r))
	reg.PutMetric("step.count", 1, "train")
	reg.PutMetric("step.duration.ms", 250, "train")
	reg.PutMetric("f.<locals>.g.failure", 2, "train")
	reg.PutMetric("lr", float64(n), "train")
	reg.PutMetric("token", 1, "secret")
	if err := reg.Close(ctx); err != nil {
		k.t.Fatal(err)
	}
	for name, labels := range map[string]map[string]string{"train/labelled": {"a": "b"}, "training/other": nil} {
		if err := r.Log(name, 1, kymogram.Labels(labels)); err != nil {
			k.t.Fatal(err)
		}
	}
	if err := r.Close(ctx); err != nil {
		k.t.Fatal(err)
	}
}

// Programs that end at once are delivered and their folders deleted at once; the
// endpoint has still read every value of a public group, once, and nothing else.
func TestAgentExposesWhatShortProgramsLog(t *testing.T) {
	k := serveKitchen(t)
	k.env["KYMOGRAM_SPOOL_DIR"] = k.spool()
	url := k.serveAgent("--expose", "train", "--expose", "unused")
	const programs = 12
	for n := range programs {
		k.program(n)
	}
	got := scrapeOf(t, url)
	for series, want := range map[string]float64{
		"kymogram_metric_events_total{group=train}{name=step.count}":               programs,
		"kymogram_metric_events_total{group=train}{name=f.<locals>.g.failure}":     2 * programs,
		"kymogram_metric_duration_seconds{group=train}{name=step.duration.ms}":     programs,
		"kymogram_metric_duration_seconds{group=train}{name=step.duration.ms} sum": 0.25 * programs,
		"kymogram_metric{group=train}{name=lr}":                                    programs - 1,
		"kymogram_agent_points_delivered_total":                                    7 * programs,
		"kymogram_agent_expose_dropped_total":                                      0,
		"kymogram_node_state{state=ready}":                                         1,
		"kymogram_node_info{version=" + version + "}":                              1,
	} {
		if value, ok := got[series]; !ok || value != want {
			t.Errorf("%s is %v (there: %v), want %v", series, value, ok, want)
		}
	}
	for series := range got {
		if strings.Contains(series, "secret") || strings.Contains(series, "labelled") || strings.Contains(series, "other") || strings.Contains(series, "short-") {
			t.Errorf("%s is public", series)
		}
	}
	t.Run("promtool", func(t *testing.T) {
		if out := prometheus.Promtool(t, ".", body(t, url), "check", "metrics"); out != "" {
			t.Error(out)
		}
	})
	for _, series := range []string{"kymogram_node_memory_used_bytes", "kymogram_node_disk_size_bytes", "kymogram_agent_spool_bytes", "process_cpu_seconds_total"} {
		if _, ok := got[series]; !ok {
			t.Errorf("%s is not there", series)
		}
	}
}

// The delivery alone, without the reader's own looking around: nothing is deleted
// that was not read.
func TestNothingIsDeletedUnread(t *testing.T) {
	k := serveKitchen(t)
	folder, err := spool.OpenFolder(k.spool())
	if err != nil {
		t.Fatal(err)
	}
	endpoint := metrics.NewEndpoint(metrics.EndpointOptions{NoMachine: true})
	x, err := expose.New(folder, []string{"train"}, endpoint.Exposition(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	k.logSeries("many", "train/a.count", 3)
	opts := uplink.Options{Kind: spool.KindSync, Once: true, Server: "http://" + k.address, Key: k.key(), BeforeFree: x.CatchUp}
	if err := uplink.New(folder, opts).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if ids, err := folder.Writers(); err != nil || len(ids) != 0 {
		t.Fatalf("not delivered: %v, %v", ids, err)
	}
	served := httptest.NewServer(endpoint.Handler())
	defer served.Close()
	if got := scrapeOf(t, served.URL+"/metrics")["kymogram_metric_events_total{group=train}{name=a.count}"]; got != 0+1+2 {
		t.Fatalf("%v of 3", got)
	}
}

// After a restart counters begin at zero, and gauges stand where they stood.
func TestAgentCountsNothingTwice(t *testing.T) {
	k := serveKitchen(t)
	k.env["KYMOGRAM_SPOOL_DIR"] = k.spool()
	t.Setenv("KYMOGRAM_SERVER", silentServer)
	r, err := kymogram.Init(t.Context(), kymogram.Options{RunName: "long", SpoolDir: k.spool(), NoUplink: true, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	put := func(names ...string) {
		t.Helper()
		for _, name := range names {
			if err := r.Log("train/"+name, 3); err != nil {
				t.Fatal(err)
			}
		}
	}
	put("a.count", "a.count", "lr", "b.duration.ms")
	url := k.serveAgent("--expose", "train")
	count, lr := "kymogram_metric_events_total{group=train}{name=a.count}", "kymogram_metric{group=train}{name=lr}"
	if got := scrapeOf(t, url); got[count] != 0 || got[lr] != 3 || got["kymogram_metric_duration_seconds{group=train}{name=b.duration.ms}"] != 0 {
		t.Fatalf("%v of before the start", got)
	}
	put("a.count")
	k.until("the new value", func() bool {
		time.Sleep(60 * time.Millisecond) // 20 scrapes a second are allowed
		return scrapeOf(t, url)[count] == 3
	})
	_ = r.Close(t.Context())
}

func TestAgentEndpointFailsClearly(t *testing.T) {
	k := serveKitchen(t)
	k.env["KYMOGRAM_SPOOL_DIR"] = k.spool()
	for want, args := range map[string][]string{
		"--metrics HOST:PORT":                  {"agent", "--expose", "train"},
		"--metrics takes HOST:PORT":            {"agent", "--metrics", "nonsense"},
		"cannot serve metrics at " + k.address: {"agent", "--metrics", k.address},
		"give --netuid N":                      {"agent", "--metrics", "127.0.0.1:0", "--chain", "ws://h", "--wallet", "w"},
		"give --wallet NAME/HOTKEY":            {"agent", "--metrics", "127.0.0.1:0", "--chain", "ws://h", "--netuid", "1"},
		"give that too":                        {"agent", "--chain", "ws://h", "--netuid", "1", "--wallet", "w"},
		"it must be a second or more":          {"agent", "--metrics", "127.0.0.1:0", "--netuid", "1", "--wallet", "w", "--chain-every", "1ms"},
	} {
		code, _, errs := k.run(args...)
		if code == exitDone || !strings.Contains(errs, want) {
			t.Errorf("%v: %d %s", args, code, errs)
		}
		if strings.Contains(errs, "msg=agent") && strings.Contains(want, "give") {
			t.Errorf("%v: it took the spool before it said so", args)
		}
	}
}
