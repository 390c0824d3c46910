package sqlite

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
)

// olderDatabase makes a file as a version of Kymogram before checksums wrote it.
func olderDatabase(t *testing.T, version int64, statements ...string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "catalog.db")
	err := using(path, "", "_pragma=journal_mode(WAL)", func(db *sql.DB) error {
		provider, err := migrations(db)
		if err != nil {
			return err
		}
		if _, err := provider.UpTo(t.Context(), version); err != nil {
			return err
		}
		for _, s := range statements {
			if _, err := db.Exec(s); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestSilentRunsOfOlderDatabases: before version 8 a receiver's run that had gone
// silent was lost.
func TestSilentRunsOfOlderDatabases(t *testing.T) {
	path := olderDatabase(t, 7, `INSERT INTO projects (id, workspace, name) VALUES (1, 'w', 'p')`,
		`INSERT INTO runs (pk, id, project, name, status, created_ns, last_ns, attempt, orchestration_id) VALUES
			(1, unhex('01000000000000000000000000000000'), 1, 'influx', 'lost', 1, 1, 1, 'a'), (2, unhex('02000000000000000000000000000000'), 1, 'python/1', 'lost', 1, 1, 1, 'b'),
			(3, unhex('03000000000000000000000000000000'), 1, 'promwrite', 'lost', 1, 1, 1, 'c')`,
		`INSERT INTO writers (id, run, attempt, state, expired, host, pid, hotkey, sdk, opened_ns, seen_ns) SELECT id, id, 1, 'gone', 1, '', 0, '', name, 1, 1 FROM runs`)
	db, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for name, status := range map[string]model.RunStatus{"influx": model.StatusSilent, "python/1": model.StatusLost, "promwrite": model.StatusSilent} {
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

// TestOlderDatabasesTakeViews: before version 13 there were none.
func TestOlderDatabasesTakeViews(t *testing.T) {
	db, err := Open(t.Context(), olderDatabase(t, 12, `INSERT INTO projects (id, workspace, name) VALUES (7, 'w', 'p')`))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if list, err := db.ListViews(t.Context(), "w", "p"); len(list) != 0 || err != nil {
		t.Errorf("%v, %v", list, err)
	}
	v := catalog.View{Name: "v", Title: "t", Panels: 1, Tag: "a", Document: "{}"}
	if err := db.PutView(t.Context(), "w", "p", v, catalog.Condition{Absent: true}); err != nil {
		t.Fatal(err)
	}
	if got, err := db.View(t.Context(), "w", "p", "v"); err != nil || *got != v {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestMigrationsAreNumbered: how many there are is the version of the newest.
func TestMigrationsAreNumbered(t *testing.T) {
	db, err := Open(t.Context(), filepath.Join(t.TempDir(), "catalog.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if v, err := schemaOf(t.Context(), db.reader); v != int64(latestMigration()) || err != nil {
		t.Errorf("version %d of %d migrations, %v", v, latestMigration(), err)
	}
}

// TestTreesOfOlderDatabases: before version 20 trees had no versions.
func TestTreesOfOlderDatabases(t *testing.T) {
	db, err := Open(t.Context(), olderDatabase(t, 19, `INSERT INTO projects (id, workspace, name) VALUES (1, 'team', 'p')`,
		`INSERT INTO runs (pk, id, project, name, status, created_ns, last_ns, attempt, orchestration_id) VALUES (1, unhex('01000000000000000000000000000000'), 1, 'a', 'lost', 1, 1, 1, 'a'),
			(2, unhex('02000000000000000000000000000000'), 1, 'b', 'lost', 2, 1, 1, 'b')`,
		`INSERT INTO trees (run, name, changed_ns, text) VALUES (1, 'x', 1, 'of a'), (2, 'x', 1, 'of b')`))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var texts []string
	for run, err := range db.RunsWithTrees(t.Context(), catalog.TreeQuery{Workspace: "team", Project: "p", Names: []string{"x"}}) {
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, run.Texts[0])
	}
	if strings.Join(texts, ", ") != "of a, of b" {
		t.Errorf("%q", texts)
	}
}
