// Package delivery looks at a spool and delivers it once, for the commands that do so
// by hand: spool, sync, doctor and import. In go a spool folder and the process
// around it; out come what waits there, how a delivery ended, and meanwhile its
// progress on an io.Writer.
//
// Package uplink does the work; what is here counts and explains. What a program
// logs while a sync runs is its agent's again, so a sync ends. A writer that cannot
// be read is listed with its error and keeps no other back.
//
// Start with waiting.go, the backlog of one program; sync.go is the life of a sync.
package delivery
