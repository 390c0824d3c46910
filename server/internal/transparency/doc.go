// Package transparency checks a log that its operator cannot rewrite unseen: the
// Merkle tree of a project's records, with the hashes of RFC 9162.
//
// Signed heads and proofs go in; out comes whether they hold. A [SignedHead] is
// the server's word for the size and the root of its log, signed with a key of its
// own and cosigned by witnesses: hotkeys that checked that it continues what they
// saw before. An [Inclusion] ties one record to a head. Two histories of one server
// make a [Split], which anyone can check.
//
// What holds: nothing here asks a server or believes one; every check needs the
// bytes only. statelog keeps the trees. Start at [SignedHead.Check].
package transparency
