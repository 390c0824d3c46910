// Package promapi answers PromQL over the points of projects, as Prometheus does: its HTTP
// API and federation, for Grafana and for what else reads Prometheus.
//
// In: PromQL. It is computed by Prometheus' own engine; this package gives the engine series
// by time (querier.go), which it reads from package query, and writes the answers in
// Prometheus' forms (encode.go, federate.go).
//
// What always holds: a caller sees no run, label or value of a project that it may not read;
// a query takes no more memory than its share, and ends with its request or with its time.
//
// Start reading at [Handler.Handlers]; how series get their labels is in labels.go.
package promapi
