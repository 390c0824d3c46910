// Package uplink delivers a spool folder to the servers that its writers name. It
// runs in the agent, in `kymogram sync` and inside Go programs.
//
// Records come in from internal/spool; batches of columns go out, one gRPC stream
// a writer; acks go back to the writer's status page. Videos go over HTTP, so that
// points never wait for them.
//
//	Deliverer            one at a time holds agent.lock; finds writers four times a second
//	└─ delivery          one writer, until it is gone and acked: session, pause, session, …
//	   └─ session        one stream
//	      deliver: Tail ──▶ builder ──▶ batch [first…last] ──▶ server
//	      receive: status page ◀── settle ◀── ack, mark ◀─────┘
//
// The mark is the last sequence of a writer that the server stored or refused for
// good. The server keeps it in the same log record as the rows, so that no deliverer
// has to remember where it was:
//
//	open      the server answers with its mark m; the tail begins at m + 1
//	ack m     batches up to m leave the queue, refused records go to rejected/,
//	          counts and then m go to the status page, segments ≤ m are deleted
//	kill      of either side: the next open asks for the mark again
//	gap       the server has another mark: end the stream, open, go on from there
//
// A batch that is sent twice lies at or below the mark and is acked without being
// stored. So each record is stored once or refused once, in the writer's order,
// whichever process dies. Up to pace.inFlight batches wait for their acks.
//
// A failed session is tried again for ever, with a wait that doubles, unless the
// server's code is final: then every record moves to rejected/ ([model.Code.Final]).
// Only the writer's pace can have batches given up (give_up_after).
//
// Start at [Deliverer.Run], then delivery.run and session.deliver.
package uplink
