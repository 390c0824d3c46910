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
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/sync/errgroup"
)

// small is what nodes send between two flushes: few points a request, with the tags of
// Templar's MetricsLogger. A point is a value. Each node has a connection of its own and
// sends its next request when the last one is answered.
type small struct {
	name          string
	protocol      protocol
	lines, fields int // of a request
	nodes         int
	requests      int     // of all nodes
	goal          float64 // our CPU by VictoriaMetrics', at most; 0 without one
}

func smalls() []small {
	return []small{
		{"1 point", linesProtocol, 1, 1, 4, 8_000, 0},
		{"20 points, 1 line", linesProtocol, 1, 20, 4, 8_000, 0},
		{"50 points, 1 line", linesProtocol, 1, 50, 4, 8_000, 1.5},
		{"50 points, 1 line, 16 nodes", linesProtocol, 1, 50, 16, 8_000, 1},
		{"50 points, 50 lines", linesProtocol, 50, 1, 4, 8_000, 0},
		{"200 points, 200 lines", linesProtocol, 200, 1, 4, 4_000, 0.6},
		{"500 points, 10 lines", linesProtocol, 10, 50, 4, 2_000, 0.6},
		{"50 points, remote write", remoteProtocol, 1, 50, 4, 8_000, 1.5},
		{"50 points, remote write, 16 nodes", remoteProtocol, 1, 50, 16, 8_000, 1},
	}
}

// smallRounds measures each kind of request on each server: a fresh one, a run of it that is
// not counted, then the requests.
func smallRounds(ctx context.Context, o options, to io.Writer) error {
	type key struct{ kind, server string }
	cpu, wall := map[key][]float64{}, map[key][]float64{}
	names, kinds := strings.Split(o.servers, ","), smalls()
	kinds = slices.DeleteFunc(kinds, func(k small) bool { return !strings.Contains(k.name, o.only) })
	for round := range o.rounds {
		for _, kind := range kinds {
			turn := slices.Clone(names)
			if round%2 == 1 { // neither side always comes first
				slices.Reverse(turn)
			}
			for _, name := range turn {
				if name == influxName && kind.protocol == remoteProtocol {
					continue
				}
				folder := filepath.Join(o.folder, fmt.Sprint("small-", name, round))
				c, w, err := kind.once(ctx, newServer(name, folder, o), folder, o)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", name, kind.name, err)
				}
				cpu[key{kind.name, name}] = append(cpu[key{kind.name, name}], c)
				wall[key{kind.name, name}] = append(wall[key{kind.name, name}], w)
			}
		}
	}
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "a request of\tserver\tCPU µs/request\tCPU µs/point\trequests/s\tours is × theirs\tgoal\n")
	for _, kind := range kinds {
		ours := 0.0
		if v := cpu[key{kind.name, "kymogram"}]; len(v) > 0 {
			ours = median(v)
		}
		for _, name := range names {
			at := key{kind.name, name}
			if len(cpu[at]) == 0 {
				continue
			}
			each := median(cpu[at])
			fmt.Fprintf(w, "%s\t%s\t%.0f\t%.2f\t%.0f\t%.2f\t%s\n", kind.name, name, each, each/float64(kind.lines*kind.fields), median(wall[at]), ours/each, kind.verdict(name, ours/each))
		}
	}
	return w.Flush()
}

// verdict says beside VictoriaMetrics whether the goal is met.
func (k small) verdict(beside string, ratio float64) string {
	switch {
	case beside != victoriaName || k.goal == 0 || ratio == 0:
		return ""
	case ratio <= k.goal:
		return fmt.Sprintf("%.1f met", k.goal)
	}
	return fmt.Sprintf("%.1f missed", k.goal)
}

// once is µs of CPU a request, and requests a second.
func (k small) once(ctx context.Context, s server, folder string, o options) (cpu, rate float64, err error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return 0, 0, err
	}
	defer os.RemoveAll(folder)
	if err := s.boot(ctx); err != nil {
		return 0, 0, err
	}
	defer s.kill()
	to := s.target(k.protocol)
	if err := k.send(ctx, to, o.seed, 0, 20); err != nil {
		return 0, 0, err
	}
	if err := s.ready(); err != nil {
		return 0, 0, err
	}
	start, each := time.Now(), o.times*k.requests/k.nodes
	if err := k.send(ctx, to, o.seed, 20, each); err != nil {
		return 0, 0, err
	}
	took := time.Since(start)
	all, err := s.stop()
	n := float64(each * k.nodes)
	return float64(all.Microseconds()) / n, n / took.Seconds(), err
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
					body = k.body(body[:0], node, from+i, random)
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

// block is the request as a scrape of that many series.
func (k small) block(node, request int, random *rand.Rand) *block {
	b := &block{run: fmt.Sprint("node-", node), timeNs: []int64{firstMs*1_000_000 + int64(request)*1_000_000_000}}
	for i := range k.fields {
		b.names = append(b.names, "metric_"+strconv.Itoa(i))
		b.columns = append(b.columns, []float64{2 + random.NormFloat64()})
	}
	return b
}

// body is the request's lines, as influxdb-client writes them: tags by name, a time in ns.
func (k small) body(dst []byte, node, request int, random *rand.Rand) []byte {
	for line := range k.lines {
		dst = append(dst, "Mtraining_step_v2,config_device=cuda:0,config_netuid=3,group=miner,job_type=mining,prefix=M,role=miner,runtime_id=5f1c0b9a2e7d4638,uid="...)
		dst = strconv.AppendInt(dst, int64(node), 10)
		dst = append(dst, ",version=2.1.3 "...)
		for field := range k.fields {
			if field > 0 {
				dst = append(dst, ',')
			}
			dst = append(dst, "metric_"...)
			if k.fields == 1 && k.lines > 1 { // a metric a line
				dst = strconv.AppendInt(dst, int64(line), 10)
			} else {
				dst = strconv.AppendInt(dst, int64(field), 10)
			}
			dst = append(dst, '=')
			dst = strconv.AppendFloat(dst, 2+random.NormFloat64(), 'g', -1, 64)
		}
		dst = append(dst, ' ')
		dst = strconv.AppendInt(dst, firstMs*1_000_000+int64(request)*1_000_000_000+int64(line)*1_000_000, 10)
		dst = append(dst, '\n')
	}
	return dst
}
