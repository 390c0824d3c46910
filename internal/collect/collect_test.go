package collect_test

import (
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kymogram/kymogram/internal/collect"
	"github.com/kymogram/kymogram/internal/model"
)

// stopwatch is a clock that only the test moves.
type stopwatch struct{ now time.Time }

func newStopwatch() *stopwatch               { return &stopwatch{time.Unix(1_700_000_000, 0)} }
func (s *stopwatch) time() time.Time         { return s.now }
func (s *stopwatch) forward(d time.Duration) { s.now = s.now.Add(d) }

// byName holds samples under name and labels, such as system/gpu/x{gpu_id=0}.
func byName(samples []collect.Sample) map[string]float64 {
	out := map[string]float64{}
	for _, s := range samples {
		key := s.Name
		for _, l := range s.Labels {
			key += "{" + l.Name + "=" + l.Value + "}"
		}
		out[key] = s.Value
	}
	return out
}

func read(t *testing.T, c *collect.Collector) map[string]float64 {
	t.Helper()
	samples, err := c.Collect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return byName(samples)
}

// kernel is a folder of kernel files with numbers that are easy to calculate with.
type kernel struct{ folder string }

func newKernel(t *testing.T) kernel {
	t.Helper()
	k := kernel{t.TempDir()}
	k.write(t, "meminfo", "MemTotal: 1000 kB\nMemFree: 100 kB\nMemAvailable: 250 kB\nBuffers: 10 kB\nCached: 140 kB\n")
	k.write(t, "net/dev", "Inter-|   Receive  |  Transmit\n face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs drop fifo colls carrier compressed\n"+
		"    lo: 5 1 0 0 0 0 0 0 5 1 0 0 0 0 0 0\n  eth0: 7000 2 0 0 0 0 0 0 900 3 0 0 0 0 0 0\nveth12: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n")
	k.processors(t, 100, 900)
	return k
}

func (k kernel) write(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(k.folder, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// processors sets hundredths of seconds since boot; busy is half user, half system.
func (k kernel) processors(t *testing.T, busy, idle int) {
	t.Helper()
	k.write(t, "stat", fmt.Sprintf("cpu  %d 0 %d %d 0 0 0 0 0 0\ncpu0 0 0 0 0 0 0 0 0 0 0\nbtime 1600000000\n", busy/2, busy-busy/2, idle))
}

// process sets hundredths of seconds and pages of this very process.
func (k kernel) process(t *testing.T, start, ticks, pages int) {
	t.Helper()
	pid := os.Getpid()
	fields := slices.Repeat([]string{"0"}, 50)
	fields[0], fields[11], fields[19] = "S", strconv.Itoa(ticks), strconv.Itoa(start) // the fields from the third on
	k.write(t, fmt.Sprintf("%d/stat", pid), fmt.Sprintf("%d (a (b) c) %s\n", pid, strings.Join(fields, " ")))
	k.write(t, fmt.Sprintf("%d/statm", pid), fmt.Sprintf("9999 %d 0 0 0 0 0\n", pages))
}

func TestSamplesOfAKnownKernel(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the kernel's files are Linux's")
	}
	k, clock := newKernel(t), newStopwatch()
	k.process(t, 77, 1000, 3)
	c := collect.New(collect.Options{Now: clock.time, Proc: k.folder, Cgroup: k.folder, PIDs: []int{os.Getpid()}, NvidiaSMI: "-", Host: "here"})
	first := read(t, c)
	pid := "{pid=" + strconv.Itoa(os.Getpid()) + "}"
	want := map[string]float64{
		"system/memory/used_bytes{host=here}": 750 << 10, "system/memory/utilization{host=here}": 75,
		"system/network/receive_bytes{host=here}{interface=eth0}": 7000, "system/network/transmit_bytes{host=here}{interface=eth0}": 900,
		"system/process/rss_bytes{host=here}" + pid: float64(3 * os.Getpagesize()),
	}
	maps.DeleteFunc(first, func(name string, _ float64) bool { return strings.HasPrefix(name, "system/disk/") })
	if diff := cmp.Diff(want, first); diff != "" {
		t.Fatalf("first (-want +got):\n%s", diff)
	}

	// In 10 s: the processors were busy for 300 of 1200 ticks, the process for 15 s.
	clock.forward(10 * time.Second)
	k.processors(t, 400, 1800)
	k.process(t, 77, 2500, 3)
	second := read(t, c)
	if got := second["system/cpu/utilization{host=here}"]; got != 25 {
		t.Errorf("cpu utilization %v, want 25", got)
	}
	if got := second["system/process/cpu_utilization{host=here}"+pid]; math.Abs(got-150) > 1e-9 {
		t.Errorf("process utilization %v, want 150", got)
	}

	// A reader that follows at once gets the same number, not one of nothing.
	if again := read(t, c)["system/cpu/utilization{host=here}"]; again != 25 {
		t.Errorf("at once again %v, want 25", again)
	}

	// The number of the process is given to another.
	clock.forward(10 * time.Second)
	k.process(t, 9_999_999, 1, 1)
	if _, found := read(t, c)["system/process/rss_bytes{host=here}"+pid]; found {
		t.Error("a process that only has the number of ours was read")
	}
}

// In a container with a limit the limit is the machine.
func TestLimitsOfAContainer(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the kernel's files are Linux's")
	}
	k, group, clock := newKernel(t), kernel{t.TempDir()}, newStopwatch()
	group.write(t, "memory.max", "512000\n")
	group.write(t, "memory.current", "300000\n")
	group.write(t, "memory.stat", "anon 1\ninactive_file 44000\nactive_file 7\n")
	group.write(t, "cpu.max", "150000 100000\n") // a processor and a half
	group.write(t, "cpu.stat", "usage_usec 1000000\nuser_usec 5\n")
	c := collect.New(collect.Options{Now: clock.time, Proc: k.folder, Cgroup: group.folder, NvidiaSMI: "-"})
	read(t, c)
	clock.forward(10 * time.Second)
	group.write(t, "cpu.stat", "usage_usec 7000000\nuser_usec 5\n")
	got := read(t, c)
	if got["system/memory/used_bytes"] != 256000 || got["system/memory/utilization"] != 50 || got["system/cpu/utilization"] != 40 {
		t.Fatalf("%v", got)
	}
	// Without limits the machine counts.
	group.write(t, "memory.max", "max\n")
	group.write(t, "cpu.max", "max 100000\n")
	if got := read(t, c); got["system/memory/used_bytes"] != 750<<10 {
		t.Fatalf("%v", got)
	}
}

