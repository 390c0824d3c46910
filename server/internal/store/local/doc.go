// Package local is the embedded engine behind the store contract: a log that is
// synced before the ack, row groups in memory, segment files that are never changed,
// and reads that merge the three.
//
// In go batches, attempts and deletions; out come acks, marks, curves and the updates
// that the catalog has not confirmed. The parts lie below, each importing only those
// above it in this list:
//
//	column     rows, values, ranges and sums of a row group; pure
//	record     decisions ⇄ bytes of the log; the log
//	segment    row groups and indexes ⇄ files; the segments of a folder; damage
//	curve      which points a curve has, and the reads on it
//	state      runs in memory: marks, series, groups that no segment has
//	decision   what a batch means
//	upkeep     flush, compaction, release of the log
//
// The life of a batch and of a read is in engine.go: start there.
//
//	Append ─▶ decision ─▶ record ─▶ log (fsync) ─▶ ack
//	                         └────▶ state ─▶ upkeep ─▶ segment
//	Scan, Buckets ─▶ state: a view ─▶ curve ─▶ column, segment
//
// Invariants: acked is durable; a record is applied in the order of the log; what is
// damaged is left out, counted and told to the ledger of its run. The bytes are in
// docs/format/wal.md and docs/format/segment.md, the reasons in
// docs/design/0001-storage-engine.md and docs/design/0014-rooms-of-the-engine.md.
package local
