// Package wal is a framed, checksummed segment log with group commit.
//
// In go records as bytes; out comes a number for each (LSN), and at open all records
// that are whole, in order. Its neighbours are the stores, which replay it; faultfs is
// the file system of their crash tests. docs/format/wal.md has the layout.
//
// # Group commit
//
// [Log.Write] appends under the lock and returns; [Log.Wait] returns when the record
// is on disk. The first caller that waits syncs for all that was written by then.
// Who writes meanwhile waits for the next sync, which one of them does for all:
//
//	writer 1   Write 7, Wait ├── fsync: up to 8 ──┤ack
//	writer 2    Write 8, Wait ────────────────────┤ack
//	writer 3          Write 9, Wait ──────────────├── fsync: up to 10 ──┤ack
//	writer 4               Write 10, Wait ──────────────────────────────┤ack
//
// So the number of syncs depends on the disk, not on the number of writers, and a
// single writer waits for nobody.
//
// Invariants:
//   - Records lie in the order of their numbers, and numbers are never given twice.
//   - A write that fails leaves the log as it was: a full disk is no damage.
//   - A sync that fails leaves unknown what is on disk. The log is then poisoned: it
//     takes no record and confirms none until it is opened again.
//   - At open a torn tail is cut; it was never confirmed. Damage in the middle is set
//     aside and reported, and the rest is replayed.
//
// Start with [Log.Write], [Log.Wait] and syncOnce; open.go is the replay.
package wal
