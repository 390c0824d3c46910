// Package network is what the Network page draws: the nodes of a subnet, what each
// validator says of each miner, whose word holds, and why.
//
// In go the signed records of a project (package statelog) and what a chain knows
// of the subnet; out comes one [Document] as JSON. A project's records are read
// once and kept in a parsed form; later only newer ones are read, by their index
// in the project's log. Attributes of runs are never trusted: a run without a
// record is shown as legacy, or broken, and has no vote.
//
// What holds: work is linear in cells; what a stranger writes is bounded before it
// is kept; a verdict always has a reason. The verdicts are an offer of this server:
// `kymogram state verify` checks the same records without it.
//
// Start at [Service.Network]; view.go keeps the records, build.go judges and merges.
package network
