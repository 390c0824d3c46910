// Package statelog keeps the signed state records of a server: the newest of every
// run, the history of each, and records that a signer made twice.
//
// Envelopes of internal/state go in. A record is taken only when its signature
// holds, it names this run, and it follows the run's newest record: compare and
// set, so that of two signers with one hotkey one wins and the other signs again.
// Out come entries in the order in which they were taken. Each project's records
// are numbered without a gap; the number is the leaf in the project's log.
//
// What holds: a record that was taken is on disk before the answer, and is never
// changed or deleted. Payloads of old records go when those of one run exceed
// [KeptPayload]; the record with its hash and its signature stays. [Log.Verify]
// checks every byte by the signatures. No head is signed over a record that is missing,
// nor beside a head that was signed or given out before.
//
// The rules are SQL that two databases take. A server of its own has one SQLite file, and
// what was taken and signed also in its mirror (package mirror), written first: a file that
// is damaged, missing or behind is made anew from it at the start. Servers that share a
// store have PostgreSQL, where whoever writes to a project locks its row first.
//
// Start at [Log.Put]; schema.go has the tables, file.go and database.go are where they lie,
// heal.go is how file and mirror are made to agree.
package statelog
