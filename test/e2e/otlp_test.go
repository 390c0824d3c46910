//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/metric"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/kymogram/kymogram/test/rig"
)

// otelSteps is how often both programs record and export.
const otelSteps = 30

// otelClient is a program of the unmodified SDK of Python. Its export interval never passes:
// each step is exported when the program says so, and the last by the shutdown.
const otelClient = `
import sys
try:
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
    from opentelemetry.sdk.metrics.view import ExponentialBucketHistogramAggregation, View
    if sys.argv[1] == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
    else:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
except ImportError:
    sys.exit(77)
steps = int(sys.argv[2])
reader = PeriodicExportingMetricReader(OTLPMetricExporter(), export_interval_millis=3_600_000)
provider = MeterProvider([reader], views=[View(instrument_name="fine", aggregation=ExponentialBucketHistogramAggregation())])
meter = provider.get_meter("loop")
counter, queue = meter.create_counter("samples"), meter.create_up_down_counter("queue")
loss, seconds, fine = meter.create_gauge("loss"), meter.create_histogram("seconds"), meter.create_histogram("fine")
for step in range(steps):
    counter.add(64 if step < 20 else 0.5, {"rank": step % 2})
    queue.add(-1)
    loss.set(1 / (step + 1), {"split": "train"})
    seconds.record(step * 10)
    fine.record(step * 10)
    if step < steps - 1:
        assert provider.force_flush()
provider.shutdown()
`

// otelChecks compares a run with what a program of these steps records.
func otelChecks(t *testing.T, c *rig.Client, run string, wantSeries int) {
	t.Helper()
	scope := map[string]string{"otel_scope_name": "loop"}
	with := func(name, value string) map[string]string {
		return map[string]string{"otel_scope_name": "loop", name: value}
	}
	if series := c.Series(t, run); len(series) != wantSeries {
		t.Errorf("%d series, want %d: %+v", len(series), wantSeries, series)
	}
	ranks, samples := [2]float64{}, [2][]string{}
	var queue, loss, counts, sums []string
	for step := range otelSteps {
		add := 64.0
		if step >= 20 {
			add = 0.5
		}
		ranks[step%2] += add
		for rank := range 2 { // cumulative: each export has both, once they are there
			if step >= rank {
				samples[rank] = append(samples[rank], rig.Text(ranks[rank]))
			}
		}
		queue = append(queue, rig.Text(float64(-step-1)))
		loss = append(loss, rig.Text(1/float64(step+1)))
		counts = append(counts, rig.Text(float64(step+1)))
		sums = append(sums, rig.Text(float64(step*(step+1)*5)))
	}
	for _, want := range []struct {
		metric string
		labels map[string]string
		values []string
	}{
		{"samples", with("rank", "0"), samples[0]},
		{"samples", with("rank", "1"), samples[1]},
		{"queue", scope, queue},
		{"loss", with("split", "train"), loss},
		{"seconds_count", scope, counts},
		{"seconds_sum", scope, sums},
		{"fine_count", scope, counts},
		{"fine_sum", scope, sums},
	} {
		points := c.Points(t, run, want.metric, "ML_STEP", want.labels)
		got := make([]string, len(points["value"]))
		for i := range got {
			got[i] = strings.TrimSuffix(strings.TrimPrefix(points.Row(i, "value"), "value="), " ")
		}
		if fmt.Sprint(got) != fmt.Sprint(want.values) {
			t.Errorf("%s %v: %v, want %v", want.metric, want.labels, got, want.values)
		}
	}
	for _, metric := range []string{"seconds", "fine"} {
		points := c.Points(t, run, metric, "ML_STEP", scope)
		if len(points["value"]) != otelSteps {
			t.Errorf("%s: %d histograms, want %d", metric, len(points["value"]), otelSteps)
			continue
		}
		last, _ := points["value"][otelSteps-1].(map[string]any)
		counts, _ := last["counts"].([]any)
		sum := 0.0
		for _, n := range counts {
			each, err := strconv.ParseFloat(rig.Text(n), 64)
			if err != nil {
				t.Fatal(err)
			}
			sum += each
		}
		if sum != otelSteps {
			t.Errorf("%s: the last histogram has %v values, want %d", metric, sum, otelSteps)
		}
	}
}

// The unmodified SDK of Python, over HTTP and gRPC. Its shell says where and with which key.
func TestOpenTelemetryOfPython(t *testing.T) {
	r := rig.New(t)
	s := r.Serve(t)
	key := s.Key(t)
	for _, protocol := range []string{"http", "grpc"} {
		t.Run(protocol, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), filepath.Join(r.Root, ".venv", "bin", "python"), "-c", otelClient, protocol, fmt.Sprint(otelSteps))
			cmd.Env = append(os.Environ(), "OTEL_EXPORTER_OTLP_ENDPOINT="+s.Address, "OTEL_SERVICE_NAME=train", "OTEL_RESOURCE_ATTRIBUTES=kymogram.run="+protocol+",deployment.environment=lab",
				"OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20"+key+",x-kymogram-workspace=team,x-kymogram-project=otel")
			out, err := cmd.CombinedOutput()
			if cmd.ProcessState != nil && cmd.ProcessState.ExitCode() == 77 {
				t.Skip("opentelemetry-sdk is not installed: make prepare")
			}
			if err != nil || len(out) > 0 {
				t.Fatalf("%v\n%s", err, out)
			}
			c := s.Client(t)
			otelChecks(t, c, c.Run(t, "team/otel", protocol).ID, 14)
		})
	}
}

