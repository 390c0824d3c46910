package tables

import (
	"strings"
	"testing"

	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/catalog/filter"
)

// plan is what SQLite would do, a line a step.
func plan(t *testing.T, db *DB, query string, args ...any) string {
	t.Helper()
	rows, err := db.reader.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+query, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var lines []string
	for rows.Next() {
		var id, parent, unused int
		var detail string
		if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, detail)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

// TestAttributesAreReadAlongTheirIndex: no list by an attribute sorts what it
// does not show, and a comparison is a range of the index.
func TestAttributesAreReadAlongTheirIndex(t *testing.T) {
	db := OpenSQLite(t)
	for _, sort := range []string{"lr", "-lr"} {
		w, _, err := selected(catalog.RunFilter{Workspace: "w", Project: "p"})
		if err != nil {
			t.Fatal(err)
		}
		b := &byAttribute{db: db, order: parseOrder(sort), runs: w, after: &cursor{Sort: sort, Type: "f", Key: "0.5", PK: 7}}
		s, err := b.stream("config/lr", &where{})
		if err != nil {
			t.Fatal(err)
		}
		got := plan(t, db, s.query, append(s.args, 10)...)
		if !strings.Contains(got, "SEARCH a USING COVERING INDEX attributes_key (path=? AND ") || !strings.Contains(got, "(key,run)") || strings.Contains(got, "TEMP B-TREE") {
			t.Errorf("sorted by %s:\n%s", sort, got)
		}
	}
	w, _, err := selected(catalog.RunFilter{Workspace: "w", Project: "p", Query: "lr>30"})
	if err != nil {
		t.Fatal(err)
	}
	got := plan(t, db, `SELECT r.pk FROM runs r WHERE `+w.String(), w.args...)
	if !strings.Contains(got, "SEARCH a USING COVERING INDEX attributes_key (path=? AND key>?)") {
		t.Errorf("lr>30:\n%s", got)
	}
}

// TestWordsAreReadAlongTheOrder: a list by words walks an index that has them, and
// sorts nothing.
func TestWordsAreReadAlongTheOrder(t *testing.T) {
	db := OpenSQLite(t)
	for _, sort := range []string{"", "created", "-name", "last", "status", "-status"} {
		f := catalog.RunFilter{Workspace: "w", Project: "p", Query: "adam big", Sort: sort, Limit: 10}
		w, _, err := selected(f)
		if err != nil {
			t.Fatal(err)
		}
		o := parseOrder(sort)
		got := plan(t, db, `SELECT r.description FROM runs r`+o.along(f, w)+` WHERE `+w.String()+` ORDER BY `+o.by()+` LIMIT 10`, w.args...)
		if !strings.Contains(got, "USING INDEX "+o.index+" (project=?)") || strings.Contains(got, "TEMP B-TREE") {
			t.Errorf("sorted by %q:\n%s", sort, got)
		}
		info := plan(t, db, `SELECT r.search FROM runs r`+o.along(f, w)+` WHERE `+w.String(), w.args...)
		if !strings.Contains(info, "USING COVERING INDEX "+o.index) {
			t.Errorf("the words are not in %s:\n%s", o.index, info)
		}
	}
}

// TestAnOpenReadsItsNeighbours: what an open asks of the attempts and writers of its
// run is a search of an index, not a look at each of them.
func TestAnOpenReadsItsNeighbours(t *testing.T) {
	db := OpenSQLite(t)
	for _, c := range []struct{ query, want string }{
		{latestIfOpen, "attempts_job (run=? AND orchestration_id=?)"},
		{neighbours, "PRIMARY KEY (run=?)"},
		{neighbours, "attempts_job (run=? AND orchestration_id=? AND <expr>=? AND opened_ns<?)"},
		{neighbours, "attempts_job (run=? AND orchestration_id=? AND <expr><?)"},
		{neighbours, "attempts_job (run=? AND orchestration_id=? AND <expr>=? AND opened_ns>?)"},
		{neighbours, "attempts_job (run=? AND orchestration_id=? AND <expr>>?)"},
		{`SELECT ` + statusOf + ` FROM runs`, "writers_running (run=?)"},
		{`SELECT ` + statusOf + ` FROM runs`, "writers_deciding (run=? AND attempt=? AND state=?)"},
		{`SELECT ` + statusOf + ` FROM runs`, "writers_deciding (run=? AND attempt=?)"},
		{`SELECT ` + lastOf(`seen_ns`) + ` FROM runs`, "writers_ended (run=?)"},
	} {
		got := plan(t, db, c.query, make([]any, map[string]int{neighbours: 6, latestIfOpen: 4}[c.query])...)
		if !strings.Contains(got, c.want) || strings.Contains(got, "TEMP B-TREE") {
			t.Errorf("%s:\n%s\nhas no %q", c.query, got, c.want)
		}
	}
}

// TestSummariesAreReadAlongTheirMetric: a comparison and a sort read one metric's part of an
// index, and nothing of the other metrics.
func TestSummariesAreReadAlongTheirMetric(t *testing.T) {
	db := OpenSQLite(t)
	w, _, err := selected(catalog.RunFilter{Workspace: "w", Project: "p", Query: "min(loss)<1"})
	if err != nil {
		t.Fatal(err)
	}
	b := &bySummary{byAttribute: byAttribute{db: db, order: parseOrder("-min(loss)"), runs: w}, metric: filter.Metric{Name: "loss", Of: filter.Min}}
	s, err := b.stream()
	if err != nil {
		t.Fatal(err)
	}
	got := plan(t, db, s.query, append(s.args, 10)...)
	if strings.Count(got, "SEARCH s USING COVERING INDEX summaries_metric (metric=?)") != 3 || strings.Contains(got, "SCAN s") || strings.Contains(got, "SCAN r") {
		t.Errorf("sorted by -min(loss):\n%s", got)
	}
}

// TestForksAreFoundByTheirParent: the detail of a run costs the same however many runs its
// project has.
func TestForksAreFoundByTheirParent(t *testing.T) {
	db := OpenSQLite(t)
	if got := plan(t, db, forksOf, 1, maxForks); !strings.Contains(got, "SEARCH r USING INDEX runs_forks (parent=?)") {
		t.Error(got)
	}
}

// TestNamesAreSearched: what people call runs is found along an index that has the order of the
// answer, so that it costs the same however many runs have the name.
func TestNamesAreSearched(t *testing.T) {
	db := OpenSQLite(t)
	for _, f := range []catalog.NameFilter{{}, {Project: "p"}, {Workspace: "w"}, {Workspace: "w", Project: "p"}} {
		f.Name, f.Limit = "x", 11
		for _, way := range called {
			query, args := namedRuns(way.is, way.index, f)
			got := plan(t, db, query, args...)
			if !strings.Contains(got, "SEARCH r USING INDEX "+way.index+" (") || strings.Contains(got, "TEMP B-TREE") || strings.Contains(got, "SCAN") {
				t.Errorf("%+v along %s:\n%s", f, way.index, got)
			}
		}
		queries, args := (&DB{shown: "r.display_name"}).near(f)
		for _, query := range queries {
			got := plan(t, db, query, args...)
			if strings.Contains(got, "TEMP B-TREE") || strings.Contains(got, "SCAN runs USING") {
				t.Errorf("near %+v:\n%s\n%s", f, query, got)
			}
		}
	}
}
