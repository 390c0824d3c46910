// Package decision says what a batch means before it is stored: which series it
// names or makes, which of its records are refused, where relative steps start, and
// in which order its rows arrived.
//
// In go a batch and the state of its run, which is locked and not changed; out come
// the record for the log and the refusals for the ack.
//
// Invariants: the same batch on the same state gives the same record. What is
// decided is in the record, so replay decides nothing. A record of the writer is
// taken or refused as a whole, over all groups and columns.
//
// Start with [Of].
package decision
