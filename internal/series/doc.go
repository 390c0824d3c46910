// Package series is what a run knows of its series: [Index] finds one by the text
// of its key, [Starts] says at which step the server's history of it ends, and
// [Steps] counts on from there.
//
// Keys and the server's answer to the opening go in; handles and steps come out.
// The server may not have answered: a series then counts from an unknown start,
//
//	next ≥ 0   the next step is next
//	next < 0   the next step is start + (−1 − next); the server adds the start
//
// and the first step that the user gives ends that. Nothing here does I/O or
// knows the spool.
package series
