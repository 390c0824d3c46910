package loose

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestIndexAsMembers compares an index with the walk that checks what it passes.
func TestIndexAsMembers(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(15, 16))
	indexed := 0
	for range 20_000 {
		text := []byte(randomText(r, 3))
		index := NewIndex(text)
		if index == nil {
			continue
		}
		indexed++
		var got, want []string
		for key, val := range index.Pairs(text) {
			got = append(got, string(key)+" is "+string(val))
		}
		for m, err := range Members(text) {
			if err != nil {
				t.Fatalf("%q: %v", text, err)
			}
			want = append(want, string(m.RawKey)+" is "+string(m.Value))
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%q has %q, want %q", text, got, want)
		}
	}
	if indexed < 1000 {
		t.Errorf("%d texts had an index: the test sees one side only", indexed)
	}
}

// TestIndexIsSmall: it takes at most half of the text's bytes, or there is none.
func TestIndexIsSmall(t *testing.T) {
	t.Parallel()
	value := strings.Repeat("x", math.MaxUint16-len(`{"a":""}`))
	for text, want := range map[string]int{
		`{}`: 0, `[1,2]`: 0, `"text"`: 0, ``: 0, `{"a":1,"b":2}`: 0, `{"option":0.125}`: 1, `{"rate":0.125,"other":0.25}`: 0, `{"rate":0.125, "other":"a text"}`: 2,
		`{"a":"` + value + `"}`: 1, `{"a":"` + value + `x"}`: 0,
	} {
		if got := len(NewIndex([]byte(text))); got != want {
			t.Errorf("%.40s has %d members in its index, want %d", text, got, want)
		}
	}
	var many strings.Builder
	for i := range 5_000 {
		fmt.Fprintf(&many, `%c"%d":0`, "{,"[min(i, 1)], i)
	}
	if x := NewIndex([]byte(many.String() + "}")); x != nil {
		t.Errorf("%d short members have an index", len(x))
	}
}
