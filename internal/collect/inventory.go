package collect

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"strings"

	"github.com/shirou/gopsutil/v4/common"
	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/disk"
	"github.com/shirou/gopsutil/v4/mem"
)

// Inventory is what a machine has: the specs that a miner of the compute subnet
// publishes, in the form of its get_perf_info. Sizes are bytes, speeds bytes a
// second, frequencies and clocks megahertz; 0 is what could not be read.
type Inventory struct {
	CPU       CPUSpecs  `json:"cpu"`
	GPU       GPUSpecs  `json:"gpu"`
	HardDisk  DiskSpecs `json:"hard_disk"`
	RAM       RAMSpecs  `json:"ram"`
	HasDocker bool      `json:"has_docker"`
}

// CPUSpecs are logical processors and their highest frequency.
type CPUSpecs struct {
	Count     int     `json:"count"`
	Frequency float64 `json:"frequency"`
}

// GPUSpecs are the graphics cards. Capacities are MiB of memory, as nvidia-smi
// gives them; Capacity is that of all. The clocks are the highest of the first card.
type GPUSpecs struct {
	Count         int       `json:"count"`
	Capacity      float64   `json:"capacity"`
	Details       []GPUCard `json:"details"`
	GraphicsSpeed float64   `json:"graphics_speed"`
	MemorySpeed   float64   `json:"memory_speed"`
}

// GPUCard is one card.
type GPUCard struct {
	Name     string  `json:"name"`
	Capacity float64 `json:"capacity"`
}

// DiskSpecs are the file system of Options.Disk and what Scratch's reads and
// writes were measured at.
type DiskSpecs struct {
	Total      uint64  `json:"total"`
	Free       uint64  `json:"free"`
	Used       uint64  `json:"used"`
	WriteSpeed float64 `json:"write_speed"`
	ReadSpeed  float64 `json:"read_speed"`
}

// RAMSpecs are memory, swap, and the measured speeds of one thread.
type RAMSpecs struct {
	Total      uint64  `json:"total"`
	Available  uint64  `json:"available"`
	Used       uint64  `json:"used"`
	Free       uint64  `json:"free"`
	SwapTotal  uint64  `json:"swap_total"`
	SwapUsed   uint64  `json:"swap_used"`
	SwapFree   uint64  `json:"swap_free"`
	ReadSpeed  float64 `json:"read_speed"`
	WriteSpeed float64 `json:"write_speed"`
}

// Inventory reads what the machine has. It takes about a second, since it measures
// memory and disk. What cannot be read is 0 and in the error, beside the rest.
func (c *Collector) Inventory(ctx context.Context) (Inventory, error) {
	if c.opts.Proc != "" {
		ctx = context.WithValue(ctx, common.EnvKey, common.EnvMap{common.HostProcEnvKey: c.opts.Proc})
	}
	out := Inventory{GPU: GPUSpecs{Details: []GPUCard{}}}
	var errs []error
	for _, read := range []func(context.Context, *Inventory) error{c.listCPU, c.listGPU, c.listDisk, c.listRAM} {
		errs = append(errs, read(ctx, &out))
	}
	out.HasDocker = c.hasDocker(ctx)
	return out, errors.Join(errs...)
}

func (c *Collector) listCPU(ctx context.Context, out *Inventory) error {
	out.CPU.Count = runtime.NumCPU()
	if _, count, limited := (container{c.opts.Cgroup}).processors(); limited {
		out.CPU.Count = max(1, min(out.CPU.Count, int(count)))
	}
	infos, err := cpu.InfoWithContext(ctx)
	for _, one := range infos {
		out.CPU.Frequency = max(out.CPU.Frequency, one.Mhz)
	}
	if err != nil {
		return fmt.Errorf("read the processors' frequency: %w", err)
	}
	return nil
}

func (c *Collector) listRAM(ctx context.Context, out *Inventory) error {
	m, err := mem.VirtualMemoryWithContext(ctx)
	if err != nil {
		return fmt.Errorf("read memory: %w", err)
	}
	ram := &out.RAM
	ram.Total, ram.Available, ram.Free = m.Total, min(m.Available, m.Total), m.Free
	if inside, limit, limited := (container{c.opts.Cgroup}).memory(); limited && limit < float64(m.Total) {
		ram.Total = uint64(limit)
		ram.Available = ram.Total - min(ram.Total, uint64(inside))
		ram.Free = min(ram.Free, ram.Available)
	}
	ram.Used = ram.Total - ram.Available
	ram.WriteSpeed, ram.ReadSpeed = memorySpeed()
	swap, err := mem.SwapMemoryWithContext(ctx)
	if err != nil {
		return fmt.Errorf("read swap: %w", err)
	}
	ram.SwapTotal, ram.SwapUsed, ram.SwapFree = swap.Total, swap.Used, swap.Free
	return nil
}

func (c *Collector) listDisk(ctx context.Context, out *Inventory) error {
	d, err := disk.UsageWithContext(ctx, c.opts.Disk)
	if err != nil {
		return fmt.Errorf("read disk of %s: %w", c.opts.Disk, err)
	}
	hard := &out.HardDisk
	hard.Total, hard.Free, hard.Used = d.Total, d.Free, d.Used
	hard.WriteSpeed, hard.ReadSpeed, err = diskSpeed(c.opts.Scratch)
	return err
}

// cardColumns are what nvidia-smi is asked for: `nvidia-smi --help-query-gpu`.
const cardColumns = "name,memory.total,clocks.max.graphics,clocks.max.memory"

func (c *Collector) listGPU(_ context.Context, out *Inventory) error {
	if c.gpu.nvidia == noProgram {
		return nil
	}
	text, err := c.gpu.query(cardColumns)
	if errors.Is(err, exec.ErrNotFound) || err == nil && text == "" {
		return nil
	}
	if err != nil {
		return err
	}
	in := csv.NewReader(strings.NewReader(text))
	in.TrimLeadingSpace, in.LazyQuotes, in.FieldsPerRecord = true, true, strings.Count(cardColumns, ",")+1
	rows, err := in.ReadAll()
	if err != nil {
		return fmt.Errorf("read graphics cards: the answer is not what was asked for: %w", err)
	}
	for i, row := range rows {
		memory, _ := number(row[1])
		out.GPU.Count++
		out.GPU.Capacity += memory
		out.GPU.Details = append(out.GPU.Details, GPUCard{row[0], memory})
		if i == 0 {
			out.GPU.GraphicsSpeed, _ = number(row[2])
			out.GPU.MemorySpeed, _ = number(row[3])
		}
	}
	return nil
}

// hasDocker reports whether the program answers; its daemon is not asked.
func (c *Collector) hasDocker(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, c.gpu.timeout)
	defer cancel()
	return exec.CommandContext(ctx, "docker", "--version").Run() == nil
}
