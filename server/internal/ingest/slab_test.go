package ingest_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/kymogram/kymogram/server/internal/ingest"
)

// Columns that grow side by side never touch each other, over several requests.
func TestColumnsOfASlabAreApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var slab ingest.Slab[float64]
		for range rapid.IntRange(1, 4).Draw(t, "requests") {
			n := rapid.IntRange(1, 20).Draw(t, "columns")
			got, want := make([][]float64, n), make([][]float64, n)
			for i := range rapid.IntRange(0, 3000).Draw(t, "values") {
				k := i * 7 % n
				got[k], want[k] = slab.Append(got[k], float64(i)), append(want[k], float64(i))
			}
			for k := range got {
				if !slices.Equal(got[k], want[k]) {
					t.Fatalf("column %d is %v, want %v", k, got[k], want[k])
				}
			}
			slab.Reset()
		}
	})
}
