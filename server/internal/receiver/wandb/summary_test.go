package wandb

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/server/internal/catalog"
)

// TestSummaryOfManyKeys: a summary may have more keys that are no series than a batch has
// updates. The SDK would not send such a chunk again, nor anything after it.
func TestSummaryOfManyKeys(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.begins("run")
	const keys = 12_000
	for _, value := range []int{1, 2} {
		parts := []string{`"loss":0.5`, `"":3`}
		for i := range keys {
			parts = append(parts, fmt.Sprintf(`"best_%05d":%d`, i, value))
		}
		text := "{" + strings.Join(parts, ",") + "}"
		l.sends("run", map[string]any{"files": map[string]any{fileHistory: linesAt(value, plainRow(value, int64(value), `"loss":0.5`)), fileSummary: linesAt(0, text)}})
		if got := l.run("run")["summaryMetrics"]; got != text {
			t.Fatalf("the summary is %.100s", got)
		}
		found, last := 0, "summary/best"
		for cursor := ""; ; {
			var page []catalog.Attribute
			var err error
			if page, cursor, err = l.catalog.Attributes(t.Context(), l.id("run"), cursor); err != nil {
				t.Fatal(err)
			}
			for _, a := range page {
				if strings.HasPrefix(a.Path, last) {
					found++
				} else if strings.HasPrefix(a.Path, "summary/loss") {
					t.Error("a key of the history is an attribute")
				}
			}
			if cursor == "" {
				break
			}
		}
		if found != keys {
			t.Errorf("%d attributes for %d keys", found, keys)
		}
	}
}
