// Package bridge takes metrics that a program already has, of a Prometheus registry or of
// expvar, into a run.
//
//	stop := bridge.Start(ctx, run, bridge.Options{Interval: 10 * time.Second},
//		bridge.Prometheus(prometheus.DefaultGatherer), bridge.Expvar())
//	defer stop()
//
// In go sources, out come points of series by time. A sample is taken at once, then each
// interval, and once more at the end. Start with [Start].
package bridge

import (
	"cmp"
	"context"
	"encoding/json"
	"expvar"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/kymogram/kymogram"
)

const usualInterval = 15 * time.Second

// Source gives the metrics as they are now. What it gives beside an error is logged.
type Source func() ([]kymogram.Point, error)

// Options are details of a bridge.
type Options struct {
	// Interval is the time between two samples; 15 s when 0.
	Interval time.Duration
	// Name maps a metric's name to that in the run; "" leaves the metric out. Nil keeps all.
	Name func(string) string
	// Labels are added to each series.
	Labels map[string]string
}

// Start samples the sources until ctx ends or stop is called. Stop takes a last sample,
// waits for the bridge to end, and returns the first error with the number of those that
// followed it. Call it before the run is closed.
func Start(ctx context.Context, run *kymogram.Run, opts Options, sources ...Source) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	b := &bridge{run: run, opts: opts, sources: sources}
	var ended sync.WaitGroup
	ended.Go(func() { b.loop(ctx) })
	return sync.OnceValue(func() error {
		cancel()
		ended.Wait()
		if b.more > 0 {
			return fmt.Errorf("%w (and %d more errors)", b.first, b.more)
		}
		return b.first
	})
}

type bridge struct {
	run     *kymogram.Run
	opts    Options
	sources []Source
	first   error
	more    int
}

func (b *bridge) loop(ctx context.Context) {
	ticker := time.NewTicker(cmp.Or(max(b.opts.Interval, 0), usualInterval))
	defer ticker.Stop()
	for {
		b.sample(time.Now())
		select {
		case <-ctx.Done():
			b.sample(time.Now())
			return
		case <-ticker.C:
		}
	}
}

func (b *bridge) sample(now time.Time) {
	for _, source := range b.sources {
		points, err := source()
		b.note(err)
		for _, p := range points {
			if p.Fields = b.renamed(p.Fields); len(p.Fields) == 0 {
				continue
			}
			if len(b.opts.Labels) > 0 {
				labels := maps.Clone(b.opts.Labels)
				maps.Copy(labels, p.Labels)
				p.Labels = labels
			}
			p.Time = now
			b.note(b.run.LogPoint(p))
		}
	}
}

func (b *bridge) renamed(fields []kymogram.Field) []kymogram.Field {
	if b.opts.Name == nil {
		return fields
	}
	for i := range fields {
		fields[i].Metric = b.opts.Name(fields[i].Metric)
	}
	return slices.DeleteFunc(fields, func(f kymogram.Field) bool { return f.Metric == "" })
}

func (b *bridge) note(err error) {
	switch {
	case err == nil:
	case b.first == nil:
		b.first = err
	default:
		b.more++
	}
}

// Prometheus reads a registry. Counters and gauges keep their names; histograms and
// summaries become NAME_count, NAME_sum, NAME_bucket with the label le, and NAME with the
// label quantile, as in Prometheus' text format.
func Prometheus(from prometheus.Gatherer) Source {
	return func() (out []kymogram.Point, err error) {
		families, err := from.Gather()
		for _, family := range families {
			for _, m := range family.GetMetric() {
				out = append(out, pointsOf(family.GetName(), m)...)
			}
		}
		if err != nil {
			return out, fmt.Errorf("gather metrics: %w", err)
		}
		return out, nil
	}
}

func pointsOf(name string, m *dto.Metric) (out []kymogram.Point) {
	labels := map[string]string{}
	for _, pair := range m.GetLabel() {
		labels[pair.GetName()] = pair.GetValue()
	}
	add := func(name string, value float64, more ...string) {
		own := labels
		if len(more) == 2 {
			own = maps.Clone(labels)
			own[more[0]] = more[1]
		}
		out = append(out, kymogram.Point{Fields: []kymogram.Field{{Metric: name, Value: value}}, Labels: own})
	}
	switch {
	case m.Counter != nil:
		add(name, m.Counter.GetValue())
	case m.Gauge != nil:
		add(name, m.Gauge.GetValue())
	case m.Untyped != nil:
		add(name, m.Untyped.GetValue())
	case m.Summary != nil:
		for _, q := range m.Summary.GetQuantile() {
			add(name, q.GetValue(), "quantile", strconv.FormatFloat(q.GetQuantile(), 'g', -1, 64))
		}
		add(name+"_sum", m.Summary.GetSampleSum())
		add(name+"_count", float64(m.Summary.GetSampleCount()))
	case m.Histogram != nil:
		for _, bucket := range m.Histogram.GetBucket() {
			add(name+"_bucket", float64(bucket.GetCumulativeCount()), "le", strconv.FormatFloat(bucket.GetUpperBound(), 'g', -1, 64))
		}
		add(name+"_sum", m.Histogram.GetSampleSum())
		add(name+"_count", float64(m.Histogram.GetSampleCount()))
	}
	return out
}

// Expvar reads the program's exported variables: each number in their JSON is a metric,
// named by its keys, as memstats/HeapAlloc. Lists and texts are left out.
func Expvar() Source {
	return func() (out []kymogram.Point, err error) {
		var p kymogram.Point
		expvar.Do(func(v expvar.KeyValue) {
			var doc any
			if json.Unmarshal([]byte(v.Value.String()), &doc) == nil { // a variable of no JSON has no numbers
				flatten(&p, v.Key, doc)
			}
		})
		return []kymogram.Point{p}, nil
	}
}

func flatten(p *kymogram.Point, name string, doc any) {
	switch v := doc.(type) {
	case float64:
		p.Fields = append(p.Fields, kymogram.Field{Metric: name, Value: v})
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			flatten(p, name+"/"+key, v[key])
		}
	}
}
