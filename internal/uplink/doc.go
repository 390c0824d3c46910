// Package uplink delivers a spool folder to the servers that its writers name:
// one gRPC stream a writer, batches by column, retried until the server has
// acked or refused every record. It runs in the agent, in `kymogram sync` and
// inside Go programs; internal/spool is what it reads.
package uplink
