// Package kymogram logs training runs from Go.
//
//	run, err := kymogram.Init(ctx, kymogram.Options{RunName: "run-001"})
//	…
//	run.Log("train/loss", 0.5)
//	run.LogMap(map[string]float64{"eval/loss": 0.4, "eval/accuracy": 0.9}, kymogram.Step(100))
//	err = run.Close(ctx)
//
// A log call writes into a memory-mapped file and returns: it never waits for a
// network. When it returns, the point is safe: it survives a crash of the process.
// While the run is open, the points are delivered in the background. What is left when
// the program ends is delivered by the next one, by `kymogram agent` or by
// `kymogram sync`.
//
// To read the code, start at [Init] and [Run.Log]. Options come from the caller and
// the environment (settings.go). The server is asked once (open.go). A log call
// finds its series and step (series.go) and leaves one record in internal/spool, which
// internal/uplink delivers. What the delivery reports comes back in watch.go.
package kymogram
