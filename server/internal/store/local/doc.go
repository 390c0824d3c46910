// Package local is the embedded engine behind the store contract: a WAL that is
// synced before the ack, row groups in memory, append-only segment files of row
// groups with shared axes, and reads that merge the three.
//
// A write goes resolve.go (what the batch means) → record.go (its WAL bytes) →
// apply.go (memory) → flush.go (segments) → compact.go. A read takes a view of a
// series (view.go), drops what is superseded (curve.go) and answers (scan.go,
// buckets.go, list.go). The bytes are in docs/format/wal.md and segment.md, the
// reasons in docs/design/0001-storage-engine.md.
package local
