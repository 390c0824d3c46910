package sqlite

import (
	"path/filepath"
	"testing"

	"github.com/kymogram/kymogram/server/internal/catalog/tables"
)

// What durability and safety rest on is set on every connection. The mirror is what
// makes a write durable: SQLite syncs its log (NORMAL, 1) only before the file takes it over.
func TestSettings(t *testing.T) {
	db, err := Open(t.Context(), filepath.Join(t.TempDir(), "catalog.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for name, pool := range map[string]tables.Querier{"writer": db.tx, "reader": db.reader} {
		for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "1", "trusted_schema": "0", "foreign_keys": "1"} {
			var got string
			if err := pool.QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&got); err != nil || got != want {
				t.Errorf("%s: %s is %q, %v, want %q", name, pragma, got, err, want)
			}
		}
	}
	if _, err := db.reader.ExecContext(t.Context(), "DELETE FROM runs"); err == nil {
		t.Error("a reader can write")
	}
	// 3.52.0 mends a rare damage of WAL databases: two connections that write and checkpoint at once.
	var fixed bool
	err = db.reader.QueryRowContext(t.Context(), `WITH v(text) AS (SELECT sqlite_version())
		SELECT CAST(text AS INTEGER) > 3 OR CAST(substr(text, 3) AS INTEGER) >= 52 FROM v`).Scan(&fixed)
	if err != nil || !fixed {
		t.Errorf("the SQLite inside the driver is older than 3.52: %v", err)
	}
}
