package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/testkit/postgres"
)

// TestCatalogInPostgreSQL: a server keeps runs and keys in a database and no catalog in its
// folder; what would read one there says where it is.
func TestCatalogInPostgreSQL(t *testing.T) {
	database := postgres.Start(t)
	url := database.URL(t)
	k := serveKitchen(t, "--catalog", url)
	folder := filepath.Join(k.env["HOME"], "data")
	table := filepath.Join(k.env["HOME"], "runs.csv")
	if err := os.WriteFile(table, []byte("step,loss\n1,0.5\n2,0.25\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	k.ok("import", "csv", table, "--project", "p")
	if list := k.ok("runs", "list", "p"); !strings.Contains(list, "runs") {
		t.Error(list)
	}
	for end := time.Now().Add(time.Minute); !strings.Contains(k.ok("runs", "list", "p", "--q", "loss<0.3"), "runs"); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) { // what lists compare is read in the background
			t.Fatal("the run is not found by its metric")
		}
	}
	if keys := k.ok("key", "list"); !strings.Contains(keys, "admin") {
		t.Error(keys)
	}
	files, err := filepath.Glob(filepath.Join(folder, "catalog.db*"))
	if err != nil || len(files) > 0 {
		t.Errorf("%v, %v", files, err)
	}
	for _, args := range [][]string{
		{"data", "backup", "--data", folder, "--to", filepath.Join(t.TempDir(), "copy")},
		{"data", "verify", "--data", folder},
		{"key", "list", "--data", folder},
	} {
		code, out, errs := k.run(args...)
		if code == 0 || !strings.Contains(errs, "the catalog of "+folder+" is in postgres://127.0.0.1") || strings.Contains(out+errs, "search_path") {
			t.Errorf("%q: %d\n%s%s", args, code, out, errs)
		}
	}
	// Without the flag such a folder would get an empty catalog.
	moved := t.TempDir()
	if err := os.WriteFile(filepath.Join(moved, "catalog.elsewhere"), []byte("postgres://h:5432/db\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, errs := k.run("serve", "--data", moved, "--http", "127.0.0.1:0")
	if code == 0 || !strings.Contains(errs, "is in postgres://h:5432/db") || !strings.Contains(errs, "--catalog") {
		t.Errorf("%d %s", code, errs)
	}
	// Nor does it get another, empty one by a slip in the address.
	code, _, errs = k.run("serve", "--data", moved, "--http", "127.0.0.1:0", "--catalog", database.URL(t))
	if code == 0 || !strings.Contains(errs, "has no catalog yet, and this data folder has one elsewhere") {
		t.Errorf("%d %s", code, errs)
	}
	// Another data folder has other points.
	code, _, errs = k.run("serve", "--data", t.TempDir(), "--http", "127.0.0.1:0", "--catalog", url)
	if code == 0 || !strings.Contains(errs, "is the catalog of another server's data folder") {
		t.Errorf("%d %s", code, errs)
	}
	// A folder that has a catalog keeps it.
	old := t.TempDir()
	if err := os.WriteFile(filepath.Join(old, "catalog.db"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, errs = k.run("serve", "--data", old, "--http", "127.0.0.1:0", "--catalog", database.URL(t))
	if code == 0 || !strings.Contains(errs, "has a catalog, which a server with postgres://") {
		t.Errorf("%d %s", code, errs)
	}
}
