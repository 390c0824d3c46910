package collect

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"

	gopsutil "github.com/shirou/gopsutil/v4/process"

	"github.com/kymogram/kymogram/internal/model"
)

// process is one process that is read again and again.
type process struct {
	pid   int
	known *gopsutil.Process
	cpu   utilization
}

func (c *Collector) readProcesses(ctx context.Context) ([]Sample, error) {
	var (
		out  []Sample
		errs []error
	)
	for _, pid := range c.opts.PIDs {
		samples, err := c.processes[pid].read(ctx, c)
		switch {
		case err == nil:
			out = append(out, samples...)
		case !ended(err):
			errs = append(errs, fmt.Errorf("read process %d: %w", pid, err))
		}
	}
	return out, errors.Join(errs...)
}

// ended reports whether an error says that a process is over.
func ended(err error) bool {
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, gopsutil.ErrorProcessNotRunning) || errors.Is(err, errReused)
}

var errReused = errors.New("the number belongs to another process now")

func (p *process) read(ctx context.Context, c *Collector) ([]Sample, error) {
	if p.pid <= 0 || p.pid > math.MaxInt32 {
		return nil, gopsutil.ErrorProcessNotRunning
	}
	if err := p.find(ctx); err != nil {
		return nil, err
	}
	memory, err := p.known.MemoryInfoWithContext(ctx)
	if err != nil {
		return nil, err
	}
	times, err := p.known.TimesWithContext(ctx)
	if err != nil {
		return nil, err
	}
	labels := []model.Label{{Name: labelPID, Value: strconv.Itoa(p.pid)}}
	out := []Sample{{Name: ProcessRSS, Labels: labels, Value: float64(memory.RSS), Unit: unitBytes}}
	now := c.opts.Now()
	if value, ok := p.cpu.since(now, times.User+times.System, now.Sub(c.began).Seconds()); ok {
		out = append(out, Sample{Name: ProcessCPU, Labels: slices.Clone(labels), Value: value, Unit: unitPercent})
	}
	return out, nil
}

// find makes sure that the number still means the process that it meant first.
func (p *process) find(ctx context.Context) error {
	now, err := gopsutil.NewProcessWithContext(ctx, int32(p.pid))
	if err != nil {
		return err
	}
	if p.known == nil {
		p.known = now
		return nil
	}
	was, err := p.known.CreateTimeWithContext(ctx)
	if err != nil {
		return err
	}
	if is, err := now.CreateTimeWithContext(ctx); err != nil || is != was {
		return errors.Join(err, errReused)
	}
	return nil
}
