// Package wandb drives the real SDKs of Weights & Biases, each version in an
// environment of its own, against the real binary, and compares what comes back,
// through our own API and through theirs, with what the programs in programs/ log.
// `make compat` runs all of it; `make test-wandb` the newest version and 0.19.0, with
// the tests that -short leaves. An environment that does not install skips its tests
// with the reason; WANDB_SDKS names the versions. programs/network.py is the program of a
// compute subnet, always with 0.19.0: network_test.go runs it as several participants.
package wandb
