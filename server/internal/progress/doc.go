// Package progress shows a person how far a long command is. In go a writer, a total
// and what is done; out comes a bar where the writer is a terminal, and nothing, or a
// line now and then, where it is not. A bar ends without a trace.
package progress
