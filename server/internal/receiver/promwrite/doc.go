// Package promwrite takes Prometheus' remote write 1.0 and 2.0
// (prometheus.io/docs/specs/prw) on POST /api/v1/write, from any sender of it
// (tested: Prometheus 2.42).
//
// Workspace and project are in the URL. A sample's run is the value of its label
// run, else {job}/{instance}; its series is __name__ with the labels that are
// left. There is no step: x is the time. The same point again is one of the same
// series and millisecond: the last that arrives wins, so samples may come in any
// order. Staleness markers are kept as the NaN that they are.
//
// A request goes body.go (snappy) → wire.go and write1.go or write2.go
// (protobuf, read in place) → batch.go (columns) → package ingest. A body that
// cannot be read is refused; of one that can, what was kept is in the answer's
// headers. Start reading at Receiver.take.
// docs/prometheus-remote-write.md is the user's page.
package promwrite
