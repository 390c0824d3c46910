// Command golog times Run.Log of the Go SDK against a server: golog ADDRESS.
// It prints a line for each kind of call, name and µs separated by a tab;
// test/bench/bench.py puts them into its table.
package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/kymogram/kymogram"
)

const rounds = 7

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
	mapping := map[string]float64{}
	for i := range 10 {
		mapping[fmt.Sprintf("m%d", i)] = 0.5
	}
	vector := slices.Repeat([]float64{0.5}, 1000)
	kinds := []struct {
		name  string
		calls int
		call  func(i int) error
	}{
		{"scalar", 100_000, func(int) error { return run.Log("loss", 0.5) }},
		{"scalar with step", 100_000, func(i int) error { return run.Log("stepped", 0.5, kymogram.Step(int64(i))) }},
		{"mapping of 10", 20_000, func(int) error { return run.LogMap(mapping) }},
		{"vector of 1000", 1_000, func(int) error { return run.LogValues("vector", vector) }},
	}
	for _, k := range kinds {
		micros, err := measure(k.calls, k.call)
		if err != nil {
			return err
		}
		fmt.Printf("%s\t%.3f\n", k.name, micros)
	}
	return run.Close(ctx)
}

// measure is the median over rounds of the time of one call, in µs.
func measure(calls int, call func(i int) error) (float64, error) {
	var took []float64
	for round := range rounds {
		start := time.Now()
		for i := range calls {
			if err := call(round*calls + i); err != nil {
				return 0, err
			}
		}
		took = append(took, float64(time.Since(start).Nanoseconds())/float64(calls)/1000)
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}
