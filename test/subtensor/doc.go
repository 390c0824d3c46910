// Package subtensor runs the real Subtensor runtime in a test: the chain's own
// WebAssembly, taken from a dev genesis (raonet.json of opentensor/subtensor, see
// [Path]), in wazero, behind a WebSocket JSON-RPC as a node offers it.
//
// What is real: every check, dispatch, event, error and storage layout of the
// runtime, and the signatures. What is not: there is one authority and no
// network, blocks are made on demand and are final at once, and the storage and
// extrinsics roots are stand-in digests, since nobody verifies them here.
//
//	client ─ WebSocket ─▶ rpc.go ─▶ node.go: blocks, pool ─▶ wasm.go: the runtime in wazero
//	                                   state.go: storage ◀── host.go: what the runtime calls
//
// Start reading in start.go.
package subtensor
