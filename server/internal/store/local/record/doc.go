// Package record turns decisions into the bytes of log records and back.
//
// In go a decided [Batch], an attempt, a writer or a deletion; out come bytes that
// [Log] appends, and at start the same decisions from bytes. The fields that they
// are made of ([Encoder], [Decoder]) and the definitions in them (series, starts,
// writers, sources) are those of segment indexes, too.
//
// Invariants: a record holds what was decided, never what would have to be decided
// again, so replay needs no rule and gives the same state. Any bytes may be read:
// damage is an error, never a panic, and never makes more memory than the record
// has bytes. docs/format/wal.md has the layout.
//
// Start with [Batch], then [Encoder.Batch] and [DecodeBatch].
package record
