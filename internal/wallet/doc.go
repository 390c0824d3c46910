// Package wallet reads Bittensor hotkeys from disk and signs with them: key files
// of bittensor-wallet 2 to 4, sealed ones ($NACL) included, SS58 addresses and
// sr25519 signatures. It never reads a coldkey, writes nothing, and a [Key] shows
// its address wherever it is printed, logged or marshalled.
//
// Neighbours: substrate signs extrinsics through it, state signs records.
package wallet
