// Package column is the arithmetic of row groups: columns of numbers and what is
// known of them without reading them. It does no input or output and takes no lock.
//
// In go slices of axes, times and values; out come orders (which row is the same
// point as another, which one a scan returns first), ranges ([Extent]) and sums
// ([Aggregate]).
//
// Invariants: the rows of a group have one set of axes and one rule of uniqueness.
// A slice that was handed out is not written to again: later rows are appended
// behind it. An aggregate is the same whether it was added up row by row or from
// parts, but for the order in which floats are added.
//
// Start with [Rows], then [Extent], then [Group], which is a row group wherever it
// lies.
package column
