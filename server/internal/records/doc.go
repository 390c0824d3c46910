// Package records reads signed state records of a server for a person, and checks
// them as a reader that trusts neither the server nor its operator.
//
// A server's answers and files go in; reports, tables and proofs come out. What
// holds: nothing that is printed as verified rests on the server's word, only on
// signatures; a file of evidence is checked without any server. Start at
// [Server.Verify], and [VerifyFile] for files. The records' rules are in
// internal/state, those of tree heads in transparency.
package records
