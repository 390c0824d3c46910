package collect

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/kymogram/kymogram/internal/model"
)

const (
	defaultGPUEvery   = 5 * time.Second
	defaultGPUTimeout = 2 * time.Second
	// absentEvery is how long a machine without nvidia-smi is not asked again.
	absentEvery = time.Minute
	noProgram   = "-"
	mebibyte    = 1 << 20
	// maxGPUOutput is far above what 16 cards say, 100 bytes each.
	maxGPUOutput = 64 << 10
)

// gpuColumns are what nvidia-smi is asked for: `nvidia-smi --help-query-gpu`.
const gpuColumns = "index,name,utilization.gpu,memory.used,memory.total,temperature.gpu,power.draw,clocks.sm"

// gpu asks nvidia-smi, seldom, and remembers the answer. A card whose driver
// hangs holds the program for ever: then one call is left behind, not one a
// sample.
type gpu struct {
	nvidia, rocm   string
	every, timeout time.Duration
	now            func() time.Time

	mu      sync.Mutex
	running chan struct{} // closed when the call in progress ends
	next    time.Time
	samples []Sample
	err     error
}

func newGPU(opts Options) *gpu {
	g := &gpu{nvidia: opts.NvidiaSMI, rocm: opts.RocmSMI, every: opts.GPUEvery, timeout: opts.GPUTimeout, now: opts.Now}
	if g.nvidia == "" {
		g.nvidia = "nvidia-smi"
		if g.rocm == "" {
			g.rocm = "rocm-smi"
		}
	}
	if g.every == 0 {
		g.every = defaultGPUEvery
	}
	if g.timeout == 0 {
		g.timeout = defaultGPUTimeout
	}
	return g
}

func (g *gpu) read(ctx context.Context) ([]Sample, error) {
	if g.nvidia == noProgram {
		return nil, nil
	}
	done := g.refresh()
	if done != nil {
		limit := time.NewTimer(g.timeout)
		defer limit.Stop()
		select {
		case <-done:
		case <-ctx.Done():
			return nil, fmt.Errorf("read graphics cards: %w", ctx.Err())
		case <-limit.C:
			return nil, fmt.Errorf("read graphics cards: %s gave no answer within %s", g.nvidia, g.timeout)
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	out := make([]Sample, len(g.samples))
	for i, s := range g.samples {
		s.Labels = append([]model.Label(nil), s.Labels...)
		out[i] = s
	}
	return out, g.err
}

// refresh is the call in progress, or a new one when it is time for one, else nil.
// It has a goroutine of its own: a program that hangs in the driver cannot be
// killed, so the only way to give it up is not to wait for it.
func (g *gpu) refresh() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.running != nil {
		return g.running
	}
	if g.now().Before(g.next) {
		return nil
	}
	done := make(chan struct{})
	g.running = done
	go func() {
		samples, err := g.ask()
		g.keep(samples, err)
		close(done)
	}()
	return done
}

// keep remembers an answer. A machine without the program has no cards, which is
// no error.
func (g *gpu) keep(samples []Sample, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	wait := g.every
	if errors.Is(err, exec.ErrNotFound) {
		wait, err = absentEvery, nil
	}
	g.samples, g.err, g.running, g.next = samples, err, nil, g.now().Add(wait)
}

func (g *gpu) ask() ([]Sample, error) {
	text, err := g.query(gpuColumns)
	if errors.Is(err, exec.ErrNotFound) && g.rocm != "" && g.rocm != noProgram {
		return g.askAMD()
	}
	if err != nil || text == "" {
		return nil, err
	}
	return parseGPU(text)
}

// Cards counts a machine's graphics cards, and those of them that are partitioned
// (MIG); a driver that knows no partitions has none.
type Cards struct{ All, Partitioned int }

// Cards asks nvidia-smi once. It may take seconds; a machine without it has none.
func (c *Collector) Cards() (Cards, error) {
	if c.gpu.nvidia == noProgram {
		return Cards{}, nil
	}
	text, err := c.gpu.query("mig.mode.current")
	if err != nil && !errors.Is(err, exec.ErrNotFound) {
		text, err = c.gpu.query("index")
	}
	if errors.Is(err, exec.ErrNotFound) {
		err = nil
	}
	var out Cards
	for line := range strings.Lines(text) {
		out.All++
		if strings.TrimSpace(line) == "Enabled" {
			out.Partitioned++
		}
	}
	return out, err
}

// query runs nvidia-smi; "" where there are no cards.
func (g *gpu) query(columns string) (string, error) {
	return g.program(g.nvidia, "--query-gpu="+columns, "--format=csv,noheader,nounits")
}

// program runs one that reports cards; "" where there are none.
func (g *gpu) program(name string, arguments ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), g.timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, arguments...)
	cmd.WaitDelay = time.Second // a child of it may hold the pipe
	var out, errs bounded
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return "", err
	case ctx.Err() != nil:
		return "", fmt.Errorf("read graphics cards: %s gave no answer within %s", name, g.timeout)
	case err != nil:
		said := strings.TrimSpace(out.String() + " " + errs.String())
		if strings.HasPrefix(said, "No devices were found") {
			return "", nil
		}
		return "", fmt.Errorf("read graphics cards: %s: %w: %s", name, err, model.CutBytes(said, 200))
	}
	return out.String(), nil
}

// bounded keeps the first part of what a program says.
type bounded struct{ bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	if room := maxGPUOutput - b.Len(); room > 0 {
		b.Buffer.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

// parseGPU reads one line a card. A number that a card does not have is "[N/A]",
// "[Not Supported]" or the like; its sample is left out.
func parseGPU(text string) ([]Sample, error) {
	in := csv.NewReader(strings.NewReader(text))
	in.TrimLeadingSpace, in.LazyQuotes, in.FieldsPerRecord = true, true, strings.Count(gpuColumns, ",")+1
	rows, err := in.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("read graphics cards: the answer is not what was asked for: %w", err)
	}
	var out []Sample
	for _, row := range rows {
		out = append(out, card(row)...)
	}
	return out, nil
}

func card(row []string) (out []Sample) {
	add := func(name, unit string, value float64, ok bool) {
		if ok && finite(value) {
			labels := []model.Label{{Name: labelGPU, Value: row[0]}, {Name: labelGPUName, Value: row[1]}}
			out = append(out, Sample{Name: name, Labels: labels, Value: value, Unit: unit})
		}
	}
	busy, busyOK := number(row[2])
	used, usedOK := number(row[3])
	total, totalOK := number(row[4])
	heat, heatOK := number(row[5])
	power, powerOK := number(row[6])
	clock, clockOK := number(row[7])
	add(GPUUtilization, unitPercent, busy, busyOK)
	add(GPUMemoryUsed, unitBytes, used*mebibyte, usedOK)
	add(GPUMemoryTotal, unitBytes, total*mebibyte, totalOK)
	add(GPUMemoryUtilized, unitPercent, percent*used/total, usedOK && totalOK && total > 0)
	add(GPUTemperature, "celsius", heat, heatOK)
	add(GPUPower, "watts", power, powerOK)
	add(GPUStreamingClock, "megahertz", clock, clockOK)
	return out
}

// number reads a finite number.
func number(text string) (float64, bool) {
	v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	return v, err == nil && finite(v)
}

func finite(v float64) bool { return v-v == 0 }
