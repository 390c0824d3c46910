package wandb

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestRunsOfAFilter compares pages of filters, some of which find nothing, with what they say.
func TestRunsOfAFilter(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for i := range 7 {
		l.upsert(fmt.Sprintf("run%d", i), map[string]any{"config": fmt.Sprintf(`{"lr":{"value":%d}}`, i%3), "tags": []string{fmt.Sprint("tag", i%2)}})
	}
	for filter, want := range map[string]string{
		`{}`: "0123456", `{"config.lr":1}`: "14", `{"config.lr":17}`: "", `{"config.absent":{"$exists":true}}`: "",
		`{"tags":"tag1"}`: "135", `{"$and":[{"tags":"tag0"},{"config.lr":0}]}`: "06", `{"name":"run5"}`: "5", `{"host":"none"}`: "",
	} {
		for _, first := range []int{1, 2, 50} {
			for _, order := range []string{"+created_at", "-created_at", "+config.lr,+name"} {
				got, cursor := "", ""
				for range 20 {
					page := l.want(fmt.Sprintf(`query Runs($f: JSONString) { project(name: "p", entityName: "w") { runCount(filters: $f)
						runs(filters: $f, order: %q, first: %d, after: %q) { edges { node { name } } pageInfo { endCursor hasNextPage } } } }`, order, first, cursor),
						map[string]any{"f": filter})
					project := page["project"].(map[string]any) //nolint:forcetypeassert // a test may
					if n := int(project["runCount"].(float64)); n != len(want) {
						t.Fatalf("%s: %d runs are counted, want %d", filter, n, len(want))
					}
					runs := project["runs"].(map[string]any)
					for _, e := range runs["edges"].([]any) {
						got += strings.TrimPrefix(e.(map[string]any)["node"].(map[string]any)["name"].(string), "run")
					}
					info := runs["pageInfo"].(map[string]any)
					if cursor, _ = info["endCursor"].(string); info["hasNextPage"] == false {
						break
					}
				}
				if sorted := sortedText(got); sorted != want || order == "+created_at" && got != want {
					t.Errorf("%s by %s, %d a page: %q, want %q", filter, order, first, got, want)
				}
			}
		}
	}
}

func sortedText(s string) string {
	parts := strings.Split(s, "")
	slices.Sort(parts)
	return strings.Join(parts, "")
}
