package main

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// The workload "ML run" (docs/benchmarks.md): runs × 50 series × 2,000 steps.
const (
	seriesPerRun = 50
	stepsPerRun  = 2_000
	longPoints   = 10_000_000
	firstMs      = 1_700_000_000_000
	stepMs       = 1_000
	jitterMs     = 15
)

// Sizes of the benchmark by name: how many runs, but for long, which is one
// series of longPoints.
var sizes = map[string]int{"d1": 10, "d5": 50, "d20": 200, sizeLong: 1} //nolint:gochecknoglobals // a table of constants

const sizeLong = "long"

// workload is the generators of a size, and how many rows of theirs make a
// request of 10,000 points.
func workload(size string, seed uint64) (gens []*generator, rows int) {
	if size == sizeLong {
		return []*generator{longGenerator(seed, longPoints)}, blockRows * seriesPerRun
	}
	for run := range sizes[size] {
		gens = append(gens, newGenerator(seed, run))
	}
	return gens, blockRows
}

// block is consecutive log calls of one run: the unit of a request. Every
// protocol sends the same blocks.
type block struct {
	run     string
	first   int // step
	timeNs  []int64
	names   []string
	columns [][]float64 // by series
}

func (b *block) points() int { return len(b.timeNs) * len(b.columns) }

// generator makes the blocks of one run, the same for the same seed.
type generator struct {
	random *rand.Rand
	run    string
	names  []string
	step   int
	steps  int
	ms     int64
	level  [seriesPerRun]float64
}

func newGenerator(seed uint64, run int) *generator {
	g := &generator{random: rand.New(rand.NewPCG(seed, uint64(run))), run: fmt.Sprintf("run-%04d", run), steps: stepsPerRun}
	g.ms = firstMs + int64(g.random.IntN(stepMs))
	for i := range seriesPerRun {
		g.names = append(g.names, seriesName(i))
		g.level[i] = 1 + 3*g.random.Float64()
	}
	return g
}

func seriesName(i int) string {
	switch {
	case i < 15:
		return fmt.Sprintf("loss_%02d", i)
	case i < 20:
		return fmt.Sprintf("lr_%02d", i)
	case i < 28:
		return fmt.Sprintf("tokens_%02d", i)
	case i < 40:
		return fmt.Sprintf("grad_norm_%02d", i)
	case i < 44:
		return fmt.Sprintf("config_%02d", i)
	}
	return fmt.Sprintf("accuracy_%02d", i)
}

// next is the next block of at most rows calls, nil at the end of the run.
func (g *generator) next(rows int) *block {
	rows = min(rows, g.steps-g.step)
	if rows <= 0 {
		return nil
	}
	b := &block{run: g.run, first: g.step, names: g.names, columns: make([][]float64, len(g.names))}
	for i := range b.columns {
		b.columns[i] = make([]float64, rows)
	}
	for row := range rows {
		g.ms += stepMs + int64(math.Round(jitterMs*g.random.NormFloat64()))
		b.timeNs = append(b.timeNs, g.ms*1_000_000)
		for i := range b.columns {
			b.columns[i][row] = g.value(i, g.step+row)
		}
	}
	g.step += rows
	return b
}

func (g *generator) value(i, step int) float64 {
	switch {
	case i < 15: // a random walk and 5 % of noise
		g.level[i] *= 1 + 0.01*g.random.NormFloat64()
		return g.level[i] * (1 + 0.05*g.random.NormFloat64())
	case i < 20: // cosine schedule
		return float64(i) * 1e-4 * 0.5 * (1 + math.Cos(math.Pi*float64(step)/float64(g.steps)))
	case i < 28:
		return float64(step * (i - 19) * 64)
	case i < 40: // log-normal, as a float32
		g.level[i] = 0.95*g.level[i] + 0.2*g.random.NormFloat64()
		return float64(float32(math.Exp(g.level[i])))
	case i < 44:
		return float64(i) / 8
	}
	return math.Round(1e4*(0.5+0.02*g.random.NormFloat64())) / 1e4
}

// longGenerator is one series of a noisy loss.
func longGenerator(seed uint64, points int) *generator {
	g := newGenerator(seed, 1<<20)
	g.run, g.names, g.steps = "long", g.names[:1], points
	return g
}

// wideGenerator is one run of many series with few points each.
func wideGenerator(seed uint64, series, points int) *generator {
	g := newGenerator(seed, 1<<21)
	g.run, g.steps, g.names = "wide", points, nil
	for i := range series {
		g.names = append(g.names, fmt.Sprintf("metric_%05d", i))
	}
	return g
}
