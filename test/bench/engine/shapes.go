package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
)

// shape is points as foreign clients send them. A request is its lines in their order.
type shape struct {
	name   string
	run    int // of the generator: each shape has another
	series int // of the workload's 50
	calls  int // log calls, each a value of every series
	lines  int // of a request
	times  func(r *rand.Rand, call []int64, series int) []int64
	most   float64 // bytes a point that ours should take
}

// shapes have about a million points each. What differs is the times, in ns.
func shapes() []shape {
	return []shape{
		{"lone series, ms times", 1 << 22, 1, 1_000_000, 10_000, ofCalls, 6.5},
		{"lone series, random times", 1<<22 + 1, 1, 1_000_000, 10_000, anyTimes, 10.5},
		{"one metric a line, ms times", 1<<22 + 2, seriesPerRun, 20_000, 200, ofCalls, 5.5},
		{"one metric a line, ms times of its own", 1<<22 + 3, seriesPerRun, 20_000, 200, ownTimes(1_000_000), 5.5},
		{"one metric a line, ns times", 1<<22 + 4, seriesPerRun, 20_000, 200, ownTimes(1), 6},
	}
}

// ofCalls gives every line of a log call its time.
func ofCalls(_ *rand.Rand, call []int64, series int) (out []int64) {
	for _, t := range call {
		for range series {
			out = append(out, t)
		}
	}
	return out
}

// ownTimes are those of a client that reads the clock for each line: some µs apart.
func ownTimes(unit int64) func(*rand.Rand, []int64, int) []int64 {
	return func(r *rand.Rand, call []int64, series int) (out []int64) {
		for _, t := range call {
			t += r.Int64N(1_000_000)
			for range series {
				out = append(out, t/unit*unit)
				t += 3_000 + int64(2_000*r.ExpFloat64())
			}
		}
		return out
	}
}

// anyTimes are milliseconds of ten years, in no order.
func anyTimes(r *rand.Rand, call []int64, series int) (out []int64) {
	for range len(call) * series {
		out = append(out, (firstMs-r.Int64N(10*365*86_400_000))*1_000_000)
	}
	return out
}

// shapeRounds prints bytes a point of each shape on each server.
func shapeRounds(ctx context.Context, o options, to io.Writer) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	names := strings.Split(o.servers, ",")
	fmt.Fprintf(w, "bytes a point, seed %d\t%s\tat most\t\n", o.seed, strings.Join(names, "\t"))
	for _, s := range shapes() {
		fmt.Fprint(w, s.name)
		verdict := ""
		for _, name := range names {
			size, err := s.once(ctx, o, name)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", name, s.name, err)
			}
			fmt.Fprintf(w, "\t%.2f", size)
			if name != "kymogram" {
				continue
			}
			if verdict = "reached"; size > s.most {
				verdict = "MISSED"
			}
		}
		fmt.Fprintf(w, "\t%.1f\t%s\n", s.most, verdict)
	}
	return w.Flush()
}

func (s shape) once(ctx context.Context, o options, name string) (float64, error) {
	folder := filepath.Join(o.folder, "shape-"+name)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return 0, err
	}
	defer os.RemoveAll(folder)
	server := newServer(name, folder, o)
	if err := server.boot(ctx); err != nil {
		return 0, err
	}
	defer server.kill()
	if err := s.send(ctx, server.target(linesProtocol), o.seed); err != nil {
		return 0, err
	}
	if _, err := server.stop(); err != nil {
		return 0, err
	}
	size, err := server.bytesAtRest()
	return float64(size) / float64(s.calls*s.series), err
}

func (s shape) send(ctx context.Context, to target, seed uint64) error {
	g := newGenerator(seed, s.run)
	g.names, g.steps = g.names[:s.series], s.calls
	random := rand.New(rand.NewPCG(seed, uint64(s.run)+1<<32))
	var body []byte
	for b := g.next(s.lines / s.series); b != nil; b = g.next(s.lines / s.series) {
		body = singleLines(body[:0], b, s.times(random, b.timeNs, len(b.names)))
		if err := post(ctx, to, body); err != nil {
			return err
		}
	}
	return nil
}
