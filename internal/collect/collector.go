package collect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/shirou/gopsutil/v4/common"
	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/disk"
	"github.com/shirou/gopsutil/v4/mem"
	"github.com/shirou/gopsutil/v4/net"

	"github.com/kymogram/kymogram/internal/model"
)

// The names of the samples.
const (
	CPUUtilization     = "system/cpu/utilization"        // percent of all cores, or of those that the container may use
	MemoryUsed         = "system/memory/used_bytes"      // total less available
	MemoryUtilization  = "system/memory/utilization"     // percent
	DiskTotal          = "system/disk/total_bytes"       //
	DiskFree           = "system/disk/free_bytes"        // for those who are not root
	DiskUtilization    = "system/disk/utilization"       // percent of what can be used
	NetworkReceive     = "system/network/receive_bytes"  // counter since boot, a network interface
	NetworkTransmit    = "system/network/transmit_bytes" // counter since boot, a network interface
	ProcessRSS         = "system/process/rss_bytes"
	ProcessCPU         = "system/process/cpu_utilization" // percent of one core
	GPUUtilization     = "system/gpu/utilization"         // percent of the time that a kernel ran
	GPUMemoryUsed      = "system/gpu/memory_used_bytes"
	GPUMemoryTotal     = "system/gpu/memory_total_bytes"
	GPUMemoryUtilized  = "system/gpu/memory_utilization" // percent
	GPUTemperature     = "system/gpu/temperature_celsius"
	GPUPower           = "system/gpu/power_watts"
	GPUStreamingClock  = "system/gpu/sm_clock_mhz"
	labelHost          = "host"
	labelPID           = "pid"
	labelInterface     = "interface"
	labelGPU           = "gpu_id"
	labelGPUName       = "gpu_name"
	percent            = 100
	unitPercent        = "percent"
	unitBytes          = "bytes"
	shortestCPUStretch = 100 * time.Millisecond
)

// Kind says how a sample's values follow one another.
type Kind uint8

// The kinds.
const (
	Gauge   Kind = iota // a level
	Counter             // grows until the machine restarts
)

// Sample is one number that was read.
type Sample struct {
	Name   string
	Labels []model.Label // sorted by name
	Value  float64
	Unit   string // percent, bytes, celsius, watts, megahertz
	Kind   Kind
}

// Options say what a Collector reads. The zero value reads this machine, the
// file system of / and no process.
type Options struct {
	Now func() time.Time // time.Now when nil
	// Host is the label "host" of every sample; empty: no such label.
	Host string
	// PIDs are the processes to read; one that has ended has no samples.
	PIDs []int
	// Disk is a folder of the file system to measure; "/" when empty.
	Disk string
	// Scratch is the folder in which Inventory measures the disk; the system's for
	// temporary files when empty.
	Scratch string
	// Proc is the folder of the kernel's files; /proc when empty.
	Proc string
	// Cgroup is the folder of the control group whose limits count where they are
	// narrower than the machine; /sys/fs/cgroup when empty.
	Cgroup string
	// NvidiaSMI is the program that tells of graphics cards: nvidia-smi of PATH
	// when empty, "-" for none.
	NvidiaSMI string
	// RocmSMI is the program that reports AMD's cards where there is no nvidia-smi: rocm-smi
	// of PATH when empty, "-" for none.
	RocmSMI string
	// GPUEvery is the least time between two calls of it; 5 s when 0. A call
	// takes 20 ms to seconds, and is given up after GPUTimeout, 2 s when 0.
	GPUEvery, GPUTimeout time.Duration
}

// Collector reads samples. It is safe for concurrent use.
type Collector struct {
	opts Options

	began     time.Time
	mu        sync.Mutex
	cpu       utilization
	system    utilization // of System
	processes map[int]*process
	gpu       *gpu
}

// New makes a Collector. It reads nothing yet.
func New(opts Options) *Collector {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Disk == "" {
		opts.Disk = "/"
	}
	if opts.Cgroup == "" {
		opts.Cgroup = "/sys/fs/cgroup"
	}
	c := &Collector{opts: opts, began: opts.Now(), processes: map[int]*process{}, gpu: newGPU(opts)}
	for _, pid := range opts.PIDs {
		c.processes[pid] = &process{pid: pid}
	}
	return c
}

// Collect reads everything once. What cannot be read is in the error, what can
// is returned beside it. The utilization of processors and processes is that
// since the call before, so the first call has none.
func (c *Collector) Collect(ctx context.Context) ([]Sample, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.opts.Proc != "" {
		ctx = context.WithValue(ctx, common.EnvKey, common.EnvMap{common.HostProcEnvKey: c.opts.Proc})
	}
	var (
		out  []Sample
		errs []error
	)
	readers := []func(context.Context) ([]Sample, error){c.readCPU, c.readMemory, c.readDisk, c.readNetwork, c.readProcesses, c.gpu.read}
	for _, read := range readers {
		samples, err := read(ctx)
		out = append(out, samples...)
		if err != nil {
			errs = append(errs, err)
		}
	}
	return c.labelled(out), errors.Join(errs...)
}

