package metrics

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kymogram/kymogram/internal/collect"
)

const (
	// machineEvery is how old what several scrapers get may be.
	machineEvery = time.Second
	// machineLimit is below the scrape timeout of Prometheus, 10 s.
	machineLimit = 5 * time.Second
)

// family is how a sample of collect is called here: base units, ratios instead of
// percent.
type family struct {
	name, help string
	scale      float64
}

func families() map[string]family {
	return map[string]family{
		collect.CPUUtilization:    {"kymogram_node_cpu_utilization_ratio", "Share of all processors' time in use.", 0.01},
		collect.MemoryUsed:        {"kymogram_node_memory_used_bytes", "Memory that is not available.", 1},
		collect.MemoryUtilization: {"kymogram_node_memory_utilization_ratio", "Share of the memory that is not available.", 0.01},
		collect.DiskTotal:         {"kymogram_node_disk_size_bytes", "Size of the file system.", 1},
		collect.DiskFree:          {"kymogram_node_disk_free_bytes", "Free space of the file system.", 1},
		collect.DiskUtilization:   {"kymogram_node_disk_utilization_ratio", "Share of the file system in use.", 0.01},
		collect.NetworkReceive:    {"kymogram_node_network_receive_bytes_total", "Bytes received, by interface.", 1},
		collect.NetworkTransmit:   {"kymogram_node_network_transmit_bytes_total", "Bytes sent, by interface.", 1},
		collect.GPUUtilization:    {"kymogram_node_gpu_utilization_ratio", "Share of the time that a kernel ran.", 0.01},
		collect.GPUMemoryUsed:     {"kymogram_node_gpu_memory_used_bytes", "Memory of the card in use.", 1},
		collect.GPUMemoryUtilized: {"kymogram_node_gpu_memory_utilization_ratio", "Share of the card's memory in use.", 0.01},
		collect.GPUTemperature:    {"kymogram_node_gpu_temperature_celsius", "Temperature of the card.", 1},
		collect.GPUPower:          {"kymogram_node_gpu_power_watts", "Power that the card draws.", 1},
		collect.GPUStreamingClock: {"kymogram_node_gpu_sm_clock_hertz", "Clock of the streaming multiprocessors.", 1e6},
	}
}

// machine reads the machine when it is scraped.
type machine struct {
	collector *collect.Collector
	families  map[string]family
	now       func() time.Time
	log       *slog.Logger
	failed    prometheus.Counter

	mu      sync.Mutex
	at      time.Time
	samples []collect.Sample
}

func newMachine(c *collect.Collector, opts EndpointOptions) *machine {
	return &machine{collector: c, families: families(), now: opts.Now, log: opts.Log, failed: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "kymogram_node_collect_errors_total", Help: "Readings of the machine that failed in part.",
	})}
}

// Describe sends nothing: which cards and interfaces there are is seen when they
// are read.
func (m *machine) Describe(chan<- *prometheus.Desc) {}

// Collect reads the machine.
func (m *machine) Collect(out chan<- prometheus.Metric) {
	for _, s := range m.read() {
		f, ok := m.families[s.Name]
		if !ok {
			continue
		}
		kind := prometheus.GaugeValue
		if s.Kind == collect.Counter {
			kind = prometheus.CounterValue
		}
		var names, values []string
		for _, l := range s.Labels {
			names, values = append(names, l.Name), append(values, l.Value)
		}
		metric, err := prometheus.NewConstMetric(prometheus.NewDesc(f.name, f.help, names, nil), kind, s.Value*f.scale, values...)
		if err != nil { // a name of a card that is no UTF-8
			m.failed.Inc()
			continue
		}
		out <- metric
	}
	m.failed.Collect(out)
}

func (m *machine) read() []collect.Sample {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now := m.now(); m.at.IsZero() || now.Sub(m.at) >= machineEvery {
		ctx, cancel := context.WithTimeout(context.Background(), machineLimit)
		defer cancel()
		samples, err := m.collector.Collect(ctx)
		if err != nil {
			m.failed.Inc()
			m.log.Debug("read the machine", "error", err)
		}
		m.samples, m.at = samples, now
	}
	return m.samples
}
