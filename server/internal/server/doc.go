// Package server is the shell around everything that listens: one address for
// HTTP and gRPC, TLS, the policy that every route and every method must have,
// limits, health and the graceful stop. It mounts what httpapi and the receivers
// serve and knows neither a store nor a catalog.
//
//	connection ─▶ splitter ─┬─ HTTP/2: gRPC ─▶ policy of the method ─▶ receiver
//	                        └─ HTTP/1.1 ─▶ guard ─▶ policy of the route ─▶ handler
//
// A route or method without a policy makes New fail, and nothing runs before its
// policy allowed it. Start reading in server.go; policy.go is the table, split.go
// how one address serves both, security.go what the security log says, admission.go
// what callers share, gate.go who gets a connection, message.go and answer.go how gRPC's
// messages get their part.
package server
