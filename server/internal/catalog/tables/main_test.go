package tables_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kymogram/kymogram/server/internal/catalog/sqlite"
	"github.com/kymogram/kymogram/server/internal/catalog/tables"
)

func TestMain(m *testing.M) {
	tables.OpenSQLite = func(t testing.TB) *tables.DB {
		t.Helper()
		db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "catalog.db"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		return db.DB
	}
	os.Exit(m.Run())
}
