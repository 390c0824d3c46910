package statelog

import (
	"regexp"
	"strings"
	"testing"
	"time"
)

// A page of a list is read by index: one that is sorted reads all payloads that are
// left, for every page.
func TestListsAreNotSorted(t *testing.T) {
	l, err := Open(t.Context(), t.TempDir()+"/state.db", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for name, query := range map[string]string{"newest": newestPlaces, "second": secondPlaces, "list": listed} {
		rows, err := l.base.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+query, 1, 0, "", -1, false)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		steps := 0
		for rows.Next() {
			var id, parent, unused int
			var step string
			if err := rows.Scan(&id, &parent, &unused, &step); err != nil {
				t.Fatal(err)
			}
			steps++
			if few := name == "list" && (strings.Contains(step, "TEMP") || regexp.MustCompile(`^SCAN [nsp]$`).MatchString(step)); few {
				continue // of the places that were found
			}
			if strings.Contains(step, "TEMP") || strings.Contains(step, "SCAN") {
				t.Errorf("%s: %s", name, step)
			}
		}
		if steps == 0 || rows.Err() != nil {
			t.Errorf("%s: %d steps: %v", name, steps, rows.Err())
		}
	}
}
