// Package influx sends the points of a telemetry.Logger to an InfluxDB: 2 and 1.8 through the
// official client, older ones by their own path.
//
// A call makes a line and adds it to the open batch, in memory and in a file. A goroutine sends
// batches that are full or old, and tries again as long as the server may take them later.
// All lines together, those in flight too, are at most MaxQueueSize. Beyond it points are
// refused and counted.
//
// The file of a killed process is sent by the next sink of the same destination, also by that
// of Python's kymogram.telemetry. A line that is sent twice is one point: InfluxDB tells points
// apart by series and time. To read the code, start at [New]. The files are in batch.go.
package influx