func TestWhatCannotBeReadHidesNothingElse(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the kernel's files are Linux's")
	}
	k := newKernel(t)
	k.write(t, "meminfo", "nonsense")
	c := collect.New(collect.Options{Proc: k.folder, Cgroup: k.folder, Disk: filepath.Join(t.TempDir(), "gone"), PIDs: []int{0, -1, math.MaxInt}, NvidiaSMI: "-"})
	samples, err := c.Collect(t.Context())
	if err == nil || !strings.Contains(err.Error(), "read memory") || !strings.Contains(err.Error(), "read disk of") {
		t.Fatalf("error %v names neither memory nor disk", err)
	}
	if got := byName(samples)["system/network/receive_bytes{interface=eth0}"]; got != 7000 {
		t.Fatalf("network %v, want 7000", got)
	}
}

func TestProcessorsOfThisMachine(t *testing.T) {
	clock := newStopwatch()
	c := collect.New(collect.Options{Now: clock.time, NvidiaSMI: "-"})
	if _, found := read(t, c)["system/cpu/utilization"]; found {
		t.Fatal("a utilization without a stretch of time")
	}
	for { // until the kernel counted a tick
		clock.forward(time.Second)
		if got, found := read(t, c)["system/cpu/utilization"]; got < 0 || got > 100 {
			t.Fatalf("utilization %v", got)
		} else if found {
			return
		}
	}
}

// program writes an nvidia-smi of the test's own.
func program(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "nvidia-smi")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func onlyGPU(samples map[string]float64) map[string]float64 {
	maps.DeleteFunc(samples, func(name string, _ float64) bool { return !strings.HasPrefix(name, "system/gpu/") })
	return samples
}

