package sqlite_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/catalog/catalogtest"
	"github.com/kymogram/kymogram/server/internal/catalog/sqlite"
)

func open(t testing.TB, dir string) catalog.Catalog {
	t.Helper()
	db, err := sqlite.Open(context.Background(), filepath.Join(dir, "catalog #1%.db"))
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func TestConformance(t *testing.T) { catalogtest.Test(t, open) }

func TestANewerDatabaseIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "catalog.db")
	db, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Errorf("a second Close: %v", err)
	}
	raw, err := sql.Open("sqlite", "file:"+path+"?vfs=kymogram")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := raw.Exec(`INSERT INTO goose_db_version (version_id, is_applied) VALUES (999, 1)`); err != nil {
		t.Fatal(err)
	}
	if err := raw.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = sqlite.Open(t.Context(), path)
	if model.CodeOf(err) != model.CodeConflict || !strings.Contains(err.Error(), "999") {
		t.Errorf("%v, want %s that names the version", err, model.CodeConflict)
	}
}

// TestNoiseIsSetAside: nothing of it can be read, and what it was is kept.
func TestNoiseIsSetAside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "catalog.db")
	noise := strings.Repeat("not a database ", 1000)
	if err := os.WriteFile(path, []byte(noise), 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	h := db.Health()
	if len(h.Lost) == 0 || len(h.SetAside) != 1 {
		t.Fatalf("%+v", h)
	}
	if kept, err := os.ReadFile(h.SetAside[0]); err != nil || string(kept) != noise {
		t.Errorf("%.20s, %v", kept, err)
	}
}

// BenchmarkList lists pages of a project of 100,000 runs.
func BenchmarkList(b *testing.B) {
	path := filepath.Join(b.TempDir(), "catalog.db")
	db, err := sqlite.Open(b.Context(), path)
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	fill(b, db, path, 100_000)
	for name, f := range map[string]catalog.RunFilter{
		"newest": {}, "name": {Sort: "name"}, "status": {Status: model.StatusFailed}, "tag": {Tag: "t7"}, "word": {Query: "run-99999"},
		"attribute": {Query: "lr<0.0001"}, "attributeOfMost": {Query: "lr>0.1"}, "sortedByAttribute": {Sort: "lr"}, "sortedByNone": {Sort: "-nothing"}, "sortedAndFiltered": {Sort: "-lr", Query: "lr<0.0001", Status: model.StatusFailed},
	} {
		f.Workspace, f.Project, f.Limit = "team", "project", 100
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, _, err := db.ListRuns(b.Context(), f); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("projects", func(b *testing.B) {
		for b.Loop() {
			if _, _, err := db.ListProjects(b.Context(), 100, ""); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// fill makes one run through the catalog and the others like it by SQL, since an
// open is an fsync.
func fill(b *testing.B, db *sqlite.DB, path string, runs int) {
	r := model.OpenRequest{Writer: model.WriterID{1}, Workspace: "team", Project: "project", RunName: "run"}
	if _, err := db.Open(b.Context(), r, time.Unix(1, 0)); err != nil {
		b.Fatal(err)
	}
	raw, err := sql.Open("sqlite", "file:"+path+"?vfs=kymogram")
	if err != nil {
		b.Fatal(err)
	}
	defer raw.Close()
	for _, statement := range []string{
		`INSERT INTO runs (id, project, name, search, status, created_ns, last_ns, attempt, orchestration_id)
			WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
			SELECT randomblob(16), 1, 'run-' || i, 'run-' || i, CASE i %% 10 WHEN 0 THEN 'failed' ELSE 'finished' END, 2 + i * 7919 %% %[1]d, 2 + i, 1, 'j' FROM n`,
		`INSERT INTO attributes (run, path, type, value, key) SELECT pk, 'config/lr', 'float64', '{"type":"float64","value":1}', (pk * 7919 %% %[1]d) / 1e5 FROM runs`,
		`INSERT INTO tags (run, tag) SELECT pk, 't' || (pk %% 100) FROM runs WHERE 0 < %[1]d`,
	} {
		if _, err := raw.Exec(fmt.Sprintf(statement, runs)); err != nil {
			b.Fatal(err)
		}
	}
}
