package statelog

import (
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
	rows, err := l.base.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+listed, 1, 0, "", -1, false, batch)
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
		if steps++; strings.Contains(step, "TEMP") || strings.Contains(step, "SCAN") {
			t.Error(step)
		}
	}
	if steps == 0 || rows.Err() != nil {
		t.Errorf("%d steps: %v", steps, rows.Err())
	}
}
