package clickhouse_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
)

// TestRestoredLedger: PostgreSQL is restored to an earlier moment, as docs/scale-out.md says.
// Points that it does not know never count, also not as those of a series that came since.
func TestRestoredLedger(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "docs", "scale-out.md"))
	if err != nil {
		t.Fatal(err)
	}
	statement := regexp.MustCompile(`(?m)^psql --dbname kymogram --command '(.*)'$`).FindStringSubmatch(string(page))
	if statement == nil {
		t.Fatal("the page has no command for a restored database")
	}
	r := newRig(t)
	run, w := model.RunID{1}, model.WriterID{1}
	write := func(node, metric string, first, last uint64) {
		t.Helper()
		e := r.open(t, node)
		defer e.Close()
		open(t, e, run, w)
		b := numbers(run, w, first, last, false)
		b.Groups[0].Columns[0].Series = model.NewSeriesKey(metric, "", nil)
		if ack, err := e.Append(t.Context(), b); err != nil || ack.Mark != last {
			t.Fatalf("%+v, %v", ack, err)
		}
	}
	write("a", "kept", 1, 3)
	var restore strings.Builder
	for _, table := range []string{"runs", "spans", "attempts", "writers", "marks", "series", "streams", "starts"} {
		name := r.schema + ".ledger_" + table
		r.ledger.Do(t, "CREATE TABLE "+name+"_backup AS TABLE "+name)
		restore.WriteString("TRUNCATE " + name + "; INSERT INTO " + name + " TABLE " + name + "_backup; ")
	}
	write("b", "forgotten", 4, 9)
	r.ledger.Do(t, restore.String())
	r.ledger.Do(t, "SET search_path = "+r.schema+"; "+statement[1])
	write("b", "new", 4, 5)
	e := r.open(t, "c")
	list, _, err := e.ListSeries(t.Context(), run, store.SeriesFilter{Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]uint64{}
	for _, s := range list {
		got[s.Key.Metric] = s.Count
	}
	if len(got) != 2 || got["kept"] != 3 || got["new"] != 2 {
		t.Errorf("%v", got)
	}
	if _, visible, _ := r.stored(t); visible != "5" {
		t.Errorf("%s points count, want 5", visible)
	}
}
