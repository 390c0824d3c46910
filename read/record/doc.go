// Package record reads points as Arrow record batches, for programs that hand them to
// another Arrow library, a data frame or a Parquet file. Series of many millions of points
// take a fraction of the time of JSON.
//
//	run, err := client.Run(ctx, "vision/digits/lr0.3") // of package read
//	for batch, err := range record.Batches(run.Arrow(ctx, "loss", 100_000)) {
//		…
//	}
//
// The columns of a batch are those of the API:
//   - The series' axes: int64, null where a point lacks one.
//   - time_ns: int64.
//   - value: float64, int64 or string. Histograms and scatters are binary and hold JSON.
//   - attempt: uint32.
//   - writer: 16 bytes.
//   - run: string, with [read.IncludeInherited].
//
// Metadata of the schema names run, metric, scale, labels (label.NAME), kind and axis.
// The package is a module of its own: programs which only log do not need Arrow.
package record
