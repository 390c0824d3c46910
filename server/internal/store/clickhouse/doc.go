// Package clickhouse is the engine for more points than one machine keeps: points lie in
// ClickHouse, and what was decided about them in PostgreSQL (the ledger).
//
// In go batches of any server that shares the two; out come the curves that package store
// promises. The life of a batch:
//
//	Append ─▶ lease of the run ─▶ queue ─▶ group ─▶ decide ─▶ insert ─▶ commit ─▶ ack
//	          (lease.go)         (queue.go)       (decision) (rows.go)  (ledger)
//
// With a log in front of ClickHouse, rows go there in place of the insert (sink.go), and are
// inserted after the answer (drain.go).
//
// Invariants:
//   - Rows count when the ledger has their log position, and never before. An insert whose
//     outcome is not known is given up: its rows go again under new positions, and what the first
//     insert may have left is never read. So nothing has to be deduplicated.
//   - A run is changed by who holds its lease. Another server may take the lease at any time after
//     Hold; the first one's next commit fails then, and changes nothing.
//   - Every answer, also that of a write that changes nothing, waits for a commit that found the
//     lease valid.
//
// Start with [Engine.Append] in write.go, then process in group.go.
package clickhouse
