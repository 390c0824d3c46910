package ledger_test

import (
	"strconv"
	"strings"
	"testing"

	pgkit "github.com/kymogram/kymogram/internal/testkit/postgres"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse/ledger"
)

// A run of many series among runs of few: PostgreSQL expects few rows, and must not compare each
// series with each stream. Which rows a plan reads, it says itself.
func TestWideRunAmongNarrowOnes(t *testing.T) {
	t.Parallel()
	server := pgkit.Any(t)
	url := server.URL(t)
	l, err := ledger.Open(t.Context(), url, ledger.Options{Node: "a", Connections: 4})
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	_, schema, _ := strings.Cut(url, "search_path=")
	const wide = 1_000
	fill := func(runs, series string) string {
		return `INSERT INTO ledger_series (run, id, kind, key, known) SELECT int4send(r), s, 1, int4send(s), TRUE FROM ` + runs + ` r, ` + series + ` s;
			INSERT INTO ledger_streams SELECT int4send(r), s, 0, 1, 1, 1, 1, 1, 0, 0, 0, 0, NULL, NULL, 0, 0, 0, 0, 0 FROM ` + runs + ` r, ` + series + ` s;`
	}
	query := strings.ReplaceAll(ledger.SeriesQuery("id >= 0 ORDER BY key LIMIT 1000"), "$1", "int4send(0)")
	plan := server.Do(t, "SET search_path = "+schema+"; "+fill("generate_series(1, 1000)", "generate_series(1, 5)")+" ANALYZE; "+
		fill("generate_series(0, 0)", "generate_series(1, "+strconv.Itoa(wide)+")")+" EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) "+query)
	if !strings.Contains(plan, "ledger_streams") || strings.Contains(plan, "Rows Removed by Join Filter") {
		t.Errorf("series are compared with all streams:\n%s", plan)
	}
}
