package sqlite

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
)

// TestSilentRunsOfOlderDatabases: before version 8 a receiver's run that had gone
// silent was lost.
func TestSilentRunsOfOlderDatabases(t *testing.T) {
	path := filepath.Join(t.TempDir(), "catalog.db")
	db, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]model.RunStatus{"influx": model.StatusSilent, "python/1": model.StatusLost, "promwrite": model.StatusSilent}
	n := byte(0)
	for sdk := range want {
		n++
		if _, err := db.Open(t.Context(), model.OpenRequest{Writer: model.WriterID{n}, Workspace: "w", Project: "p", RunName: sdk, SDK: sdk}, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := db.Expire(t.Context(), time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	for _, back := range []string{`DELETE FROM goose_db_version WHERE version_id >= 8`, `ALTER TABLE writers DROP COLUMN initial`} {
		if _, err := db.tx.ExecContext(t.Context(), back); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if db, err = Open(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for name, status := range want {
		var got model.RunStatus
		if err := db.reader.QueryRow(`SELECT status FROM runs WHERE name = ?`, name).Scan(&got); err != nil || got != status {
			t.Errorf("the run of %s is %s, want %s (%v)", name, got, status, err)
		}
	}
	revived, err := db.Seen(t.Context(), map[model.WriterID]time.Time{{1}: time.Now().Add(2 * time.Hour)})
	if err != nil || len(revived) != 1 {
		t.Errorf("a sign of life revives %v, %v", revived, err)
	}
}
