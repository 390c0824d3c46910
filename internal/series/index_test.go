package series

import (
	"strconv"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// The index against a plain map, whatever the order of additions and look-ups.
func TestIndexIsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x, want := NewIndex[int](), map[string]*int{}
		for range rapid.IntRange(1, 200).Draw(t, "acts") {
			text := strconv.Itoa(rapid.IntRange(0, 20).Draw(t, "key"))
			if want[text] == nil && rapid.Bool().Draw(t, "add") {
				want[text] = new(int)
				x.Add(text, want[text])
			}
			if got := x.Find(text); got != want[text] {
				t.Fatalf("%q: %p, want %p", text, got, want[text])
			}
		}
		seen := 0
		x.Each(func(*int) { seen++ })
		if seen != len(want) {
			t.Fatalf("%d series, want %d", seen, len(want))
		}
	})
}

func TestIndexFromManyGoroutines(t *testing.T) {
	x := NewIndex[int]()
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for k := range 200 {
				text := strconv.Itoa(i*1000 + k)
				s := new(int)
				x.Add(text, s)
				for range 3 {
					if x.Find(text) != s {
						t.Errorf("series %s is lost", text)
					}
				}
			}
		})
	}
	group.Wait()
}
