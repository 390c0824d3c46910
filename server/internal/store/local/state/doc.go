// Package state is the runs of a store in memory: what their records said, the
// groups that no segment has yet, and where the flushed ones lie.
//
// In go decided records, at start also what segments say of runs; out come views
// for reads, pages of series, and what a flush takes ([Frozen]). A [Table] holds the
// runs and what they share; a [Run] has one lock that guards all of it.
//
// Invariants:
//   - A record is applied under the lock under which it got its place in the log, so
//     the order in memory is the order in the log.
//   - What a run holds is in its memory, in frozen groups on their way to a segment,
//     or in a segment; a view takes from each, so no point is seen twice or missed.
//   - A mark never falls, also when the run is deleted.
//   - Groups that a view took are never written to: rows are appended behind it.
//
// The head of a run (marks, attempts, counts) is always in memory. Its body (series,
// starts, groups) is read at the first use and forgotten when nobody uses it: a run at
// rest shares an empty one. The groups of segments are apart from the rest of the body:
// a run that is only written to never has them, and they are dropped first.
//
// Points that share their rows with no other wait (loose.go) until they are many, the run is
// read or a flush takes it.
//
// All of it is counted, and memory.go says what goes when it is too much:
//
//	what no segment has (memory)      flushed
//	what is loaded (resident)         groups dropped, then bodies, least recently used first
//	heads                             stay; at 3/4 of the limit no new runs and writers
//	what is left                      is in use: a write that adds to it is refused
//
//	             Apply                 Freeze                Thaw
//	record ──▶ groups in memory ──▶ frozen groups ──▶ groups in a segment
//	              ▲                      │ a flush that failed
//	              └────── Refreeze ──────┘
//
// Start with [Run], then apply.go, then frozen.go.
package state
