// Package decision says what a batch means before it is stored: which series it
// names or makes, which of its records are refused, where relative steps start, and
// in which order its rows arrived.
//
// In go a batch and what is known of its run ([Run]), which is not changed; out come the
// record to store and the refusals for the ack.
//
// Invariants: the same batch on the same state gives the same record. What is
// decided is in the record, so replay decides nothing. A record of the writer is
// taken or refused as a whole, over all groups and columns.
//
// Start with [Of].
package decision
