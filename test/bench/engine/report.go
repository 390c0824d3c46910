package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// ingestFigures are of one round.
type ingestFigures struct {
	cpuNs, bytes, peak, rate float64
}

// readFigures are of one query in one round, in ms.
type readFigures struct {
	p50, cpu float64
}

// report collects the rounds.
type report struct {
	options
	ingest map[[2]string][]ingestFigures // by server and protocol
	reads  map[[2]string][]readFigures   // by server and query
}

func (r *report) add(server, protocol string, f ingestFigures) {
	if r.ingest == nil {
		r.ingest = map[[2]string][]ingestFigures{}
	}
	key := [2]string{server, protocol}
	r.ingest[key] = append(r.ingest[key], f)
}

func (r *report) addRead(server, query string, f readFigures) {
	if r.reads == nil {
		r.reads = map[[2]string][]readFigures{}
	}
	key := [2]string{server, query}
	r.reads[key] = append(r.reads[key], f)
}

// read is the median of the rounds, 0 where nothing was measured.
func (r *report) read(server, query string, of func(readFigures) float64) float64 {
	var values []float64
	for _, f := range r.reads[[2]string{server, query}] {
		values = append(values, of(f))
	}
	if len(values) == 0 {
		return 0
	}
	return median(values)
}

func median(values []float64) float64 {
	values = slices.Sorted(slices.Values(values))
	return values[len(values)/2]
}

func (r *report) figure(server, protocol string, of func(ingestFigures) float64) float64 {
	var values []float64
	for _, f := range r.ingest[[2]string{server, protocol}] {
		values = append(values, of(f))
	}
	if len(values) == 0 {
		return 0
	}
	return median(values)
}

// print writes the tables.
func (r *report) print(to io.Writer) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "size %s, seed %d, medians of %d rounds\n\n", r.size, r.seed, r.rounds)
	fmt.Fprintln(w, "server\tprotocol\tCPU ns/point\tbytes/point\tpeak MiB\tpoints/s")
	for _, key := range slices.SortedFunc(maps.Keys(r.ingest), func(a, b [2]string) int { return strings.Compare(a[1]+a[0], b[1]+b[0]) }) {
		figure := func(of func(ingestFigures) float64) float64 { return r.figure(key[0], key[1], of) }
		fmt.Fprintf(w, "%s\t%s\t%.1f\t%.3f\t%.0f\t%.0f\n", key[0], key[1],
			figure(cpuOf), figure(func(f ingestFigures) float64 { return f.bytes }), figure(peakOf), figure(func(f ingestFigures) float64 { return f.rate }))
	}
	if len(r.reads) > 0 {
		fmt.Fprintln(w, "\nserver\tread\tp50 ms\tCPU ms")
		for _, key := range slices.SortedFunc(maps.Keys(r.reads), func(a, b [2]string) int { return strings.Compare(a[1]+a[0], b[1]+b[0]) }) {
			fmt.Fprintf(w, "%s\t%s\t%.2f\t%.2f\n", key[0], key[1], r.read(key[0], key[1], p50Of), r.read(key[0], key[1], readCPU))
		}
	}
	if r.size != sizeLong { // they are of runs
		r.targets(w)
	}
	return w.Flush()
}

func cpuOf(f ingestFigures) float64  { return f.cpuNs }
func peakOf(f ingestFigures) float64 { return f.peak }
func p50Of(f readFigures) float64    { return f.p50 }
func readCPU(f readFigures) float64  { return f.cpu }

// targets are those of docs/benchmarks.md against Debian's VictoriaMetrics 1.79.5.
func (r *report) targets(w io.Writer) {
	fmt.Fprintln(w, "\ntarget\tmeasured\tat most\t")
	line := func(what string, measured, most float64) {
		if measured == 0 {
			return
		}
		verdict := "reached"
		if measured > most {
			verdict = "MISSED"
		}
		fmt.Fprintf(w, "%s\t%.3f\t%.3f\t%s\n", what, measured, most, verdict)
	}
	for _, p := range []protocol{linesProtocol, remoteProtocol, nativeProtocol} {
		line("bytes a point, "+string(p), r.figure("kymogram", string(p), func(f ingestFigures) float64 { return f.bytes }), 3.4)
	}
	r.readTargets(line)
	const peer = "victoria-metrics"
	ratio := func(p, of protocol) float64 {
		theirs := r.figure(peer, string(of), cpuOf)
		if theirs == 0 {
			return 0
		}
		return r.figure("kymogram", string(p), cpuOf) / theirs
	}
	line("CPU, line protocol / theirs", ratio(linesProtocol, linesProtocol), 0.38)
	line("CPU, remote write / theirs", ratio(remoteProtocol, remoteProtocol), 0.4)
	best := linesProtocol
	if r.figure(peer, string(remoteProtocol), cpuOf) < r.figure(peer, string(linesProtocol), cpuOf) {
		best = remoteProtocol
	}
	line("CPU, native / their best, "+string(best), ratio(nativeProtocol, best), 0.22)
	for _, p := range []protocol{linesProtocol, remoteProtocol} {
		if theirs := r.figure(peer, string(p), peakOf); theirs > 0 {
			line("peak memory, "+string(p)+" / theirs", r.figure("kymogram", string(p), peakOf)/theirs, 0.5)
		}
	}
}

func (r *report) readTargets(line func(what string, measured, most float64)) {
	ours := func(query string) float64 { return r.read("kymogram", query, p50Of) }
	line("ms, "+queryLong, ours(queryLong), 5)
	line("ms, "+querySeries, ours(querySeries), 2)
	line("ms, "+queryLast, ours(queryLast), 5)
	if theirs := r.read(victoriaName, queryLong, p50Of); theirs > 0 {
		line(queryLong+" / theirs", ours(queryLong)/theirs, 0.1)
	}
	if theirs := r.read(victoriaName, querySeries, p50Of); theirs > 0 {
		line(querySeries+" / theirs", ours(querySeries)/theirs, 1)
		line(querySeries+" / theirs, CPU", r.read("kymogram", querySeries, readCPU)/r.read(victoriaName, querySeries, readCPU), 1)
	}
}
