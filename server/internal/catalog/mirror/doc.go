// Package mirror is the catalog's second place: the rows of every transaction,
// written and synced before the database commits them.
//
// In go rows as bytes, a few for each transaction; out come all rows that a database
// needs to be made anew. It knows no SQL: a table is a name, a row a key and its values.
//
//	DIR/00000000000000000042.wal        changes 42, 43, …, package wal's frames
//	DIR/snapshot-00000000000000000041   every row as it was after change 41
//
// Invariants:
//   - The mirror is never behind the database. What it has more is durable and wins.
//   - Each change names the checksum of all before it, the chain. So two histories that
//     share a number are told apart, and a change that is missing is noticed.
//   - A snapshot is there whole or not at all; older changes go after it is.
//
// docs/format/mirror.md has the bytes, docs/design/0017-the-catalog-has-a-mirror.md
// the reasons. Start with [Open] and [Mirror.Append].
package mirror
