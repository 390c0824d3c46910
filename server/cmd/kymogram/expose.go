package main

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"net"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/spool"
	"github.com/kymogram/kymogram/internal/uplink"
	"github.com/kymogram/kymogram/metrics"
)

// exposeEvery is how old what a scrape gets of a program's metrics may be.
const exposeEvery = 250 * time.Millisecond

// agentPart works beside the agent and shows in its endpoint.
type agentPart interface {
	prometheus.Collector
	Run(ctx context.Context) error
}

// serveAgentMetrics delivers a folder and serves the agent's endpoint.
func serveAgentMetrics(ctx context.Context, folder *spool.Folder, opts uplink.Options, groups []string, listener net.Listener, parts ...agentPart) error {
	endpoint := metrics.NewEndpoint(metrics.EndpointOptions{Version: version, Disk: folder.Path, Log: opts.Log})
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	group, ctx := errgroup.WithContext(ctx)
	if len(groups) > 0 {
		x, err := newExposer(folder, groups, endpoint.Exposition(), opts.Log)
		if err != nil {
			return errors.Join(err, listener.Close())
		}
		opts.BeforeFree = x.catchUp
		if err := endpoint.Register(x.dropped); err != nil {
			return errors.Join(err, listener.Close())
		}
		group.Go(func() error { return x.run(ctx) })
	}
	for _, part := range parts {
		if err := endpoint.Register(part); err != nil {
			return errors.Join(err, listener.Close())
		}
		group.Go(func() error { return part.Run(ctx) })
	}
	deliverer := uplink.New(folder, opts)
	if err := endpoint.Register(&agentFamilies{deliverer: deliverer, folder: folder}); err != nil {
		return errors.Join(err, listener.Close())
	}
	group.Go(func() error { return endpoint.Serve(ctx, listener) })
	group.Go(func() error {
		defer stop() // an idle agent ends its endpoint too
		endpoint.SetState(metrics.StateReady)
		return deliverer.Run(ctx)
	})
	return group.Wait()
}

// listenForMetrics binds the endpoint's address.
func listenForMetrics(ctx context.Context, address string) (net.Listener, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, model.Errorf(model.CodeUnavailable, "cannot serve metrics at %s: %v", address, err).
			WithHint("--metrics takes HOST:PORT with a free port of this machine, such as 127.0.0.1:9464")
	}
	return listener, nil
}

// checkAddress binds the address for a moment, so that who starts an agent in the
// background hears at once that it cannot.
func checkAddress(address string) error {
	listener, err := listenForMetrics(context.Background(), address)
	if err != nil {
		return err
	}
	return listener.Close()
}

// exposer reads the spool beside the uplink and exposes the groups that a person
// chose. What a writer logged before this agent began only tells where its gauges
// stand: counters begin at zero, so that a restart counts nothing twice.
type exposer struct {
	folder  *spool.Folder
	groups  []string
	to      *metrics.Exposition
	log     *slog.Logger
	dropped prometheus.Counter

	mu    sync.Mutex
	tails map[model.WriterID]*exposedTail
}

// exposedTail is how far one writer was read.
type exposedTail struct {
	*spool.Tail
	id     model.WriterID
	before bool // the records are of before this agent began
	known  map[uint32]exposedSeries
}

// exposedSeries is the metric behind a series; ok when its group is public.
type exposedSeries struct {
	group, name string
	ok          bool
}

func newExposer(folder *spool.Folder, groups []string, to *metrics.Exposition, log *slog.Logger) (*exposer, error) {
	x := &exposer{
		folder: folder, groups: groups, to: to, log: log, tails: map[model.WriterID]*exposedTail{},
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

// run reads what is new until ctx ends.
func (x *exposer) run(ctx context.Context) error {
	ticker := time.NewTicker(exposeEvery)
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

func (x *exposer) scan() {
	ids, err := x.folder.Writers()
	if err != nil {
		x.log.Warn("expose", "error", err)
		return
	}
	there := map[model.WriterID]bool{}
	for _, id := range ids {
		there[id] = true
		x.catchUp(id)
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

// catchUp reads what a writer has logged until now.
func (x *exposer) catchUp(id model.WriterID) { x.read(id, false) }

func (x *exposer) read(id model.WriterID, before bool) {
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
		tail = &exposedTail{Tail: opened, id: id, known: map[uint32]exposedSeries{}}
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
func (x *exposer) take(tail *exposedTail, r *spool.Record) {
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

func (x *exposer) put(tail *exposedTail, series uint32, kind model.Kind, bits uint64) {
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
func (x *exposer) metricOf(d spool.Definition) exposedSeries {
	own := len(d.Labels)
	if _, ok := d.Labels[metrics.ExactName]; ok {
		own--
	}
	if own > 0 || d.Scale != model.ScaleStep {
		return exposedSeries{}
	}
	for _, group := range x.groups {
		if name, ok := metrics.MetricOf(group, d.Metric, d.Labels); ok {
			return exposedSeries{group: group, name: name, ok: true}
		}
	}
	return exposedSeries{}
}

// agentFamilies are the agent's own numbers.
type agentFamilies struct {
	deliverer *uplink.Deliverer
	folder    *spool.Folder
}

// Describe sends nothing: the families come with their samples.
func (*agentFamilies) Describe(chan<- *prometheus.Desc) {}

// Collect reads the deliverer's counters.
func (a *agentFamilies) Collect(out chan<- prometheus.Metric) {
	totals := a.deliverer.Totals()
	send := func(name, help string, kind prometheus.ValueType, value float64) {
		out <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, nil, nil), kind, value)
	}
	send("kymogram_agent_points_delivered_total", "Points that servers took.", prometheus.CounterValue, float64(totals.Acked))
	send("kymogram_agent_points_refused_total", "Points that servers refused for good.", prometheus.CounterValue, float64(totals.Refused))
	send("kymogram_agent_writers_waiting", "Writers with something left to deliver.", prometheus.GaugeValue, float64(totals.Writers))
	send("kymogram_agent_writers", "Writers that are being delivered.", prometheus.GaugeValue, float64(len(a.deliverer.Writers())))
	if used, err := a.folder.Used(); err == nil {
		send("kymogram_agent_spool_bytes", "Size of the spool.", prometheus.GaugeValue, float64(used))
	}
}
