// Package substrate is a small client for Substrate chains, driven by the
// metadata that the chain describes itself with (versions 14 to 16): SCALE,
// storage keys and values, events and errors by name, signed extrinsics, and
// JSON-RPC over WebSocket with several endpoints.
//
//	Call, Submit ─▶ Client ─▶ conn (rpc.go) ◀─▶ node
//	                  └ Runtime: Metadata ─▶ registry (types) ─▶ value.go, scale.go
//
// Names and Go values go in, decoded values and receipts come out; nothing here
// knows Bittensor, chain does. What holds:
//   - Reads are tried on every endpoint; an extrinsic is sent once, as the chain
//     may have taken it, except when an upgrade of the chain made its signature bad.
//   - All endpoints serve the chain of the first one: another genesis is an error.
//   - Being in a block is no success: the block's events decide.
//   - An extrinsic dies after 64 blocks, and nobody waits longer for it.
//   - A block that one node named is waited for where another does not have it yet.
//   - Decoders take any bytes.
//
// A [Client] starts no goroutine: who calls, reads. One connection serves its calls
// one after another; a submission has a connection of its own. Start at
// [Client.Storage] for reads and [Client.Submit] for writes.
package substrate
