// Package upkeep moves points from memory to segments, merges segments and keeps the
// log short.
//
// In go the runs, the segments and the log; out come the same points in fewer and
// larger places. No answer changes with it.
//
// Invariants:
//   - A segment holds nothing that a crash could take from the log: a flush waits
//     for the log first.
//   - A log file goes only when segments have its records and the catalog its updates.
//   - A failure leaves everything as it was, and is tried again.
//   - A merge that meets damage sets the damaged segment aside and goes on without it.
//
// A flush may run beside a merge, which can take minutes. Both change where points
// lie, so the order is fixed:
//
//	flush ──[freeze]──[write, fsync, name]──[add to live]──[thaw: runs read from it]──▶
//	          holds flushing ───────────────────────────────────────────────────────
//	merge ─┬[live segments]┬[read, write, fsync, name]──[runs read from it]──[remove]─▶
//	       └holds flushing ┘          holds merging ────────────────────────────────
//
// A merge looks at the list of live segments only while no flush is between adding a
// segment and its thaw: otherwise it could replace a segment that runs do not read
// from yet, and the thaw would attach groups of a removed file. From then on the two
// share nothing: a flush adds a new segment, a merge replaces older ones.
//
// What a client sent again is left out of the older of two segments, see repeats.go.
//
// Start with [Keeper.Run].
package upkeep
