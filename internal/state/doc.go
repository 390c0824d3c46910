// Package state is the signed state record: a statement of one hotkey about one
// run, at one place, with one sequence number.
//
// A [Record] and a payload go in, an [Envelope] with a signature comes out; the
// exact signed bytes travel and are never encoded again. The other way round a
// [Reader] judges envelopes and says why: every [Judgement] has a [Verdict] and a
// reason in words. A reader remembers the highest record of each place in a
// [Memory], so an old record, a moved one or a second one with the same number is
// refused, and two that contradict each other are kept as a [Proof].
//
// What holds: only bytes that a signature covers are read; decoding is strict and
// takes memory in proportion to its input; nothing here talks to a network.
// docs/format/state.md has the bytes. Start at [Seal] and [Reader.Check].
package state
