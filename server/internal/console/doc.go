// Package console passes a program's output on to its terminal and keeps its lines with a run.
//
// In goes a [Spec]: the channels that the program writes to, and the run. Out come the same
// bytes to the terminal, and lines in the spool, in text series console with the label
// stream. Bytes go out before lines are made of them; what the keeper cannot follow is
// dropped, counted and shown as a line. The relay outlives the program, so lines that it wrote
// before a SIGKILL are kept. Start reading at Run in relay.go; screen.go collapses what a
// terminal would overwrite, keeper.go bounds what is kept, mask.go hides secrets.
package console
