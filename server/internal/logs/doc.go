// Package logs prints the lines of a run's console.
//
// In goes a server and a run; out come the lines of its text series console, those of
// several streams in the order of time. Series are read in pages, or from where the last
// look ended. Start reading at [Print].
package logs
