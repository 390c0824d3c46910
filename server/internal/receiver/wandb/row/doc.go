// Package row is the history of a W&B run: a line of wandb-history.jsonl becomes a row of
// points, and rows of points become lines again.
//
//	{"loss": 0.5, "note": "x", "_step": 7, "_runtime": 1.5, "_timestamp": 1.7e9}
//
//	loss                 0.5      a number is a point of the series of its key
//	note{type=text}      x        a string is a text; what is neither is its JSON (type=json)
//	_runtime             1.5      each row has a point here: the rows can be counted and listed
//
// all at step 7 and the time of _timestamp. A row is named by its attempt, its writer and its
// step. Read encode.go for the way in, read.go for the way out; doc comments there say what
// of a line comes back, and how.
package row
