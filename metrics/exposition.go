package metrics

import (
	"fmt"
	"math"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// maxSeries bounds what one exposition holds: names made of data would make
// it grow without a limit.
const maxSeries = 10_000

// durations spans a step of a loop and a rendezvous: 0.1 ms to 10 min. Python's
// handler has the same.
func durations() []float64 {
	return []float64{.0001, .0005, .001, .005, .01, .05, .1, .5, 1, 5, 10, 60, 600}
}

// Exposition is a [Handler] that keeps metrics for Prometheus. The end of a name
// decides where a value goes. Those of .count, .success and .failure are summed in
// kymogram_metric_events_total. Those of .duration.ms go to the histogram
// kymogram_metric_duration_seconds. For any other name kymogram_metric is the last
// value. The labels are group and name, both exact. Make it with
// [Endpoint.Exposition].
type Exposition struct {
	gauges    *prometheus.GaugeVec
	events    *prometheus.CounterVec
	durations *prometheus.HistogramVec

	mu   sync.Mutex
	seen map[[2]string]bool
}

func newExposition(r prometheus.Registerer) *Exposition {
	labels := []string{"group", "name"}
	x := &Exposition{
		gauges: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "kymogram_metric", Help: "Last value."}, labels),
		events: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "kymogram_metric_events_total", Help: "Sum of the values."}, labels),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "kymogram_metric_duration_seconds", Help: "Durations.", Buckets: durations(),
		}, labels),
		seen: map[[2]string]bool{},
	}
	r.MustRegister(x.gauges, x.events, x.durations)
	return x
}

type metricKind int

const (
	kindGauge metricKind = iota
	kindEvent
	kindDuration
)

func kindOf(name string) metricKind {
	switch {
	case strings.HasSuffix(name, ".duration.ms"):
		return kindDuration
	case strings.HasSuffix(name, ".count"), strings.HasSuffix(name, ".success"), strings.HasSuffix(name, ".failure"):
		return kindEvent
	}
	return kindGauge
}

// Emit takes one metric.
func (x *Exposition) Emit(d Data) error {
	group, name, err := x.admit(d.Group, d.Name)
	if err != nil {
		return err
	}
	switch kindOf(name) {
	case kindGauge:
		x.gauges.WithLabelValues(group, name).Set(d.Value)
		return nil
	case kindDuration:
		if math.IsNaN(d.Value) || d.Value < 0 {
			return fmt.Errorf("%s is a duration, so its value is not %v", d.Name, d.Value)
		}
		x.durations.WithLabelValues(group, name).Observe(d.Value / 1000)
	case kindEvent:
		if math.IsNaN(d.Value) || math.IsInf(d.Value, 0) || d.Value < 0 {
			return fmt.Errorf("%s counts, so its value is not %v", d.Name, d.Value)
		}
		x.events.WithLabelValues(group, name).Add(d.Value)
	}
	return nil
}

// Resume takes a metric of before this program began: the last value of a gauge
// stands, and what counts begins at zero, as it would have without a restart.
func (x *Exposition) Resume(d Data) error {
	group, name, err := x.admit(d.Group, d.Name)
	if err != nil {
		return err
	}
	switch kindOf(name) {
	case kindGauge:
		x.gauges.WithLabelValues(group, name).Set(d.Value)
	case kindDuration:
		x.durations.WithLabelValues(group, name)
	case kindEvent:
		x.events.WithLabelValues(group, name)
	}
	return nil
}

// admit makes labels that Prometheus can read, of a bounded number of series.
func (x *Exposition) admit(group, name string) (validGroup, validName string, err error) {
	group, name = strings.ToValidUTF8(group, "\ufffd"), strings.ToValidUTF8(name, "\ufffd")
	key := [2]string{group, name}
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.seen[key] {
		if len(x.seen) >= maxSeries {
			return "", "", fmt.Errorf("more than %d series: %q of group %q is left out", maxSeries, name, group)
		}
		x.seen[key] = true
	}
	return group, name, nil
}
