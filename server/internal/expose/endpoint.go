package expose

import (
	"context"
	"errors"
	"net"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/spool"
	"github.com/kymogram/kymogram/internal/uplink"
	"github.com/kymogram/kymogram/metrics"
)

// Part works beside the agent and shows in its endpoint.
type Part interface {
	prometheus.Collector
	Run(ctx context.Context) error
}

// Serve delivers a folder and answers for its metrics at listener. With groups, what
// programs log in these is public too. It ends when the delivery does, or a part fails.
func Serve(ctx context.Context, folder *spool.Folder, opts uplink.Options, groups []string, listener net.Listener, parts ...Part) error {
	endpoint := metrics.NewEndpoint(metrics.EndpointOptions{Version: opts.Version, Disk: folder.Path, Log: opts.Log})
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	group, ctx := errgroup.WithContext(ctx)
	if len(groups) > 0 {
		x, err := New(folder, groups, endpoint.Exposition(), opts.Log)
		if err != nil {
			return errors.Join(err, listener.Close())
		}
		opts.BeforeFree = x.CatchUp
		if err := endpoint.Register(x.dropped); err != nil {
			return errors.Join(err, listener.Close())
		}
		group.Go(func() error { return x.Run(ctx) })
	}
	for _, part := range parts {
		if err := endpoint.Register(part); err != nil {
			return errors.Join(err, listener.Close())
		}
		group.Go(func() error { return part.Run(ctx) })
	}
	deliverer := uplink.New(folder, opts)
	if err := endpoint.Register(&families{deliverer: deliverer, folder: folder}); err != nil {
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

// Listen binds the endpoint's address.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, model.Errorf(model.CodeUnavailable, "cannot serve metrics at %s: %v", address, err).
			WithHint("--metrics takes HOST:PORT with a free port of this machine, such as 127.0.0.1:9464")
	}
	return listener, nil
}

// Check binds the address for a moment, so that who starts an agent in the
// background hears at once that it cannot.
func Check(address string) error {
	listener, err := Listen(context.Background(), address)
	if err != nil {
		return err
	}
	return listener.Close()
}

// families are the agent's own numbers.
type families struct {
	deliverer *uplink.Deliverer
	folder    *spool.Folder
}

// Describe sends nothing: the families come with their samples.
func (*families) Describe(chan<- *prometheus.Desc) {}

// Collect reads the deliverer's counters.
func (a *families) Collect(out chan<- prometheus.Metric) {
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
