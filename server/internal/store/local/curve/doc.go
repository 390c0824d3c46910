// Package curve says what the curve of a series is, its points less the superseded
// ones, and answers the reads on it: scan, buckets, forks, ends.
//
// In goes a [View]: the row groups of a series as they were when the read began,
// with the [Lineage] of its run. Out come rows, buckets, the end of the curve and the
// step that it goes on at. A read takes no lock and changes nothing but what it
// worked out ahead, which it leaves with the [Series].
//
// Invariants:
//
//   - An answer is the same whether points were read or a stored summary of them.
//
//   - What is worked out ahead (overlay, tally, end) is for one layout of groups and
//     one epoch of the rules; another one makes it void, but that an overlay is continued
//     where later groups lie behind all of it.
//
//   - A damaged group is reported and left out; the rest is served.
//
//     ┌──────── pieces of the curve ────────┐
//     chunks ──▶ components ──▶ judge ──▶ whole ───────┼──▶ summary ──▶ buckets, end
//     that may meet       └──▶ resolve rows ┘──▶ rows ─────▶ scan, buckets
//
// Start with the first page of rules.go, then overlay.go; scan.go and buckets.go are
// the reads.
package curve
