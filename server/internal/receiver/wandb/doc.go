// Package wandb takes the protocol of Weights & Biases: its unmodified SDK logs into this
// server, and its public API reads from it. docs/wandb.md says what is supported.
//
// Tested clients: wandb 0.31.0, 0.19.0, 0.17.9 and 0.16.6, and what is built on them.
//
//	POST /graphql ──────────────▶ graph ──▶ resolvers: upsert.go, runs.go, lists.go, history.go, …
//	POST …/file_stream ─────────▶ stream.go ─▶ row: lines → points ─▶ life.go: whose, and which are new
//	PUT and GET of files ───────▶ files.go ──▶ blobs
//
// An entity is a workspace, a project a project, the id of a run its name. A row of the
// history is a row of points at its _step ([row]). The same row again is a duplicate; another
// row at the same step is kept too. A process that goes back to a step which the run has
// begins a new attempt, see life.go. Config and summary are kept as exact trees and, leaf by
// leaf, as attributes like everybody's.
package wandb
