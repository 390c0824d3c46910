// Command wandb measures the server behind W&B's SDK: `make bench-wandb`
// (docs/benchmarks.md has the table).
//
// It speaks the SDK's protocol itself, to the real binary with its keys on. Figures are
// the processor time and the memory of the server's process, which other programs on the
// machine hardly touch. sdk.go runs the real SDKs where they are installed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// bench is one run of the program.
type bench struct {
	binary string
	part   int // divides the sizes
	sdks   string
	peer   string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "wandb:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("wandb", flag.ContinueOnError)
	var b bench
	flags.StringVar(&b.binary, "binary", "bin/kymogram", "the server")
	flags.IntVar(&b.part, "part", 1, "measure this part of the sizes: 100 to see that it works")
	flags.StringVar(&b.sdks, "sdks", os.Getenv("WANDB_BENCH_SDKS"), "the environments of the SDKs, FOLDER/bin/python each, with commas between")
	flags.StringVar(&b.peer, "peer", os.Getenv("WANDB_BENCH_PEER"), "another server for the same script: a program that takes a port and the file of its log")
	what := flags.String("what", "values,config,upsert,back,runs,long,wide,rate,log", "what is measured")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if b.part < 1 {
		return errors.New("-part is 1 or more")
	}
	all := map[string]func(context.Context) error{
		"values": b.values, "config": b.config, "upsert": b.upsert, "back": b.back, "runs": b.runs, "long": b.long, "wide": b.wide, "rate": b.rate, "log": b.log,
	}
	for name := range strings.SplitSeq(*what, ",") {
		do, ok := all[name]
		if !ok {
			return fmt.Errorf("-what has no %q", name)
		}
		load, err := os.ReadFile("/proc/loadavg")
		if err != nil {
			return fmt.Errorf("read the load: %w", err)
		}
		fmt.Printf("\n## %s (%s UTC, load %s)\n", name, time.Now().UTC().Format("2006-01-02 15:04"), strings.Fields(string(load))[0])
		if err := do(ctx); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// size is a part of a number, at least least.
func (b *bench) size(n, least int) int { return max(n/b.part, least) }

func row(what, format string, args ...any) {
	fmt.Printf("| %s | %s |\n", what, fmt.Sprintf(format, args...))
}

// each is the time that one of n took.
func each(sum time.Duration, n int) string {
	per := float64(sum) / float64(max(n, 1))
	switch {
	case per < 1e4:
		return fmt.Sprintf("%.0f ns", per)
	case per < 1e7:
		return fmt.Sprintf("%.1f µs", per/1e3)
	}
	return fmt.Sprintf("%.1f ms", per/1e6)
}

func mib(bytes int64) string { return fmt.Sprintf("%d MiB", bytes>>20) }
