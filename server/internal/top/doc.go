// Package top shows the metrics of one run in a terminal: a line for each metric with its
// last value and its curve, live. In go a connection to a server and the run's id. Out come
// frames on a terminal, or one table or JSON document for everything else.
//
//	events ──▶ at most 4 a second ──▶ fetch of the visible rows ──▶ frame ──▶ changed lines
//
// What always holds: a name that others chose reaches the terminal only through [clean]; a
// refresh asks for the rows on the screen, whatever the run has; the terminal is left as it
// was found. Start reading at [Show].
package top
