package metrics

import (
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// State is what a node is doing.
type State string

// The states of a node.
const (
	StateStarting State = "starting"
	StateReady    State = "ready"
	StateDegraded State = "degraded" // it works, and something is wrong
	StateStopping State = "stopping"
)

func states() []State { return []State{StateStarting, StateReady, StateDegraded, StateStopping} }

// node is a node's status, and its validation and scoring.
type node struct {
	state       *prometheus.GaugeVec
	validations *prometheus.CounterVec
	validation  prometheus.Histogram
	validated   *moment
	weights     *moment
	scores      *scores
	now         func() time.Time
}

func newNode(r prometheus.Registerer, opts EndpointOptions) node {
	n := node{
		now:   opts.Now,
		state: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "kymogram_node_state", Help: "1 for what the node is doing."}, []string{"state"}),
		validations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kymogram_node_validations_total", Help: "Validations that ended, by result.",
		}, []string{"result"}),
		validation: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "kymogram_node_validation_duration_seconds", Help: "Time that a validation took.", Buckets: durations(),
		}),
		validated: newMoment("kymogram_node_last_validation_timestamp_seconds", "When a validation last succeeded, Unix time."),
		weights:   newMoment("kymogram_node_last_weights_timestamp_seconds", "When weights were last set, Unix time."),
		scores:    &scores{desc: prometheus.NewDesc("kymogram_node_score", "Score that the node gave, by uid.", []string{"uid"}, nil)},
	}
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "kymogram_node_info", Help: "1, with the version.", ConstLabels: prometheus.Labels{"version": opts.Version},
	})
	info.Set(1)
	started := prometheus.NewGauge(prometheus.GaugeOpts{Name: "kymogram_node_start_time_seconds", Help: "When the node started, Unix time."})
	started.Set(unix(opts.Now()))
	r.MustRegister(n.state, n.validations, n.validation, n.validated, n.weights, n.scores, info, started)
	n.validations.WithLabelValues("success")
	n.validations.WithLabelValues("failure")
	n.set(StateStarting)
	return n
}

func unix(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

func (n *node) set(s State) {
	for _, each := range states() {
		value := 0.0
		if each == s {
			value = 1
		}
		n.state.WithLabelValues(string(each)).Set(value)
	}
}

// SetState says what the node is doing; it starts as [StateStarting].
func (e *Endpoint) SetState(s State) { e.node.set(s) }

// Validated counts a validation that took so long and failed unless err is nil.
func (e *Endpoint) Validated(took time.Duration, err error) {
	e.node.validation.Observe(max(0, took.Seconds()))
	if err != nil {
		e.node.validations.WithLabelValues("failure").Inc()
		return
	}
	e.node.validations.WithLabelValues("success").Inc()
	e.node.validated.set(e.node.now())
}

// SetScores replaces the scores that the node gives to others, by their uid.
func (e *Endpoint) SetScores(byUID map[uint16]float64) { e.node.scores.set(byUID) }

// WeightsSet says that weights were set on chain now.
func (e *Endpoint) WeightsSet() { e.node.weights.set(e.node.now()) }

// moment is a time that has no sample until it comes.
type moment struct {
	desc *prometheus.Desc
	mu   sync.Mutex
	at   time.Time
}

func newMoment(name, help string) *moment {
	return &moment{desc: prometheus.NewDesc(name, help, nil, nil)}
}

func (m *moment) set(at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at = at
}

// Describe tells of the family.
func (m *moment) Describe(out chan<- *prometheus.Desc) { out <- m.desc }

// Collect gives the time, if it came.
func (m *moment) Collect(out chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.at.IsZero() {
		out <- prometheus.MustNewConstMetric(m.desc, prometheus.GaugeValue, unix(m.at))
	}
}

// scores are replaced together, so that a scrape never sees half of them.
type scores struct {
	desc  *prometheus.Desc
	mu    sync.Mutex
	byUID map[uint16]float64
}

func (s *scores) set(byUID map[uint16]float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byUID = maps.Clone(byUID)
}

// Describe tells of the family.
func (s *scores) Describe(out chan<- *prometheus.Desc) { out <- s.desc }

// Collect gives a sample a uid.
func (s *scores) Collect(out chan<- prometheus.Metric) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, uid := range slices.Sorted(maps.Keys(s.byUID)) {
		out <- prometheus.MustNewConstMetric(s.desc, prometheus.GaugeValue, s.byUID[uid], strconv.Itoa(int(uid)))
	}
}
