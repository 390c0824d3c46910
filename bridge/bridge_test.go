package bridge

import (
	"errors"
	"expvar"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/kymogram/kymogram"
)

func told(points []kymogram.Point) (out []string) {
	for _, p := range points {
		for _, f := range p.Fields {
			out = append(out, fmt.Sprintf("%s%v%v", f.Metric, p.Labels, f.Value))
		}
	}
	return out
}

func TestPrometheus(t *testing.T) {
	reg := prometheus.NewRegistry()
	counter := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "steps_total"}, []string{"rank"})
	gauge := prometheus.NewGauge(prometheus.GaugeOpts{Name: "load"})
	histogram := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "took", Buckets: []float64{1, 2}})
	summary := prometheus.NewSummary(prometheus.SummaryOpts{Name: "wait", Objectives: map[float64]float64{0.5: 0.1}})
	reg.MustRegister(counter, gauge, histogram, summary)
	counter.WithLabelValues("0").Add(3)
	gauge.Set(-1.5)
	for _, v := range []float64{0.5, 1.5, 5} {
		histogram.Observe(v)
	}
	summary.Observe(4)
	points, err := Prometheus(reg)()
	want := []string{
		"loadmap[]-1.5", "steps_totalmap[rank:0]3",
		"took_bucketmap[le:1]1", "took_bucketmap[le:2]2", "took_summap[]7", "took_countmap[]3",
		"waitmap[quantile:0.5]4", "wait_summap[]4", "wait_countmap[]1",
	}
	if diff := cmp.Diff(want, told(points)); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

func TestExpvar(t *testing.T) {
	m := expvar.NewMap("TestExpvar")
	m.Add("batches", 7)
	m.AddFloat("loss", 0.25)
	m.Set("name", new(expvar.String))
	points, err := Expvar()()
	all := told(points)
	for _, want := range []string{"TestExpvar/batchesmap[]7", "TestExpvar/lossmap[]0.25"} {
		if err != nil || !slices.Contains(all, want) {
			t.Errorf("%v: %s is not in %v", err, want, all)
		}
	}
	if strings.Contains(strings.Join(all, " "), "TestExpvar/name") || !strings.Contains(strings.Join(all, " "), "memstats/HeapAlloc") {
		t.Error(all)
	}
}

// A bridge samples when it starts and when it stops, counts what fails, and is gone then.
func TestStart(t *testing.T) {
	run, err := kymogram.Init(t.Context(), kymogram.Options{Server: "http://127.0.0.1:1", SpoolDir: t.TempDir(), NoUplink: true, NoEnvironment: true, NoSystemMetrics: true})
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	source := func() ([]kymogram.Point, error) {
		calls++
		return []kymogram.Point{{Fields: []kymogram.Field{{Metric: "a", Value: 1.0}, {Metric: "b", Value: 2.0}}}}, errors.New("half of it")
	}
	stop := Start(t.Context(), run, Options{Interval: time.Hour, Labels: map[string]string{"host": "x"}, Name: func(name string) string {
		return map[string]string{"a": "sys/a"}[name]
	}}, source)
	err = stop()
	if calls != 2 || err == nil || err.Error() != "half of it (and 1 more errors)" || !errors.Is(stop(), err) {
		t.Errorf("%d samples, %v", calls, err)
	}
	var left *kymogram.UndeliveredError
	if err := run.Close(t.Context()); !errors.As(err, &left) || left.Points != 2 {
		t.Errorf("%v; two samples of one metric were logged", err)
	}
}
