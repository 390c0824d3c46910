// Command engine measures the server against the targets of docs/benchmarks.md:
// CPU and bytes a point for every protocol, peak memory, and reads. With
// -servers kymogram,victoria-metrics it sends the same points to both in the
// same rounds and prints the ratios.
//
// -what small measures small requests (small.go), -what shapes bytes a point of other
// shapes (shapes.go), -what promql queries (promql.go).
//
// workload.go makes the points, kymogram.go and victoria.go are the servers that can
// be measured, send.go and reads.go what is done to them, report.go the tables.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// options are the flags.
type options struct {
	what       string
	influx     string
	prometheus string
	size       string
	seed       uint64
	rounds     int
	servers    string
	reads      bool
	binary     string
	victoria   string
	folder     string
	protocols  string
	only       string
	times      int
}

func main() {
	if len(os.Args) == 4 && os.Args[1] == serveFloor {
		if err := floorMain(context.Background(), os.Args[2], os.Args[3]); err != nil {
			fmt.Fprintln(os.Stderr, "floor:", err)
			os.Exit(1)
		}
		return
	}
	if err := run(context.Background(), readFlags()); err != nil {
		fmt.Fprintln(os.Stderr, "engine:", err)
		os.Exit(1)
	}
}

func readFlags() (o options) {
	flag.StringVar(&o.what, "what", "ml", "ml: the targets; small: small requests; shapes: bytes a point of what foreign clients send; promql: queries; several with commas")
	flag.StringVar(&o.prometheus, "prometheus", "prometheus", "Prometheus' binary")
	flag.StringVar(&o.influx, "influx", "bin/tools/influxd-1.6", "InfluxDB's binary")
	flag.StringVar(&o.size, "size", "d5", "d1, d5 or d20: 10, 50 or 200 runs; long: one series of 10 M points")
	flag.Uint64Var(&o.seed, "seed", 1, "seed of the workload")
	flag.IntVar(&o.rounds, "rounds", 3, "rounds; figures are medians")
	flag.StringVar(&o.servers, "servers", "kymogram", "what to measure, interleaved: kymogram, victoria-metrics, influxdb, prometheus, floor")
	flag.BoolVar(&o.reads, "reads", true, "measure reads too: 10 M points of one series are written for them")
	flag.StringVar(&o.binary, "kymogram", "bin/kymogram", "binary to measure")
	flag.StringVar(&o.victoria, "victoria", "victoria-metrics", "VictoriaMetrics' binary")
	flag.StringVar(&o.folder, "dir", "", "folder for the servers' data; default a temporary one")
	flag.StringVar(&o.protocols, "protocols", "line protocol,remote write,native", "which to measure")
	flag.IntVar(&o.times, "times", 1, "send so many times the small requests")
	flag.StringVar(&o.only, "only", "", "of the small requests, those whose name has this text")
	flag.Parse()
	return o
}

func run(ctx context.Context, o options) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	if sizes[o.size] == 0 {
		return fmt.Errorf("there is no size %q: d1, d5, d20 or long", o.size)
	}
	folder, err := os.MkdirTemp(o.folder, "kymogram-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	o.folder = folder
	for _, what := range strings.Split(o.what, ",") {
		if err := measure(ctx, o, what); err != nil {
			return err
		}
	}
	return nil
}

func measure(ctx context.Context, o options, what string) error {
	switch what {
	case "ml":
		return mlRounds(ctx, o)
	case "small":
		return smallRounds(ctx, o, os.Stdout)
	case "shapes":
		return shapeRounds(ctx, o, os.Stdout)
	case "promql":
		return promqlRounds(ctx, o, os.Stdout)
	}
	return fmt.Errorf("there is nothing %q to measure: ml, small, shapes or promql", what)
}

func mlRounds(ctx context.Context, o options) error {
	r := &report{options: o}
	if err := ingestRounds(ctx, o, r); err != nil {
		return err
	}
	if o.reads {
		if err := readRounds(ctx, o, r); err != nil {
			return err
		}
	}
	return r.print(os.Stdout)
}

const (
	victoriaName   = "victoria-metrics"
	influxName     = "influxdb"
	prometheusName = "prometheus"
	floorName      = "floor"
)

// server is what both sides can do.
type server interface { //nolint:interfacebloat // all that the rounds do with a server, in their order
	name() string
	boot(ctx context.Context) error
	target(p protocol) target
	bytesAtRest() (int64, error)
	queries(ctx context.Context) (map[string]func(context.Context) error, error)
	ready() error
	cpu() (time.Duration, error)
	stop() (time.Duration, error)
	memory() (int64, error)
	kill()
}

func newServer(name, folder string, o options) server {
	switch name {
	case victoriaName:
		return &victoria{binary: o.victoria, folder: folder}
	case prometheusName:
		return &prometheus{binary: o.prometheus, folder: folder}
	case floorName:
		return &floor{folder: folder}
	case influxName:
		return &influx{binary: o.influx, folder: folder}
	}
	return &kymogram{binary: o.binary, folder: folder}
}

// ingestRounds sends the workload by every protocol to every server, one after
// the other, as often as asked.
func ingestRounds(ctx context.Context, o options, r *report) error {
	for round := range o.rounds {
		for _, p := range strings.Split(o.protocols, ",") {
			names := strings.Split(o.servers, ",")
			if round%2 == 1 { // neither side always comes first
				slices.Reverse(names)
			}
			for _, name := range names {
				if protocol(p) == nativeProtocol && name != "kymogram" {
					continue
				}
				folder := filepath.Join(o.folder, fmt.Sprint(name, round, len(p)))
				if err := ingestOnce(ctx, newServer(name, folder, o), protocol(p), folder, r); err != nil {
					return fmt.Errorf("%s, %s: %w", name, p, err)
				}
			}
		}
	}
	return nil
}

func ingestOnce(ctx context.Context, s server, p protocol, folder string, r *report) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	if err := s.boot(ctx); err != nil {
		return err
	}
	defer s.kill()
	gens, rows := workload(r.size, r.seed)
	start := time.Now()
	points, err := send(ctx, s.target(p), p, gens, rows)
	if err != nil {
		return err
	}
	wall := time.Since(start)
	peak, err := s.memory()
	if err != nil {
		return err
	}
	cpu, err := s.stop()
	if err != nil {
		return err
	}
	size, err := s.bytesAtRest()
	if err != nil {
		return err
	}
	r.add(s.name(), string(p), ingestFigures{
		cpuNs: float64(cpu) / float64(points), bytes: float64(size) / float64(points), peak: float64(peak) / (1 << 20), rate: float64(points) / wall.Seconds(),
	})
	return nil
}
