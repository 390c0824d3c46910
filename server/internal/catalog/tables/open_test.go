package tables

import (
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
)

// TestANewRunsRowIsWhole: what an open says of a new run's row is what the row is derived
// to be, whoever opens it.
func TestANewRunsRowIsWhole(t *testing.T) {
	db := OpenSQLite(t)
	for _, sdk := range []string{"python/1", "receiver/influx", "system/1"} {
		r := newRun(t, db, sdk)
		before := rowOf(t, db, r)
		if err := db.write(t.Context(), "derive", func(tx Tx) error { return refreshRun(t.Context(), tx, before.pk, before.seen) }); err != nil {
			t.Fatal(err)
		}
		if after := rowOf(t, db, r); after != before {
			t.Errorf("%s: the row said\n%+v, derived it is\n%+v", sdk, before, after)
		}
		var writers int
		if err := db.reader.QueryRowContext(t.Context(), `SELECT count(*) FROM writers WHERE run = (SELECT id FROM runs WHERE pk = ?)`, before.pk).Scan(&writers); err != nil || writers != before.writers {
			t.Errorf("%s: the row counts %d writers of %d; %v", sdk, before.writers, writers, err)
		}
	}
}

// derived is what a run's row keeps of other tables, and its key.
type derived struct {
	pk, last, seen               int64
	writers, attempt             int
	tags, search, status, parent string
}

func newRun(t *testing.T, db *DB, sdk string) string {
	t.Helper()
	name := "Run of " + sdk
	_, err := db.Open(t.Context(), model.OpenRequest{Writer: model.WriterID{7, sdk[0]}, Workspace: "w", Project: "p", RunName: name, DisplayName: "Shown " + sdk, SDK: sdk}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return name
}

func rowOf(t *testing.T, db *DB, name string) (r derived) {
	t.Helper()
	err := db.reader.QueryRowContext(t.Context(), `SELECT pk, last_ns, seen_ns, writers, attempt, tags, search, status, coalesce(hex(parent), '') FROM runs WHERE name = ?`, name).
		Scan(&r.pk, &r.last, &r.seen, &r.writers, &r.attempt, &r.tags, &r.search, &r.status, &r.parent)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
