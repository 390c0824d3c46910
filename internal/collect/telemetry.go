package collect

import (
	"context"
	"errors"
	"fmt"

	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/mem"
)

// System reads what a MetricsLogger's point says of the machine, by the names and in the units
// of psutil: cpu_usage in percent since the call before, mem_used (total less available) and
// mem_total in MiB. It takes some 50 µs, so a log call can wait for it.
func (c *Collector) System(ctx context.Context) (map[string]float64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m, err := mem.VirtualMemoryWithContext(ctx)
	if err != nil || m.Total == 0 {
		return nil, fmt.Errorf("read memory: %w", orEmpty(err))
	}
	out := map[string]float64{
		"mem_used":  float64(m.Total-min(m.Available, m.Total)) / mebibyte,
		"mem_total": float64(m.Total) / mebibyte,
	}
	times, err := cpu.TimesWithContext(ctx, false)
	if err != nil || len(times) == 0 {
		return out, fmt.Errorf("read processors: %w", orEmpty(err))
	}
	t := times[0]
	idle := t.Idle + t.Iowait
	busy := t.User + t.System + t.Nice + t.Irq + t.Softirq + t.Steal
	value, _ := c.system.since(c.opts.Now(), busy, busy+idle)
	out["cpu_usage"] = min(value, percent)
	return out, nil
}

// Card is the memory of a graphics card, as a MetricsLogger's point says it.
type Card struct {
	ID, Name          string
	UsedMiB, TotalMiB float64
}

// ErrNoCard says that a machine has no graphics card, or no program that reports it.
var ErrNoCard = errors.New("there is no graphics card that nvidia-smi or rocm-smi reports")

// Memory reads the cards' memory. Within Options.GPUEvery the answer is the one before.
func (c *Collector) Memory(ctx context.Context) ([]Card, error) {
	samples, err := c.gpu.read(ctx)
	if err != nil {
		return nil, err
	}
	var out []Card
	at := map[string]int{}
	for _, s := range samples {
		id := labelOf(s, labelGPU)
		i, known := at[id]
		if !known {
			i = len(out)
			at[id], out = i, append(out, Card{ID: id, Name: labelOf(s, labelGPUName)})
		}
		switch s.Name {
		case GPUMemoryUsed:
			out[i].UsedMiB = s.Value / mebibyte
		case GPUMemoryTotal:
			out[i].TotalMiB = s.Value / mebibyte
		}
	}
	if len(out) == 0 {
		return nil, ErrNoCard
	}
	return out, nil
}

func labelOf(s Sample, name string) string {
	for _, l := range s.Labels {
		if l.Name == name {
			return l.Value
		}
	}
	return ""
}
