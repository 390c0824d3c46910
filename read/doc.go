// Package read reads what was logged: projects, runs, series, points and
// buckets, from a server's JSON API.
//
//	client, err := read.Dial("http://127.0.0.1:7070", "")
//	run, err := client.Run(ctx, "vision/digits/lr0.3")
//	for point, err := range run.Points(ctx, "loss") {
//		…
//	}
//
// Lists and points are fetched page by page while they are ranged over: as points, as
// chunks by column, and with package read/record as Arrow record batches. Int64 values are
// exact; NaN and the infinities come as they were logged. Nothing is cut: whatever does not
// come ends an iteration with an error. The package kymogram at the module's root is the one
// that logs.
package read
