package expose

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/spool"
	"github.com/kymogram/kymogram/metrics"
)

// every is how old what a scrape gets of a program's metrics may be.
const every = 250 * time.Millisecond

// Exposer reads the spool beside the uplink and exposes the groups that a person
// chose. What a writer logged before this agent began only tells where its gauges
// stand: counters begin at zero, so that a restart counts nothing twice.
type Exposer struct {
	folder  *spool.Folder
	groups  []string
	to      *metrics.Exposition
	log     *slog.Logger
	dropped prometheus.Counter

	mu    sync.Mutex
	tails map[model.WriterID]*reading
}

// reading is how far one writer was read.
type reading struct {
	*spool.Tail
	id     model.WriterID
	before bool // the records are of before this agent began
	known  map[uint32]public
}

// public is the metric behind a series; ok when its group is public.
type public struct {
	group, name string
	ok          bool
}

// New reads what is in the folder already; to takes what the groups hold.
func New(folder *spool.Folder, groups []string, to *metrics.Exposition, log *slog.Logger) (*Exposer, error) {
	x := &Exposer{
		folder: folder, groups: groups, to: to, log: log, tails: map[model.WriterID]*reading{},
		dropped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "kymogram_agent_expose_dropped_total", Help: "Values of public groups that cannot be exposed.",
		}),
	}
	ids, err := folder.Writers()
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		x.read(id, true)
	}
	return x, nil
}

// Run reads what is new until ctx ends.
func (x *Exposer) Run(ctx context.Context) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		x.scan()
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func (x *Exposer) scan() {
	ids, err := x.folder.Writers()
	if err != nil {
		x.log.Warn("expose", "error", err)
		return
	}
	there := map[model.WriterID]bool{}
	for _, id := range ids {
		there[id] = true
		x.CatchUp(id)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for id, tail := range x.tails {
		if !there[id] {
			tail.Close()
			delete(x.tails, id)
		}
	}
}

// CatchUp reads what a writer has logged until now. The deliverer calls it before it
// deletes what it delivered.
func (x *Exposer) CatchUp(id model.WriterID) { x.read(id, false) }

func (x *Exposer) read(id model.WriterID, before bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	tail := x.tails[id]
	if tail == nil {
		opened, err := spool.OpenTail(x.folder.WriterPath(id), id, 1, true)
		if err != nil {
			if !errors.Is(err, os.ErrNotExist) {
				x.log.Warn("expose", "writer", id, "error", err)
			}
			return
		}
		tail = &reading{Tail: opened, id: id, known: map[uint32]public{}}
		x.tails[id] = tail
	}
	tail.before = before
	var r spool.Record
	for {
		progress, err := tail.Next(&r)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			x.log.Debug("expose", "writer", id, "error", err)
		}
		if err != nil || progress == spool.Wait || progress == spool.End {
			return
		}
		if progress == spool.Got {
			x.take(tail, &r)
		}
	}
}

// take exposes the values of one record.
func (x *Exposer) take(tail *reading, r *spool.Record) {
	switch r.Type {
	case spool.TypePoint:
		x.put(tail, r.Series, r.Kind, r.Bits)
	case spool.TypeBlock:
		for i, series := range r.Block.Series {
			for _, bits := range r.Block.Values[i*r.Block.Rows : (i+1)*r.Block.Rows] {
				x.put(tail, series, r.Block.Kind, bits)
			}
		}
	}
}

func (x *Exposer) put(tail *reading, series uint32, kind model.Kind, bits uint64) {
	metric, known := tail.known[series]
	if !known {
		metric = x.metricOf(tail.Series[series])
		tail.known[series] = metric
	}
	if !metric.ok {
		return
	}
	value := math.Float64frombits(bits)
	if kind == model.KindInt {
		value = float64(int64(bits))
	}
	emit := x.to.Emit
	if tail.before {
		emit = x.to.Resume
	}
	if err := emit(metrics.Data{Group: metric.group, Name: metric.name, Value: value}); err != nil {
		x.dropped.Inc()
		x.log.Debug("expose", "error", err)
	}
}

// metricOf finds the public group of a series. A series with labels of its own is
// none of a metric: its values would mix with those of its siblings.
func (x *Exposer) metricOf(d spool.Definition) public {
	own := len(d.Labels)
	if _, ok := d.Labels[metrics.ExactName]; ok {
		own--
	}
	if own > 0 || d.Scale != model.ScaleStep {
		return public{}
	}
	for _, group := range x.groups {
		if name, ok := metrics.MetricOf(group, d.Metric, d.Labels); ok {
			return public{group: group, name: name, ok: true}
		}
	}
	return public{}
}
