// Package influx takes points in InfluxDB's line protocol, from the clients that
// write to POST /api/v2/write (tested: influxdb-client 1.50 for Python) and to
// POST /write of version 1.
//
// An organisation is a workspace, a bucket (version 1: a database) a project.
// The run, which tags are axes, and which describe the process that logs, follow from
// the bucket's [Rules]. What they say of a process makes an attempt of the run. A field
// is a series MEASUREMENT/FIELD, whose labels are the tags that are left. The same
// point again is one of the same series and nanosecond: the last wins, never by
// step. In one request that is the last line: where lines of one series have other axes
// or fields, their rows carry their turn.
//
// A request goes body.go (bytes) → line.go (one line) → batch.go (columns) →
// package ingest. A line that cannot be read refuses its body; a point that its
// series' kind refuses goes alone. docs/influx.md is the user's page.
package influx