func TestGraphicsCards(t *testing.T) {
	calls := filepath.Join(t.TempDir(), "calls")
	smi := program(t, `echo "$@" >> `+calls+`
echo '0, NVIDIA H200, 37, 1024, 4096, 41, 75.50, 1980'
echo '1, "NVIDIA A, B", [N/A], 10, [Not Supported], 30, [Unknown Error], 0'`)
	clock := newStopwatch()
	c := collect.New(collect.Options{Now: clock.time, NvidiaSMI: smi, GPUTimeout: time.Minute})
	one, two := "{gpu_id=0}{gpu_name=NVIDIA H200}", "{gpu_id=1}{gpu_name=NVIDIA A, B}"
	want := map[string]float64{
		"system/gpu/utilization" + one: 37, "system/gpu/memory_used_bytes" + one: 1 << 30,
		"system/gpu/memory_total_bytes" + one: 4 << 30, "system/gpu/memory_utilization" + one: 25,
		"system/gpu/temperature_celsius" + one: 41, "system/gpu/power_watts" + one: 75.5, "system/gpu/sm_clock_mhz" + one: 1980,
		"system/gpu/memory_used_bytes" + two: 10 << 20, "system/gpu/temperature_celsius" + two: 30, "system/gpu/sm_clock_mhz" + two: 0,
	}
	for range 3 {
		if diff := cmp.Diff(want, onlyGPU(read(t, c))); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	}
	clock.forward(time.Minute)
	read(t, c)
	text, err := os.ReadFile(calls)
	if err != nil || strings.Count(string(text), "\n") != 2 {
		t.Fatalf("nvidia-smi was called %q, want two calls: %v", text, err)
	}
	if !strings.Contains(string(text), "--query-gpu=index,name,utilization.gpu,memory.used,memory.total,temperature.gpu,power.draw,clocks.sm") {
		t.Fatalf("nvidia-smi was asked for %s", text)
	}
}

func TestGraphicsCardsThatDoNotAnswer(t *testing.T) {
	for name, test := range map[string]struct{ script, says string }{
		"no card":    {`echo 'No devices were found'; exit 6`, ""},
		"no driver":  {`echo 'NVIDIA-SMI has failed'; exit 9`, "NVIDIA-SMI has failed"},
		"other text": {`echo hello`, "not what was asked for"},
		"hangs":      {`exec sleep 600`, "no answer within"},
	} {
		t.Run(name, func(t *testing.T) {
			limit := time.Minute
			if name == "hangs" {
				limit = 50 * time.Millisecond
			}
			c := collect.New(collect.Options{NvidiaSMI: program(t, test.script), GPUTimeout: limit})
			samples, err := c.Collect(t.Context())
			if got := fmt.Sprint(err); test.says == "" && err != nil || !strings.Contains(got, test.says) {
				t.Fatalf("error %v, want %q", err, test.says)
			}
			if got := byName(samples); len(onlyGPU(got)) != 0 {
				t.Fatalf("samples %v", got)
			}
		})
	}
}

func TestMachineWithoutNvidiaSMI(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if got := onlyGPU(read(t, collect.New(collect.Options{}))); len(got) != 0 {
		t.Fatalf("samples %v", got)
	}
}

// An answer of a driver, whatever it says, is no panic and no number that is not one.
func FuzzGraphicsCards(f *testing.F) {
	f.Add("0, A, 1, 2, 3, 4, 5, 6\n")
	f.Add("0, \"A\"x, NaN, Inf, 0, -1, 1e999, 0x10\n")
	f.Fuzz(func(t *testing.T, text string) {
		samples, err := collect.ParseGPU(text)
		for _, s := range samples {
			if err != nil || math.IsNaN(s.Value) || math.IsInf(s.Value, 0) || len(s.Labels) != 2 || s.Labels[0].Name != "gpu_id" {
				t.Fatalf("%+v with %v", s, err)
			}
		}
	})
}

// Every sample has a unit and a name that a run's series may have.
func TestUnits(t *testing.T) {
	smi := program(t, `echo '0, X, 1, 1, 2, 3, 4, 5'`)
	samples, err := collect.New(collect.Options{NvidiaSMI: smi, GPUTimeout: time.Minute, PIDs: []int{os.Getpid()}}).Collect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range samples {
		if s.Unit == "" || !strings.HasPrefix(s.Name, "system/") {
			t.Errorf("%+v", s)
		}
		if !slices.IsSortedFunc(s.Labels, func(a, b model.Label) int { return strings.Compare(a.Name, b.Name) }) {
			t.Errorf("labels of %+v are not sorted", s)
		}
	}
}
