// Package wallet reads Bittensor hotkeys from disk and signs with them: key files
// of bittensor-wallet 2 to 4, sealed ones ($NACL) included, SS58 addresses and
// sr25519 signatures.
//
// A folder and, for a sealed key, a password go in; addresses and signatures come
// out. What holds: a coldkey is never read, nothing is written, and a [Key] shows
// its address wherever it is printed, logged or marshalled, never its secret.
//
// Start at [Folder.Open]. chain opens wallets with it, and substrate signs
// extrinsics through a [Key].
package wallet
