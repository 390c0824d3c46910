// Package netstate is the distributed state of a network among strangers. Validators and
// miners of a subnet sign what they say about themselves and each other, and a reader
// learns what to believe of it. The names follow Neural Internet's compute subnet.
//
//	db, err := netstate.OpenComputeDb(ctx, sqlite) // *sql.DB of any SQLite driver
//	node, err := netstate.Join(ctx, netstate.Options{DB: db, Wallet: wallet, Role: netstate.Validator, Netuid: 27})
//	err = node.UpdateStats(ctx, stats)
//	stats, err := node.StatsAllocated(ctx, netstate.Select{Validators: listed, Listed: true})
//
// In go a wallet, a server, a database and, if there is one, the chain. A [Node] is
// one run, named {role}-{hotkey}: its config section is the state. Every change is
// one signed record on top of the last one, and the attributes of the run.
// Out come states of others: only of records that hold, for this network, now.
//
// What holds:
//   - A sequence is given out once: it is taken in the database in a transaction,
//     above all that this machine, the clock and the server's own record know.
//   - Nothing that no signature covers is read, but to find a run.
//   - A hotkey has one vote, whatever the number of its runs.
//   - What one participant writes never fails the reading of another.
//   - What a hotkey publishes that does not count on the chain costs a note.
//
// The program chooses the SQLite driver, so that a training program that imports
// Kymogram is not asked for one. To read the code, start at [Join] and
// [Node.UpdateConfig]; reading is in view.go, strangers.go and select.go,
// internal/state has the records.
package netstate
