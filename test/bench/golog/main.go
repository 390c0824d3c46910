//go:build linux

// Command golog times the log calls of the Go SDK against the server at an
// address, which may be one where nobody listens: golog ADDRESS. It prints a line
// for each kind of call, separated by tabs: its name, the time of the processor
// that a call takes on the thread that makes it, then the wall time of single
// calls at p50, p99, p99.9 and worst, all in µs; at last the memory of its own, in
// MB, that a million points take. test/bench/bench.py puts the first into its table.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kymogram/kymogram"
	"github.com/kymogram/kymogram/telemetry"
)

const (
	// pause is between two single calls with arrays, as in a training loop;
	// scalars are logged as fast as it goes.
	pause   = 2 * time.Millisecond
	threads = 8
)

// kind is a sort of call.
type kind struct {
	name  string
	calls int
	pause time.Duration
	call  func(i int) error
}

// cost is what calls of a kind took.
type cost struct {
	cpu  time.Duration // of each, on average
	wall []time.Duration
}

func main() {
	if err := run(context.Background(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "golog:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, server string) error {
	run, err := kymogram.Init(ctx, kymogram.Options{Server: server, Project: "bench", RunName: "golog"})
	if err != nil {
		return err
	}
	if err := os.Setenv("KYMOGRAM_SERVER", server); err != nil {
		return err
	}
	logger, err := telemetry.New(ctx, telemetry.Options{Prefix: "M", UID: "7", Role: telemetry.Miner, Group: "miner", JobType: "mining", Version: "2.1.3"})
	if err != nil {
		return err
	}
	for _, k := range append(kinds(run), window(logger)) {
		c, err := measure(k)
		if err != nil {
			return err
		}
		show(k.name, c)
	}
	if err := together(run); err != nil {
		return err
	}
	if err := showMemory(run); err != nil {
		return err
	}
	var left *kymogram.UndeliveredError
	if err := logger.Close(ctx); err != nil && !errors.As(err, &left) {
		return err
	}
	err = run.Close(ctx)
	if errors.As(err, &left) && left.Lost == 0 {
		return nil // nobody listens
	}
	return err
}

func kinds(run *kymogram.Run) []kind {
	mapping := map[string]float64{}
	for i := range 10 {
		mapping["m"+strconv.Itoa(i)] = 0.5
	}
	vector := slices.Repeat([]float64{0.5}, 1000)
	envs := make([]kymogram.EnvValues, 64)
	for i := range envs {
		envs[i] = kymogram.EnvValues{Env: "env" + strconv.Itoa(i), Values: slices.Repeat([]float64{0.5}, 128)}
	}
	return []kind{
		{"scalar", 500_000, 0, func(int) error { return run.Log("loss", 0.5) }},
		{"scalar with step", 500_000, 0, func(i int) error { return run.Log("stepped", 0.5, kymogram.Step(int64(i))) }},
		{"mapping of 10", 100_000, 0, func(int) error { return run.LogMap(mapping) }},
		{"vector of 1,000", 2_000, pause, func(int) error { return run.LogValues("vector", vector) }},
		{"64 environments × 128", 2_000, pause, func(i int) error { return run.LogRLEnvironmentSteps("reward", int64(i), envs) }},
	}
}

// window is a miner's point of a window, as Templar's MetricsLogger has it.
func window(logger *telemetry.Logger) kind {
	fields := telemetry.Fields{"n_gather_peers": 15, "gather_peers": "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14]", "skipped_peers": "[3]"}
	for i, name := range []string{"loss", "gather_success_rate", "window_total_time", "peer_update_time", "compression_time", "gather_time", "put_time", "model_update_time", "tokens_per_sec"} {
		fields[name] = 2.5 * float64(i+1)
	}
	return kind{"MetricsLogger, 12 fields", 50_000, 0, func(i int) error {
		logger.Log("training_step_v2", telemetry.Tags{"window": i, "global_step": i}, fields)
		return nil
	}}
}

// measure makes the calls twice: as fast as it goes, then each for itself.
func measure(k kind) (cost, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := k.call(0); err != nil { // makes the series
		return cost{}, err
	}
	began, err := threadTime()
	if err != nil {
		return cost{}, err
	}
	for i := range k.calls {
		if err := k.call(1 + i); err != nil {
			return cost{}, err
		}
	}
	ended, err := threadTime()
	if err != nil {
		return cost{}, err
	}
	c := cost{cpu: (ended - began) / time.Duration(k.calls), wall: make([]time.Duration, k.calls)}
	for i := range c.wall {
		time.Sleep(k.pause)
		start := time.Now()
		if err := k.call(1 + k.calls + i); err != nil {
			return cost{}, err
		}
		c.wall[i] = time.Since(start)
	}
	return c, nil
}

func threadTime() (time.Duration, error) {
	var t unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t)
	return time.Duration(t.Nano()), err
}

// together is several threads that log to one run, each a metric of its own.
func together(run *kymogram.Run) error {
	var group sync.WaitGroup
	costs, errs := make([]cost, threads), make([]error, threads)
	for i := range threads {
		name := "loss" + strconv.Itoa(i)
		group.Go(func() {
			costs[i], errs[i] = measure(kind{name, 200_000, 0, func(int) error { return run.Log(name, 0.5) }})
		})
	}
	group.Wait()
	var all cost
	for _, c := range costs {
		all.cpu += c.cpu / threads
		all.wall = append(all.wall, c.wall...)
	}
	show(strconv.Itoa(threads)+" threads, scalar", all)
	return errors.Join(errs...)
}

func show(name string, c cost) {
	slices.Sort(c.wall)
	at := func(part float64) float64 {
		return micros(c.wall[int(part*float64(len(c.wall)-1))])
	}
	fmt.Printf("%s\t%.3f\t%.2f\t%.2f\t%.2f\t%.2f\n", name, micros(c.cpu), at(0.5), at(0.99), at(0.999), at(1))
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

func showMemory(run *kymogram.Run) error {
	before, err := ownMemory()
	if err != nil {
		return err
	}
	for range 1_000_000 {
		if err := run.Log("many", 0.5); err != nil {
			return err
		}
	}
	after, err := ownMemory()
	fmt.Printf("memory of 1,000,000 points\t%.1f\n", float64(after-before)/1e6)
	return err
}

// ownMemory is in bytes, without what is a copy of a file.
func ownMemory() (int64, error) {
	debug.FreeOSMemory()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	_, rest, _ := bytes.Cut(status, []byte("RssAnon:"))
	kib, _, _ := bytes.Cut(bytes.TrimSpace(rest), []byte(" kB"))
	n, err := strconv.ParseInt(string(kib), 10, 64)
	return n << 10, err
}
