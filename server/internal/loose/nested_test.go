package loose

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// TestBlocksSkipAsBytes holds the skip by blocks against the one by bytes, from
// many places within a block. On damaged texts it only ends.
func TestBlocksSkipAsBytes(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(13, 14))
	short := 0
	for range 5_000 {
		var parts []string
		for range 1 + r.IntN(20) {
			parts = append(parts, randomText(r, 3), `"`+strings.Repeat(`\`, 2*r.IntN(40))+`\"`+strings.Repeat("_[y}", r.IntN(30))+`"`)
		}
		text := []byte(strings.Repeat(" ", r.IntN(64)) + "[" + strings.Join(parts, ",") + "]" + randomText(r, 2))
		i := space(text, 0)
		got, want := pastNested(text, i), pastRest(text, i, 0, false, false)
		if got != want {
			t.Fatalf("%q ends at %d, want %d", text[i:], got, want)
		}
		if text = damage(r, text); pastNested(text, 0) > len(text) {
			t.Fatalf("%q ends beyond its end", text)
		}
		if got < len(text) {
			short++
		}
	}
	if short < 2500 {
		t.Errorf("%d texts ended before the last byte: the test sees one side only", short)
	}
}