// The user's page as it stands, twice: its environment, then its program.
func TestOpenTelemetryPage(t *testing.T) {
	r := rig.New(t)
	s := r.Serve(t)
	page, err := os.ReadFile(filepath.Join(r.Root, "docs", "opentelemetry.md"))
	if err != nil {
		t.Fatal(err)
	}
	block := func(language string) string {
		_, rest, _ := strings.Cut(string(page), "```"+language+"\n")
		code, _, _ := strings.Cut(rest, "```")
		return code
	}
	python := filepath.Join(r.Root, ".venv", "bin", "python")
	if exec.CommandContext(t.Context(), python, "-c", "import opentelemetry.sdk").Run() != nil {
		t.Skip("opentelemetry-sdk is not installed: make prepare")
	}
	c := s.Client(t)
	for life := range 2 {
		shell := strings.ReplaceAll(block("sh"), "http://127.0.0.1:7070", s.Address) + "exec " + python + " -c \"$PROGRAM\"\n"
		cmd := exec.CommandContext(t.Context(), "bash", "-euc", shell)
		cmd.Env = append(os.Environ(), "KEY="+s.Key(t), "PROGRAM="+block("python"))
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Fatalf("%v\n%s", err, out)
		}
		run := c.Run(t, "team/training", "first").ID
		loss := c.Points(t, run, "loss", "ML_STEP", map[string]string{"otel_scope_name": "train", "split": "train"})
		if n := len(loss["value"]); n <= life || loss.Row(n-1, "value") != "value=0.01 " || len(c.Series(t, run)) != 1 {
			t.Errorf("life %d: %v", life, loss)
		}
	}
}

// otelProgram is the same program with the SDK of Go.
func otelProgram(t *testing.T, exporter sdk.Exporter, run, pid string, between func(step int)) error {
	t.Helper()
	reader := sdk.NewPeriodicReader(exporter, sdk.WithInterval(time.Hour))
	provider := sdk.NewMeterProvider(sdk.WithReader(reader),
		sdk.WithResource(resource.NewSchemaless(attribute.String("kymogram.run", run), attribute.String("process.pid", pid))),
		sdk.WithView(sdk.NewView(sdk.Instrument{Name: "fine"}, sdk.Stream{Aggregation: sdk.AggregationBase2ExponentialHistogram{MaxSize: 160, MaxScale: 20}})))
	meter := provider.Meter("loop")
	ctx := t.Context()
	samples, _ := meter.Float64Counter("samples")
	queue, _ := meter.Int64UpDownCounter("queue")
	loss, _ := meter.Float64Gauge("loss")
	seconds, _ := meter.Float64Histogram("seconds")
	fine, _ := meter.Float64Histogram("fine")
	for step := range otelSteps {
		add := 64.0
		if step >= 20 {
			add = 0.5
		}
		samples.Add(ctx, add, metric.WithAttributes(attribute.Int("rank", step%2)))
		queue.Add(ctx, -1)
		loss.Record(ctx, 1/float64(step+1), metric.WithAttributes(attribute.String("split", "train")))
		seconds.Record(ctx, float64(step*10))
		fine.Record(ctx, float64(step*10))
		if step < otelSteps-1 {
			if err := provider.ForceFlush(ctx); err != nil {
				return err
			}
		}
		if between != nil {
			between(step)
		}
	}
	return provider.Shutdown(ctx)
}

// The unmodified SDK of Go, over HTTP with gzip and over gRPC, twice: the second life is
// another attempt, and no other series.
func TestOpenTelemetryOfGo(t *testing.T) {
	r := rig.New(t)
	s := r.Serve(t)
	headers := map[string]string{"authorization": "Bearer " + s.Key(t), "x-kymogram-workspace": "team", "x-kymogram-project": "otel"}
	host := strings.TrimPrefix(s.Address, "http://")
	open := map[string]func() (sdk.Exporter, error){
		"http": func() (sdk.Exporter, error) {
			return otlpmetrichttp.New(t.Context(), otlpmetrichttp.WithEndpoint(host), otlpmetrichttp.WithInsecure(), otlpmetrichttp.WithHeaders(headers), otlpmetrichttp.WithCompression(otlpmetrichttp.GzipCompression))
		},
		"grpc": func() (sdk.Exporter, error) {
			return otlpmetricgrpc.New(t.Context(), otlpmetricgrpc.WithEndpoint(host), otlpmetricgrpc.WithInsecure(), otlpmetricgrpc.WithHeaders(headers), otlpmetricgrpc.WithCompressor("gzip"))
		},
	}
	c := s.Client(t)
	for protocol, exporter := range open {
		for life := range 2 {
			e, err := exporter()
			if err != nil {
				t.Fatal(err)
			}
			if err := otelProgram(t, e, protocol, fmt.Sprint(life), nil); err != nil {
				t.Fatal(protocol, err)
			}
			run := c.Run(t, "team/otel", protocol).ID
			if life == 0 {
				otelChecks(t, c, run, 14)
				continue
			}
			loss := c.Points(t, run, "loss", "ML_STEP", map[string]string{"otel_scope_name": "loop", "split": "train"})
			if series := c.Series(t, run); len(series) != 14 || len(loss["value"]) != 2*otelSteps || loss.Row(otelSteps, "attempt") != "attempt=2 " {
				t.Errorf("%s: %d series, %d points after a restart, %s", protocol, len(series), len(loss["value"]), loss.Row(otelSteps, "attempt"))
			}
		}
	}
}