// labelled adds the host to every sample and sorts the labels.
func (c *Collector) labelled(samples []Sample) []Sample {
	for i := range samples {
		if c.opts.Host != "" {
			samples[i].Labels = append(slices.Clone(samples[i].Labels), model.Label{Name: labelHost, Value: c.opts.Host})
		}
		slices.SortFunc(samples[i].Labels, func(a, b model.Label) int { return strings.Compare(a.Name, b.Name) })
	}
	return samples
}

// utilization turns a growing number of busy seconds into percent.
type utilization struct {
	began      bool
	at         time.Time
	busy, span float64
	last       float64
	known      bool
}

// since is the share of busy in span since the state before; two readers that
// follow closely get the same number.
func (u *utilization) since(now time.Time, busy, span float64) (float64, bool) {
	if u.began && now.Sub(u.at) < shortestCPUStretch && now.After(u.at) {
		return u.last, u.known
	}
	if u.began && span > u.span && busy >= u.busy {
		u.last, u.known = percent*(busy-u.busy)/(span-u.span), true
	}
	u.began, u.at, u.busy, u.span = true, now, busy, span
	return u.last, u.known
}

func (c *Collector) readCPU(ctx context.Context) ([]Sample, error) {
	times, err := cpu.TimesWithContext(ctx, false)
	if err != nil || len(times) == 0 {
		return nil, fmt.Errorf("read processors: %w", orEmpty(err))
	}
	// Guest time is part of user time.
	t := times[0]
	idle := t.Idle + t.Iowait
	busy := t.User + t.System + t.Nice + t.Irq + t.Softirq + t.Steal
	now, span := c.opts.Now(), busy+idle
	if used, count, limited := (container{c.opts.Cgroup}).processors(); limited {
		busy, span = used, count*now.Sub(c.began).Seconds()
	}
	value, ok := c.cpu.since(now, busy, span)
	if !ok {
		return nil, nil
	}
	return []Sample{{Name: CPUUtilization, Value: min(value, percent), Unit: unitPercent}}, nil // the ticks are rounded
}

var errEmpty = errors.New("the kernel told nothing")

func orEmpty(err error) error {
	if err == nil {
		return errEmpty
	}
	return err
}

func (c *Collector) readMemory(ctx context.Context) ([]Sample, error) {
	m, err := mem.VirtualMemoryWithContext(ctx)
	if err != nil || m.Total == 0 {
		return nil, fmt.Errorf("read memory: %w", orEmpty(err))
	}
	used, total := float64(m.Total-min(m.Available, m.Total)), float64(m.Total)
	if inside, limit, limited := (container{c.opts.Cgroup}).memory(); limited && limit < total {
		used, total = inside, limit
	}
	return []Sample{
		{Name: MemoryUsed, Value: used, Unit: unitBytes},
		{Name: MemoryUtilization, Value: percent * used / total, Unit: unitPercent},
	}, nil
}

func (c *Collector) readDisk(ctx context.Context) ([]Sample, error) {
	d, err := disk.UsageWithContext(ctx, c.opts.Disk)
	if err != nil || d.Total == 0 {
		return nil, fmt.Errorf("read disk of %s: %w", c.opts.Disk, orEmpty(err))
	}
	return []Sample{
		{Name: DiskTotal, Value: float64(d.Total), Unit: unitBytes},
		{Name: DiskFree, Value: float64(d.Free), Unit: unitBytes},
		{Name: DiskUtilization, Value: d.UsedPercent, Unit: unitPercent},
	}, nil
}

func (c *Collector) readNetwork(ctx context.Context) ([]Sample, error) {
	interfaces, err := net.IOCountersWithContext(ctx, true)
	if err != nil {
		return nil, fmt.Errorf("read network: %w", err)
	}
	var out []Sample
	for _, i := range interfaces {
		if inside(i.Name) {
			continue
		}
		labels := []model.Label{{Name: labelInterface, Value: i.Name}}
		out = append(out,
			Sample{Name: NetworkReceive, Labels: labels, Value: float64(i.BytesRecv), Unit: unitBytes, Kind: Counter},
			Sample{Name: NetworkTransmit, Labels: slices.Clone(labels), Value: float64(i.BytesSent), Unit: unitBytes, Kind: Counter})
	}
	return out, nil
}

// inside reports whether an interface joins only parts of this machine: the
// loopback, and the ends of containers, of which there are many that come and go.
func inside(name string) bool {
	return name == "lo" || strings.HasPrefix(name, "veth") || strings.HasPrefix(name, "cali")
}
