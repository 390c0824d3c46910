// Package selfmetrics holds the server's own metrics for /metrics. Every label
// has a bounded set of values: routes are patterns, never paths.
//
// In: each request and call that package server answered, and the [Gauge] list
// that cmd makes of what the parts count. Out: the text of /metrics. A metric of
// our own is a line of that list.
package selfmetrics

import (
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/grpc/status"

	"github.com/kymogram/kymogram/internal/model"
)

// Metrics is the registry and the instruments of the shell.
type Metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	calls    *prometheus.CounterVec
	callTime *prometheus.HistogramVec
	failures *prometheus.CounterVec
	security *prometheus.CounterVec
	refusals *prometheus.CounterVec
	Panics   prometheus.Counter
}

// seconds spans 1 ms to 30 s, the limit of a query.
func seconds() []float64 {
	return []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
}

// New makes the registry with the Go runtime's and the process's metrics.
func New(version string) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kymogram_http_requests_total", Help: "HTTP requests by route and status.",
		}, []string{"route", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "kymogram_http_request_duration_seconds", Help: "Time to answer an HTTP request.", Buckets: seconds(),
		}, []string{"route"}),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kymogram_grpc_calls_total", Help: "gRPC calls that ended, by method and code.",
		}, []string{"method", "code"}),
		callTime: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "kymogram_grpc_call_duration_seconds", Help: "Duration of a gRPC call; a stream counts as one.", Buckets: seconds(),
		}, []string{"method"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kymogram_grpc_failures_total", Help: "Failures that gRPC streams told in their own words, by method and code.",
		}, []string{"method", "code"}),
		security: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kymogram_security_events_total", Help: "Events of the security log, those without a line included; refused requests by cause.",
		}, []string{"event", "cause"}),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kymogram_refusals_total", Help: "Requests, calls and streams that were answered with an error, by protocol (http, grpc) and code of the error.",
		}, []string{"protocol", "code"}),
		Panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "kymogram_panics_total", Help: "Requests that ended in a panic.",
		}),
	}
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "kymogram_build_info", Help: "1, with the version.", ConstLabels: prometheus.Labels{"version": version},
	})
	info.Set(1)
	m.registry.MustRegister(m.requests, m.duration, m.calls, m.callTime, m.failures, m.security, m.refusals, m.Panics, info,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Register adds a collector, such as the store's.
func (m *Metrics) Register(c prometheus.Collector) error { return m.registry.Register(c) }

// Handler serves the registry.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// Route is where the requests of one route are counted.
type Route struct {
	metrics *Metrics
	pattern string
	took    prometheus.Observer
	codes   sync.Map // of prometheus.Counter, by status
}

// Route measures the requests of a pattern.
func (m *Metrics) Route(pattern string) *Route {
	return &Route{metrics: m, pattern: pattern, took: m.duration.WithLabelValues(pattern)}
}

// Answered counts a request.
func (r *Route) Answered(status int, took time.Duration) {
	r.took.Observe(took.Seconds())
	if c, ok := r.codes.Load(status); ok {
		c.(prometheus.Counter).Inc() //nolint:forcetypeassert // nothing else is in it
		return
	}
	code := "unknown"
	if status >= 100 && status < 600 {
		code = strconv.Itoa(status)
	}
	c := r.metrics.requests.WithLabelValues(r.pattern, code)
	c.Inc()
	if code != "unknown" { // of which there are many
		r.codes.Store(status, c)
	}
}

// Call counts a gRPC call that ends now; deferred by the interceptors.
func (m *Metrics) Call(method string, began time.Time, err *error) {
	m.calls.WithLabelValues(method, status.Code(*err).String()).Inc()
	m.callTime.WithLabelValues(method).Observe(time.Since(began).Seconds())
}

// Failure counts one that a stream tells in its own words; codes are those of package model.
func (m *Metrics) Failure(method, code string) { m.failures.WithLabelValues(method, code).Inc() }

// Security counts an event of the security log; both texts are of small sets.
func (m *Metrics) Security(event, cause string) { m.security.WithLabelValues(event, cause).Inc() }

// The protocols of [Metrics.Refusal].
const (
	HTTP = "http"
	GRPC = "grpc"
)

// Refusal counts an error that a caller was told.
func (m *Metrics) Refusal(protocol string, code model.Code) {
	m.refusals.WithLabelValues(protocol, string(code)).Inc()
}

// Refused tells the writer of an answer, or one that it wraps, which error it will be: what
// counts refusals stands around the handlers, and a status does not say the code.
func Refused(w http.ResponseWriter, code model.Code) {
	for w != nil {
		switch at := w.(type) {
		case interface{ Refused(code model.Code) }:
			at.Refused(code)
			return
		case interface{ Unwrap() http.ResponseWriter }:
			w = at.Unwrap()
		default:
			return
		}
	}
}

// Gauge is one number of [Gauges].
type Gauge struct {
	Name, Help string
	Counter    bool
	Value      float64
	// Label is what tells numbers of one name apart, none as a rule.
	Label prometheus.Labels
	// Within makes it a histogram of acts, which took Value seconds together.
	Within map[float64]uint64
	Count  uint64
}

// NewGauge is a value that goes up and down.
func NewGauge(name, help string, value float64) Gauge {
	return Gauge{Name: name, Help: help, Value: value}
}

// NewCounter is a value that only grows.
func NewCounter(name, help string, value float64) Gauge {
	return Gauge{Name: name, Help: help, Value: value, Counter: true}
}

// NewHistogram is count acts, of which within has how many took at most so many seconds.
func NewHistogram(name, help string, seconds float64, count uint64, within map[float64]uint64) Gauge {
	return Gauge{Name: name, Help: help, Value: seconds, Count: count, Within: within}
}

// Gauges adds numbers that are read together when they are scraped.
func (m *Metrics) Gauges(read func() []Gauge) error { return m.Register(gauges(read)) }

type gauges func() []Gauge

// Describe sends nothing: the collector is unchecked, its names come with it.
func (gauges) Describe(chan<- *prometheus.Desc) {}

func (g gauges) Collect(out chan<- prometheus.Metric) {
	for _, v := range g() {
		d := prometheus.NewDesc(v.Name, v.Help, nil, v.Label)
		switch {
		case v.Within != nil:
			out <- prometheus.MustNewConstHistogram(d, v.Count, v.Value, v.Within)
		case v.Counter:
			out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v.Value)
		default:
			out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v.Value)
		}
	}
}
