package clickhouse_test

import (
	"math"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse"
)

// A ledger of before there were streams is opened, read, and written to.
func TestOlderLedger(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	old := r.open(t, "a")
	run, w := model.RunID{1}, model.WriterID{1}
	open(t, old, run, w)
	if _, err := old.Append(t.Context(), numbers(run, w, 1, 8, false)); err != nil {
		t.Fatal(err)
	}
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	r.ledger.Do(t, "SET search_path = "+r.schema+`; DELETE FROM ledger_version WHERE version_id > 3; DROP TABLE ledger_streams, ledger_blocks, ledger_drains;
		ALTER TABLE ledger_runs DROP logged; ALTER TABLE ledger_store DROP log, DROP moving;
		ALTER TABLE ledger_runs ADD top BIGINT; ALTER TABLE ledger_series DROP known; UPDATE ledger_series SET plain = TRUE, attempt = 1`)
	e := r.open(t, "a")
	describes(t, e, run, 8)
	for n := uint64(8); n < 20; n += 4 {
		if _, err := e.Append(t.Context(), numbers(run, w, n+1, n+4, false)); err != nil {
			t.Fatal(err)
		}
		describes(t, e, run, n+4)
	}
}

// describes: the run has one series, of the numbers from 1 to the last.
func describes(t *testing.T, e *clickhouse.Engine, run model.RunID, last uint64) {
	t.Helper()
	list, more, err := e.ListSeries(t.Context(), run, store.SeriesFilter{Limit: 10})
	if err != nil || more || len(list) != 1 {
		t.Fatalf("%+v, %v, %v", list, more, err)
	}
	if s := list[0]; s.Count != last || s.Last.Value.Float != float64(last) || s.MinTimeNs != 1 || s.MaxTimeNs != int64(last) || s.Superseded != 0 {
		t.Errorf("%+v, want the numbers up to %d", s, last)
	}
	found, err := e.Buckets(t.Context(), store.BucketsRequest{Run: run, Series: list[0].ID, Axis: model.AxisStep, From: math.MinInt64, To: math.MaxInt64, N: 1})
	if err != nil || len(found) != 1 || found[0].Count != last || found[0].Sum != float64(last*(last+1)/2) {
		t.Errorf("%+v, %v, want the sum up to %d", found, err, last)
	}
	stats, err := e.RunStats(t.Context(), run)
	if err != nil || stats.Stored != last || stats.Superseded != 0 {
		t.Errorf("%+v, %v", stats, err)
	}
}
