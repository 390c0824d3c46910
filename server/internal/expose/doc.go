// Package expose answers Prometheus for an agent. In go a spool folder, the options of
// its delivery and the metric groups that a person made public; out come the agent's
// own numbers, and of these groups every value that programs log.
//
//	writer's segments ──▶ uplink ──▶ server
//	        │                │ BeforeFree
//	        └──▶ Exposer ◀───┘
//	                └──▶ GET /metrics
//
// The exposer reads the segments next to the uplink, which calls it before it deletes
// what it delivered: no value is missed. What was logged before the agent began only
// says where gauges stand, so a restart counts nothing twice. Nothing but the chosen
// groups is public. Start with Serve.
package expose
