// Package influxql answers InfluxQL, InfluxDB 1's query language, over the points of
// projects, so that Grafana's InfluxDB data source and the v1 clients read from Kymogram.
//
// In: GET and POST /query with q and db. Out: InfluxDB's JSON, chunks or CSV. Statements are
// planned and computed by InfluxDB's own engine (package query of its version 1.8.3); this
// package gives it what storage gives it there: fields, tags and iterators.
//
//	q ─▶ parser ─▶ SELECT ─▶ InfluxDB's engine ─▶ catalogue (fields, tags) ─▶ query.Service
//	                     │                              └▶ source  (rows by time) ─▶ query.Service
//	                     └▶ SHOW … ─▶ catalogue
//
// A database is a project. The metric MEASUREMENT/FIELD is a field, the series of a run that
// share their labels are the fields of one table's rows. Tags are labels, axes, what the
// attributes of an attempt say, and the run's name. See docs/influx.md.
//
// What always holds: nothing is read before the caller's right in the project was checked.
// What a statement holds in memory, reads and answers is bounded; an error names the limit.
//
// Start reading at [Handler.Handlers].
package influxql