// A server that is away for a while costs a client no point: the SDK sends again, and what
// comes twice is stored once.
func TestOpenTelemetryWhileTheServerIsAway(t *testing.T) {
	r := rig.New(t)
	s := r.Serve(t)
	key, host := s.Key(t), strings.TrimPrefix(s.Address, "http://")
	e, err := otlpmetricgrpc.New(t.Context(), otlpmetricgrpc.WithEndpoint(host), otlpmetricgrpc.WithInsecure(),
		otlpmetricgrpc.WithHeaders(map[string]string{"authorization": "Bearer " + key}),
		otlpmetricgrpc.WithRetry(otlpmetricgrpc.RetryConfig{Enabled: true, InitialInterval: 100 * time.Millisecond, MaxInterval: time.Second, MaxElapsedTime: time.Minute}))
	if err != nil {
		t.Fatal(err)
	}
	var restart *time.Timer
	back := make(chan struct{})
	err = otelProgram(t, e, "r", "1", func(step int) {
		if step != 10 {
			return
		}
		s.Kill(t)
		restart = time.AfterFunc(2*time.Second, func() { s.Restart(t); close(back) })
	})
	if restart == nil || !restart.Stop() {
		<-back
	}
	if err != nil {
		t.Fatal(err)
	}
	c := s.Client(t)
	otelChecks(t, c, c.Run(t, "default/opentelemetry", "r").ID, 14)
}

// What is rejected reaches the program by the SDK's own words for it.
func TestOpenTelemetryTellsOfRejectedPoints(t *testing.T) {
	r := rig.New(t)
	s := r.Serve(t)
	said := make(chan error, 10)
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { said <- err }))
	for _, protocol := range []string{"http", "grpc"} {
		var e sdk.Exporter
		var err error
		headers, host := map[string]string{"authorization": "Bearer " + s.Key(t)}, strings.TrimPrefix(s.Address, "http://")
		if protocol == "http" {
			e, err = otlpmetrichttp.New(t.Context(), otlpmetrichttp.WithEndpoint(host), otlpmetrichttp.WithInsecure(), otlpmetrichttp.WithHeaders(headers))
		} else {
			e, err = otlpmetricgrpc.New(t.Context(), otlpmetricgrpc.WithEndpoint(host), otlpmetricgrpc.WithInsecure(), otlpmetricgrpc.WithHeaders(headers))
		}
		if err != nil {
			t.Fatal(err)
		}
		far := []metricdata.DataPoint[float64]{{Time: time.Unix(5_000_000_000, 0), Value: 1}, {Time: time.Unix(1_700_000_000, 0), Value: 2}}
		err = e.Export(t.Context(), &metricdata.ResourceMetrics{
			Resource:     resource.NewSchemaless(attribute.String("kymogram.run", protocol)),
			ScopeMetrics: []metricdata.ScopeMetrics{{Metrics: []metricdata.Metrics{{Name: "m", Data: metricdata.Gauge[float64]{DataPoints: far}}}}},
		})
		if err == nil {
			select {
			case err = <-said:
			case <-time.After(10 * time.Second):
			}
		}
		if err == nil || !strings.Contains(err.Error(), "1 metric data points rejected") || !strings.Contains(err.Error(), "out of range") {
			t.Errorf("%s: %v", protocol, err)
		}
		c := s.Client(t)
		if got := c.Points(t, c.Run(t, "default/opentelemetry", protocol).ID, "m", "ML_STEP", nil); len(got["value"]) != 1 {
			t.Errorf("%s: %d points are stored, want the other one", protocol, len(got["value"]))
		}
	}
}

// A key without the right, and none at all, are told so.
func TestOpenTelemetryNeedsAKey(t *testing.T) {
	r := rig.New(t)
	s := r.Serve(t)
	_ = s.Key(t)
	host := strings.TrimPrefix(s.Address, "http://")
	e, err := otlpmetrichttp.New(t.Context(), otlpmetrichttp.WithEndpoint(host), otlpmetrichttp.WithInsecure())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := e.Export(ctx, &metricdata.ResourceMetrics{Resource: resource.Empty()}); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("without a key: %v", err)
	}
}
