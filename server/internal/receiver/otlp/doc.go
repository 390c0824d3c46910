// Package otlp takes metrics of the OpenTelemetry protocol 1 (opentelemetry.io/docs/specs/otlp):
// protobuf over HTTP on POST /v1/metrics, and the gRPC service MetricsService. Tested with the
// SDKs of Go and Python.
//
// Workspace and project are in the headers X-Kymogram-Workspace and X-Kymogram-Project, over
// HTTP in the URL too. A resource's run follows from a rule of the project; what else it says of
// itself are attributes of the run and tells its attempts apart. A series is a metric with the
// attributes of its points and the name of its scope. There is no step: x is the time. The same
// point again is one of the same series and time: the last that arrives wins.
//
// A request goes body.go (gzip) → decode.go (from the request to a metric, in place) → point.go
// (one data point, by the official types) → columns.go (columns) → package ingest. Start reading at
// Receiver.take. docs/opentelemetry.md is the user's page.
package otlp
