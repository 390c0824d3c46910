// Package metrics publishes metrics as torchelastic's metrics API does, and
// serves a node's own to Prometheus.
//
// A metric is a number with a group and a name. A [Registry] knows which
// [Handler] takes the metrics of which group; without one they are forgotten.
// The code that publishes gets the registry by its context, so that there is no
// state of the process:
//
//	reg := metrics.New(metrics.Options{})
//	defer reg.Close(context.Background())
//	reg.Configure(metrics.Console(os.Stdout), "my_app")
//	ctx = metrics.NewContext(ctx, reg)
//
//	metrics.PutMetric(ctx, "restarts", 1, "my_app")
//	err := metrics.Profile(ctx, "Trainer.step", step, "my_app")
//
// or, in a function of its own,
//
//	defer metrics.Start(ctx, "Trainer.step", "my_app").End(&err)
//
// A handler that fails or blocks never reaches the code that publishes: each has
// a bounded queue, and what does not fit is dropped and counted ([Registry.Counts]).
//
// [Endpoint] is what `kymogram agent --metrics` and [Serve] offer to Prometheus:
// node status, requests, the machine, validation and scoring. It exposes groups
// only where an [Exposition] is configured for them. Python's twin is
// kymogram.metrics.
//
// To read the code, start at [Registry.PutMetric]: registry, outlet (a queue and a
// goroutine for each handler), handler. The routes are replaced as a whole, so that
// publishing takes no lock.
package metrics
