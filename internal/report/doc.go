// Package report is what validators say of miners: how an entry of `stats` is read,
// and which of several entries about one miner wins.
//
// The signed bytes of a stranger go in, a [Stat] for each uid comes out. An entry of
// a wrong form is left out, counted, and the reason is kept. [Dominant] merges the
// entries of several validators. The Network page and the readers of netstate both
// use this package, so that they vote on the same bytes.
//
// What holds: reading never fails and takes memory in proportion to its input;
// whoever carries less than half of the winning weight chooses no part of the result.
//
// Start at [Read] and [Dominant]; json.go walks the text.
package report
