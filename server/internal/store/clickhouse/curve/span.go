package curve

import "fmt"

// Span is a range of log positions that count.
type Span struct{ First, Last uint64 } // inclusive

// numberBits are those of a batch's number in its log position; the epoch is above.
const numberBits = 40

// fewSpans are looked through for every row. More are looked up: each lies in an epoch of its own,
// and begins where that does.
const fewSpans = 8

// Visible is true for rows in one of some spans.
func Visible(spans []Span) string {
	if len(spans) == 0 {
		return none
	}
	var apart []Span
	var epochs, lasts []uint64
	for _, s := range spans {
		if epoch := s.First >> numberBits; len(spans) > fewSpans && epoch == s.Last>>numberBits && s.First&(1<<numberBits-1) <= 1 {
			epochs, lasts = append(epochs, epoch), append(lasts, s.Last&(1<<numberBits-1))
		} else {
			apart = append(apart, s)
		}
	}
	out := joinedWith(apart, " OR ", func(s Span) string { return fmt.Sprintf("lsn BETWEEN %d AND %d", s.First, s.Last) })
	if len(epochs) == 0 {
		return out
	}
	if out != "" {
		out += " OR "
	}
	return out + fmt.Sprintf("bitAnd(lsn, %d) BETWEEN 1 AND transform(bitShiftRight(lsn, %d), %s, %s, toUInt64(0))",
		uint64(1)<<numberBits-1, numberBits, array("UInt64", epochs), array("UInt64", lasts))
}

// Beyond is what spans have that older ones of the run did not have. It is false where they do not
// go on from those: some were merged.
func Beyond(spans, older []Span) (out []Span, more bool) {
	had := make(map[uint64]uint64, len(older))
	for _, s := range older {
		had[s.First] = s.Last
	}
	for _, s := range spans {
		last, known := had[s.First]
		delete(had, s.First)
		switch {
		case !known:
			out = append(out, s)
		case last < s.Last:
			out = append(out, Span{last + 1, s.Last})
		case last > s.Last:
			return nil, false
		}
	}
	return out, len(had) == 0
}
