package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/sync/errgroup"
)

// small is what nodes send between two flushes: few points a request, with the tags of
// Templar's MetricsLogger. A point is a value. Each node has a connection of its own and
// sends its next request when the last one is answered. Other shapes of foreign clients
// (requests.go) are measured in the same way.
type small struct {
	name          string
	protocol      protocol
	lines, fields int // of a request
	nodes         int
	requests      int     // of all nodes
	goal          float64 // our CPU by VictoriaMetrics', at most; 0 without one
	memory        float64 // our peak by VictoriaMetrics', at most; 0 without one
	write         lineWriter
}

// The names by which -only finds what is no small request.
const (
	shortRuns = "short runs: 50 series of 5 points each"
	wideRows  = "rows of 20,000 series"
	longLines = "one long series, 10,000 lines"
)

func smalls() []small {
	return []small{
		{"1 point", linesProtocol, 1, 1, 4, 8_000, 0, 0, taggedLines},
		{"20 points, 1 line", linesProtocol, 1, 20, 4, 8_000, 0, 0, taggedLines},
		{"50 points, 1 line", linesProtocol, 1, 50, 4, 8_000, 1.5, 0, taggedLines},
		{"50 points, 1 line, 16 nodes", linesProtocol, 1, 50, 16, 8_000, 1, 0, taggedLines},
		{"50 points, 50 lines", linesProtocol, 50, 1, 4, 8_000, 0, 0, taggedLines},
		{"200 points, 200 lines", linesProtocol, 200, 1, 4, 4_000, 0.6, 0, taggedLines},
		{"500 points, 10 lines", linesProtocol, 10, 50, 4, 2_000, 0.6, 0, taggedLines},
		{"50 points, remote write", remoteProtocol, 1, 50, 4, 8_000, 1.5, 0, nil},
		{"50 points, remote write, 16 nodes", remoteProtocol, 1, 50, 16, 8_000, 1, 0, nil},
		{shortRuns, linesProtocol, 5, 50, 4, 4_000, 0.7, 0.5, runLines},
		{wideRows + ", 2 lines", linesProtocol, 2, 10_000, 1, 100, 0.6, 0, wideLines},
		{wideRows + ", remote write", remoteProtocol, 1, 20_000, 1, 100, 0.6, 0, nil},
		{longLines, linesProtocol, 10_000, 1, 1, 200, 0.4, 0, longSeries},
	}
}

// figures are of one server and one kind of request.
type figures struct {
	cpu   []float64 // µs a request
	rate  []float64 // requests a second
	peak  []float64 // MiB
	bytes []float64 // a point, at rest
}

// smallRounds measures each kind of request on each server: a fresh one, a run of it that is
// not counted, then the requests.
func smallRounds(ctx context.Context, o options, to io.Writer) error {
	names, kinds := strings.Split(o.servers, ","), smalls()
	kinds = slices.DeleteFunc(kinds, func(k small) bool { return !strings.Contains(k.name, o.only) })
	all := map[[2]string]*figures{} // by kind and server
	for round := range o.rounds {
		for _, kind := range kinds {
			turn := slices.Clone(names)
			if round%2 == 1 { // neither side always comes first
				slices.Reverse(turn)
			}
			for _, name := range turn {
				if name == influxName && !kind.suits(influxName) {
					continue
				}
				at := [2]string{kind.name, name}
				if all[at] == nil {
					all[at] = &figures{}
				}
				folder := filepath.Join(o.folder, fmt.Sprint("small-", name, round))
				if err := kind.once(ctx, newServer(name, folder, o), folder, o, all[at]); err != nil {
					return fmt.Errorf("%s, %s: %w", name, kind.name, err)
				}
			}
		}
	}
	return smallTable(names, kinds, all, to)
}

func smallTable(names []string, kinds []small, all map[[2]string]*figures, to io.Writer) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "a request of\tserver\tCPU µs/request\tCPU µs/point\trequests/s\tpeak MiB\tbytes/point\tours is × theirs: CPU\tgoal\tmemory\tgoal\n")
	for _, kind := range kinds {
		ours := all[[2]string{kind.name, "kymogram"}]
		for _, name := range names {
			f := all[[2]string{kind.name, name}]
			if f == nil {
				continue
			}
			each, peak := median(f.cpu), median(f.peak)
			fmt.Fprintf(w, "%s\t%s\t%.0f\t%.2f\t%.0f\t%.0f\t%.2f", kind.name, name, each, each/float64(kind.points()), median(f.rate), peak, median(f.bytes))
			if ours != nil {
				fmt.Fprintf(w, "\t%.2f\t%s", median(ours.cpu)/each, verdict(name, median(ours.cpu)/each, kind.goal))
				fmt.Fprintf(w, "\t%.2f\t%s", median(ours.peak)/peak, verdict(name, median(ours.peak)/peak, kind.memory))
			}
			fmt.Fprintln(w)
		}
	}
	return w.Flush()
}

// points are those of a request.
func (k small) points() int { return k.lines * k.fields }

// suits is false for what InfluxDB is not measured with.
func (k small) suits(server string) bool {
	return server != influxName || k.protocol == linesProtocol && k.memory == 0 && k.points() < 10_000
}

// verdict says beside VictoriaMetrics whether the goal is met.
func verdict(beside string, ratio, goal float64) string {
	switch {
	case beside != victoriaName || goal == 0:
		return ""
	case ratio <= goal:
		return fmt.Sprintf("%.1f met", goal)
	}
	return fmt.Sprintf("%.1f missed", goal)
}

// once adds the figures of one round.
func (k small) once(ctx context.Context, s server, folder string, o options, to *figures) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	if err := s.boot(ctx); err != nil {
		return err
	}
	defer s.kill()
	at, each := s.target(k.protocol), o.times*k.requests/k.nodes
	warm := min(20, max(1, each/20))
	if err := k.send(ctx, at, o.seed, 0, warm); err != nil {
		return err
	}
	if err := s.ready(); err != nil {
		return err
	}
	start := time.Now()
	if err := k.send(ctx, at, o.seed, warm, each); err != nil {
		return err
	}
	took := time.Since(start)
	peak, err := s.memory()
	if err != nil {
		return err
	}
	cpu, err := s.stop()
	if err != nil {
		return err
	}
	size, err := s.bytesAtRest()
	n := float64(each * k.nodes)
	to.cpu, to.rate = append(to.cpu, float64(cpu.Microseconds())/n), append(to.rate, n/took.Seconds())
	to.peak = append(to.peak, float64(peak)/(1<<20))
	to.bytes = append(to.bytes, float64(size)/float64((each+warm)*k.nodes*k.points()))
	return err
}

func (k small) send(ctx context.Context, to target, seed uint64, from, count int) error {
	group, ctx := errgroup.WithContext(ctx)
	for node := range k.nodes {
		group.Go(func() error {
			random := rand.New(rand.NewPCG(seed<<32|uint64(node), uint64(from)))
			var body, scratch []byte
			for i := range count {
				if k.protocol == remoteProtocol {
					body, scratch = remoteBody(scratch, k.block(node, from+i, random))
				} else {
					body = k.write(body[:0], &k, node, from+i, random)
				}
				if err := post(ctx, to, body); err != nil {
					return errors.Join(err, ctx.Err())
				}
			}
			return nil
		})
	}
	return group.Wait()
}
