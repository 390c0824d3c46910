package telemetry

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/kymogram/kymogram/internal/collect"
)

const (
	gpuName = "gpu_name"
	gpuID   = "gpu_id"
)

// machine reads the machine for the points of a logger.
type machine struct {
	collector *collect.Collector

	mu    sync.Mutex
	cards []collect.Card
	err   error
	at    time.Time
	busy  bool
}

// gpuEvery is how old what a point says of a graphics card may be.
const gpuEvery = 5 * time.Second

func newMachine() *machine {
	m := &machine{collector: collect.New(collect.Options{})}
	_, _ = m.collector.System(context.Background()) // what the first point's use of the processor counts from
	return m
}

// SystemMetrics are cpu_usage in percent since the call before, mem_used and mem_total in MiB.
func (l *Logger) SystemMetrics() (map[string]float64, error) {
	return l.machine.collector.System(context.Background())
}

// GPUMetrics are gpu_mem_used_mb and gpu_mem_total_mb of the first graphics card, with its
// gpu_name and gpu_id. Only the first call waits for the program that reports it.
func (l *Logger) GPUMetrics() (map[string]any, error) {
	cards, err := l.machine.read()
	if err != nil {
		return nil, err
	}
	first := cards[0]
	out := map[string]any{"gpu_mem_used_mb": first.UsedMiB, "gpu_mem_total_mb": first.TotalMiB, gpuName: first.Name, gpuID: first.ID}
	if n, err := strconv.ParseInt(first.ID, 10, 64); err == nil {
		out[gpuID] = n
	}
	return out, nil
}

// read is the last answer; an old one is asked for again meanwhile.
func (m *machine) read() ([]collect.Card, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.at.IsZero():
		m.cards, m.err = m.collector.Memory(context.Background())
		m.at = time.Now()
	case !m.busy && time.Since(m.at) > gpuEvery:
		m.busy = true
		go m.refresh()
	}
	return m.cards, m.err
}

// refresh ends within the limit of the program, 2 s.
func (m *machine) refresh() {
	cards, err := m.collector.Memory(context.Background())
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cards, m.err, m.at, m.busy = cards, err, time.Now(), false
}
