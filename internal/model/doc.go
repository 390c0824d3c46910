// Package model holds the words of Kymogram: runs, attempts, writers, series,
// points on axes, batches and the typed errors that cross a package boundary.
//
// It does no I/O and imports the standard library only. Receivers turn foreign
// bytes into a [Batch]; ingest checks it; a store keeps it; query reads it back.
//
//	Batch (of one writer) ── RowGroup ── axis columns, times, sequences
//	                      │           └─ a Column of values for each series
//	                      └─ Updates: what changes in the run itself
//
// Start reading in batch.go; docs/design/points.md has the rules behind the words.
package model
