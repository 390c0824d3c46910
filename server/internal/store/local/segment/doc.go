// Package segment reads and writes segment files: row groups on disk that are
// never changed, with indexes that say whose they are.
//
// In go rows with columns and what is known of a run ([Section]), through a
// [Writer]; out come the same through a [File], whose [Group] reads one block at a
// time. [Files] are the segments of a folder: which are live, which a merge has
// replaced, and whether one is in doubt. [DamageList] is what could not be read.
//
// Invariants:
//   - A file has its name only when all of it is on disk; until then it is *.tmp.
//   - A segment names those that it replaces, so a crash between its naming and
//     their removal leaves no point twice and none missing.
//   - Every block has a checksum. What does not match is left out, counted once for
//     its place, and told to the ledger of the run; the rest of the file is served.
//   - A damaged file is never merged and never removed.
//
// docs/format/segment.md has the layout. Start with [File], then [Writer.Finish],
// then [Files.Load].
package segment
