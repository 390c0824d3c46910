// Package codec turns columns into bytes and back: int64, float64 bit for bit,
// byte strings and booleans. It does no I/O; the layouts are in
// docs/format/codec.md.
//
//	float64 ─▶ order-preserving or decimal integers ─┐
//	lengths of byte strings ─────────────────────────┼▶ differences ─▶ classes: Huffman
//	int64 ───────────────────────────────────────────┘   of order d,   low bits: as they are
//	                                                     from a mean
//
// The values of one column go in; bytes come out that say their count and kind.
// What holds:
//   - Decoding gives every value back bit for bit, NaNs and −0 included.
//   - A kind once written keeps its meaning; an unknown one is [ErrVersion].
//   - A decoder takes any bytes: it returns an error, and allocates for at most the
//     number of values that the caller allows.
//
// Start at [Encoder.AppendInts]: the other columns are made of integer columns.
package codec
