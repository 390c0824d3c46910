// Package substrate is a small client for Substrate chains, driven by the
// metadata that the chain describes itself with (versions 14 to 16): SCALE,
// storage keys and values, events and errors by name, signed extrinsics, and
// JSON-RPC over WebSocket with several endpoints.
//
// Nothing here knows Bittensor; chain does. A [Client] starts no goroutine: who
// calls, reads. One connection serves its calls one after another; a submission
// that is watched has a connection of its own.
package substrate
