// Package migration copies runs from a W&B server into Kymogram: `kymogram import wandb`.
// It reads with W&B's public API and writes to the door that takes W&B's SDK, so a row, a
// config or a file is stored as if the program had logged it here.
//
// In: a server of W&B, projects and filters; out: runs of a Kymogram, and a report. It
// keeps no state of its own: what the destination has says where a copy goes on. Start
// reading at [Work]; source.go asks W&B, target.go writes, client.go repeats what failed.
package migration
