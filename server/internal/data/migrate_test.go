package data_test

import (
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/kymogram/kymogram/internal/model"
	server "github.com/kymogram/kymogram/internal/testkit/postgres"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/catalog/catalogtest"
	"github.com/kymogram/kymogram/server/internal/catalog/postgres"
	"github.com/kymogram/kymogram/server/internal/catalog/sqlite"
	"github.com/kymogram/kymogram/server/internal/data"
)

const owner = "this folder"

func move(ctx context.Context, folder data.Folder, url string, back bool) (*data.Migrated, error) {
	return folder.Migrate(ctx, data.Migration{
		Catalog: url, Back: back, Log: slog.New(slog.DiscardHandler), Shown: io.Discard, Owner: func() (string, error) { return owner, nil },
	})
}

func mustMove(t testing.TB, folder data.Folder, url string, back bool) *data.Migrated {
	t.Helper()
	moved, err := move(context.Background(), folder, url, back)
	if err != nil {
		t.Fatalf("move, back %v: %v", back, err)
	}
	return moved
}

// inFolder opens the catalog of a folder, which need not be there yet.
func inFolder(t testing.TB, folder data.Folder) *sqlite.DB {
	t.Helper()
	db, err := sqlite.Open(t.Context(), folder.Catalog())
	if err == nil {
		err = os.MkdirAll(folder.Store(), 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// TestMigrateHistories moves what the tests of the suite leave, random histories too, into a
// database and back: make test-cluster what each leaves, else what each fourth does. Rows are
// compared by a naive dump, and by what a catalog answers.
func TestMigrateHistories(t *testing.T) {
	each := 1
	if os.Getenv("CLUSTER") == "" {
		each = 4
		if err := flag.Set("rapid.checks", "10"); err != nil {
			t.Fatal(err)
		}
	}
	url := server.Any(t).URL(t) // each leaves a copy, which the next replaces
	seen := map[string]bool{}
	catalogtest.Test(t, func(t testing.TB, dir string) catalog.Catalog {
		folder := data.Folder(dir)
		if !seen[dir] && !strings.Contains(t.Name(), "Damage") {
			seen[dir] = true
			if len(seen)%each > 0 {
				return inFolder(t, folder)
			}
			// Called after the suite has closed it.
			t.Cleanup(func() { thereAndBack(t, folder, url) })
		}
		return inFolder(t, folder)
	})
}

func thereAndBack(t testing.TB, folder data.Folder, url string) {
	t.Helper()
	before, said := dump(t, "sqlite", folder.Catalog()), answersOf(t, folder, "")
	out := mustMove(t, folder, url, false)
	if diff := cmp.Diff(before, dump(t, "pgx", url)); diff != "" {
		t.Errorf("in PostgreSQL (-file +database):\n%s", diff)
	}
	if diff := cmp.Diff(said, answersOf(t, folder, url)); diff != "" {
		t.Errorf("PostgreSQL answers (-file +database):\n%s", diff)
	}
	if out.Aside == "" || int(out.Rows) != len(before) {
		t.Errorf("%d rows are %+v", len(before), out)
	}
	mustMove(t, folder, url, true)
	if diff := cmp.Diff(before, dump(t, "sqlite", folder.Catalog())); diff != "" {
		t.Errorf("moved back (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(said, answersOf(t, folder, "")); diff != "" {
		t.Errorf("moved back it answers (-before +after):\n%s", diff)
	}
}

// dump is every row of every table but those of one database only.
func dump(t testing.TB, driver, place string) (lines []string) {
	t.Helper()
	db, err := sql.Open(driver, place)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	names := `SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'`
	if driver == "pgx" {
		names = `SELECT tablename::text FROM pg_tables WHERE schemaname = current_schema()`
	}
	for _, row := range query(t, db, names) {
		table := row["name"] + row["tablename"]
		if slices.Contains([]string{"goose_db_version", "position", "owner"}, table) {
			continue
		}
		columns := "*"
		if table == "trees" && driver == "sqlite" {
			columns = "*, rowid"
		}
		for _, row := range query(t, db, "SELECT "+columns+" FROM "+table) {
			if table == "attributes" {
				row["key"] = naiveKey(row["key"])
			}
			lines = append(lines, fmt.Sprint(table, row)) // maps print in order
		}
	}
	slices.Sort(lines)
	return lines
}

// naiveKey leaves of a key whether there is one: what it sorts like is for answers to show.
func naiveKey(key string) string { return strconv.FormatBool(key != "<nil>") }

func query(t testing.TB, db *sql.DB, text string) (out []map[string]string) {
	t.Helper()
	rows, err := db.QueryContext(context.Background(), text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	defer rows.Close()
	columns, err := rows.ColumnTypes()
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		values, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			t.Fatal(err)
		}
		row := map[string]string{}
		for i, c := range columns {
			row[c.Name()] = naiveValue(values[i], c.DatabaseTypeName())
		}
		out = append(out, row)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

func naiveValue(v any, kind string) string {
	switch v := v.(type) {
	case bool:
		return strconv.Itoa(map[bool]int{true: 1}[v])
	case []byte:
		return hex.EncodeToString(v)
	case float64:
		return strconv.FormatFloat(v+0, 'g', -1, 64) + "r"
	case string:
		if kind == "NUMERIC" && strings.ContainsAny(v, ".IN") {
			f, _ := strconv.ParseFloat(v, 64)
			return strconv.FormatFloat(f, 'g', -1, 64) + "r"
		}
		return strings.ToValidUTF8(strings.NewReplacer("\x01\x02", "\x00", "\x01\x01", "\x01").Replace(v), "\uFFFD")
	}
	return fmt.Sprint(v)
}

// answersOf is what the catalog of a folder answers, from the file or from a database.
func answersOf(t testing.TB, folder data.Folder, url string) (lines []string) {
	t.Helper()
	var c catalog.Catalog
	var err error
	if url == "" {
		c, err = sqlite.Open(context.Background(), folder.Catalog())
	} else {
		c, err = postgres.Open(context.Background(), url, postgres.Options{Owner: owner, Known: true})
	}
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx := context.Background()
	add := func(what string, v any, err error) {
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		text, err := json.Marshal(v)
		if err != nil { // a metric without a finite value has no form in JSON
			text = fmt.Appendf(nil, "%+v", v)
		}
		lines = append(lines, what+": "+string(text))
	}
	keys, err := c.ListKeys(ctx)
	add("keys", keys, err)
	projects, _, err := c.ListProjects(ctx, 1000, "")
	add("projects", projects, err)
	for _, p := range projects {
		views, err := c.ListViews(ctx, p.Workspace, p.Name)
		add("views", views, err)
		types, err := c.ArtifactTypes(ctx, p.Workspace, p.Name)
		add("types", types, err)
		for _, sort := range []string{"name", "-x", "config/x", "max(loss)", "-status", "lr"} {
			runs, _, err := c.ListRuns(ctx, catalog.RunFilter{Workspace: p.Workspace, Project: p.Name, Limit: 20, Sort: sort, Configs: true})
			add("runs by "+sort, runs, err)
			for i := range runs {
				detail, err := c.GetRun(ctx, runs[i].ID)
				add("run", detail, err)
				metrics, err := c.Summaries(ctx, runs[i].ID)
				slices.SortFunc(metrics, func(a, b catalog.Summary) int { return strings.Compare(a.Metric, b.Metric) })
				add("metrics", metrics, err)
				files, _, err := c.Files(ctx, runs[i].ID, catalog.FileFilter{Limit: 100})
				add("files", files, err)
			}
		}
	}
	return lines
}

// many makes a catalog that takes a while to move.
func many(t testing.TB, folder data.Folder, runs int) {
	t.Helper()
	db := inFolder(t, folder)
	for n := range runs {
		var updates []model.Update
		for i := range 20 {
			updates = append(updates, model.Update{Op: model.OpSetAttribute, Path: fmt.Sprint("config/", i), Value: model.FloatValue(float64(n) / float64(i))})
		}
		opened, err := db.Open(t.Context(), model.OpenRequest{
			Writer: model.WriterID{1, byte(n >> 8), byte(n)}, Workspace: "w", Project: "p", RunName: fmt.Sprint("run", n), OrchestrationID: fmt.Sprint("job", n), Initial: updates,
		}, time.Unix(1_700_000_000+int64(n), 0))
		if err == nil {
			err = db.PutSummaries(t.Context(), opened.Run, []catalog.Summary{{Metric: "loss", Points: 1, Last: *model.FloatValue(float64(n))}}, time.Unix(1_800_000_000, 0))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestMigrateKilled kills moves at random moments, in both directions: make test-cluster 300
// times. After each at most one
// of folder and database is served, and the same command finishes the move.
func TestMigrateKilled(t *testing.T) {
	database := server.Any(t)
	folder, url := data.Folder(t.TempDir()), database.URL(t)
	many(t, folder, 300)
	before := dump(t, "sqlite", folder.Catalog())
	began := time.Now()
	mustMove(t, folder, url, false)
	mustMove(t, folder, url, true)
	whole := time.Since(began) / 2
	states := map[string]int{}
	rounds := 6
	if os.Getenv("CLUSTER") != "" {
		rounds = 100
	}
	for round := range rounds {
		back := round%2 == 1
		for range 3 {
			child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestMigrateChild$")
			child.Env = append(os.Environ(), "MIGRATE_CHILD="+string(folder), "MIGRATE_URL="+url, fmt.Sprint("MIGRATE_BACK=", back))
			if err := child.Start(); err != nil {
				t.Fatal(err)
			}
			time.AfterFunc(rand.N(2*whole+300*time.Millisecond), func() { _ = child.Process.Kill() })
			_ = child.Wait() // killed or done
			states[claims(t, folder, url)]++
		}
		mustMove(t, folder, url, back)
		if back {
			if err := folder.Elsewhere(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(before, dump(t, "sqlite", folder.Catalog())); diff != "" {
				t.Fatalf("(-before +after):\n%s", diff)
			}
			continue
		}
		db, err := postgres.Open(t.Context(), url, postgres.Options{Owner: owner, Known: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before, dump(t, "pgx", url)); diff != "" {
			t.Fatalf("(-before +after):\n%s", diff)
		}
	}
	t.Logf("who was served after %d kills: %v", 3*rounds, states)
}

// claims says who may be served now: by the rules of a start, without one.
func claims(t testing.TB, folder data.Folder, url string) string {
	t.Helper()
	file := false
	if _, err := os.Stat(folder.Catalog()); err == nil {
		file = folder.Elsewhere() == nil
	}
	known, err := folder.MayBeElsewhere("a database")
	served := err == nil && known
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	name := fmt.Sprint(query(t, db, `SELECT name FROM owner`))
	switch {
	case file && served, served && !strings.Contains(name, owner), file && name == "[map[name:"+owner+"]]":
		t.Fatalf("file %v, database %v, which is of %s", file, served, name)
	case file:
		return "file"
	case served:
		return "database"
	}
	return "none"
}

// TestMigrateChild is the process that is killed.
func TestMigrateChild(t *testing.T) {
	folder := os.Getenv("MIGRATE_CHILD")
	if folder == "" {
		t.Skip("it is a part of TestMigrateKilled")
	}
	mustMove(t, data.Folder(folder), os.Getenv("MIGRATE_URL"), os.Getenv("MIGRATE_BACK") == "true")
}

// TestMigrateCut puts a folder and its database into the states between two steps, which kills
// seldom meet: no server starts, or takes the database, and both directions finish.
func TestMigrateCut(t *testing.T) {
	database := server.Any(t)
	folder := data.Folder(t.TempDir())
	many(t, folder, 3)
	before := dump(t, "sqlite", folder.Catalog())
	for _, step := range []string{"noted", "aside"} {
		for _, back := range []bool{false, true} {
			url := database.URL(t)
			schema := url[strings.LastIndex(url, "=")+1:]
			aside := mustMove(t, folder, url, false).Aside
			database.Do(t, `UPDATE `+schema+`.owner SET name = 'copy for `+owner+`'`)
			if step == "noted" {
				if err := errors.Join(os.Rename(filepath.Join(aside, data.CatalogFile), folder.Catalog()), os.RemoveAll(aside)); err != nil {
					t.Fatal(err)
				}
				_, err := folder.MayBeElsewhere(url)
				if claims(t, folder, url) != "none" || !strings.Contains(fmt.Sprint(folder.Elsewhere(), err), "was not finished") {
					t.Errorf("both have the catalog: %v, %v", folder.Elsewhere(), err)
				}
			}
			if mustMove(t, folder, url, back); !back {
				mustMove(t, folder, url, true)
			}
			if diff := cmp.Diff(before, dump(t, "sqlite", folder.Catalog())); diff != "" {
				t.Errorf("%s, back %v (-before +after):\n%s", step, back, diff)
			}
		}
	}
}

// TestMigrateRefuses what would mix or lose catalogs, and says what to do.
func TestMigrateRefuses(t *testing.T) {
	database := server.Any(t)
	folder := data.Folder(t.TempDir())
	many(t, folder, 3)
	refused := func(what string, folder data.Folder, url string, back bool, code model.Code, words string) {
		t.Helper()
		_, err := move(t.Context(), folder, url, back)
		var e *model.Error
		if !errors.As(err, &e) || e.Code != code || !strings.Contains(e.Message, words) || e.Hint == "" {
			t.Errorf("%s: %v, want %s with %q and a hint", what, err, code, words)
		}
	}
	refused("no folder", data.Folder(t.TempDir()), database.URL(t), false, model.CodeNotFound, "it has no catalog.db")
	refused("no database", folder, "postgres://postgres@127.0.0.1:1/none", false, model.CodeUnavailable, "cannot be reached")

	lock, err := folder.Lock()
	if err != nil {
		t.Fatal(err)
	}
	refused("a running server", folder, database.URL(t), false, model.CodeUnavailable, "in use")
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}

	full := database.URL(t)
	db, err := postgres.Open(t.Context(), full, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Open(t.Context(), model.OpenRequest{Writer: model.WriterID{9}, Workspace: "w", Project: "p", RunName: "r", OrchestrationID: "j"}, time.Now()); err != nil {
		t.Fatal(err)
	}
	refused("rows of nobody", folder, full, false, model.CodeConflict, "is not empty")
	if err := errors.Join(db.Claim(t.Context(), postgres.Options{Owner: "another"}, "it"), db.Close()); err != nil {
		t.Fatal(err)
	}
	refused("another's database", folder, full, false, model.CodeConflict, "another server's data folder")

	newer := database.URL(t)
	mustOpen(t, newer)
	schema := newer[strings.LastIndex(newer, "=")+1:]
	database.Do(t, `INSERT INTO `+schema+`.goose_db_version (version_id, is_applied) VALUES (999, TRUE)`)
	refused("a newer database", folder, newer, false, model.CodeConflict, "version 999")

	taken := database.URL(t)
	schema = taken[strings.LastIndex(taken, "=")+1:]
	database.Do(t, `CREATE TABLE `+schema+`.runs (id BIGINT)`)
	refused("tables of another program", folder, taken, false, model.CodeConflict, "another program")

	// What was refused changed nothing.
	if err := folder.Elsewhere(); err != nil {
		t.Error(err)
	}
	url := database.URL(t)
	mustMove(t, folder, url, false)
	if again := mustMove(t, folder, url, false); !again.Already {
		t.Errorf("a move that is done: %+v", again)
	}
	refused("back from another database", folder, database.URL(t), true, model.CodeConflict, "does not have the catalog of this data folder")
	refused("on to another database", folder, database.URL(t), false, model.CodeConflict, "has no catalog yet")
	if err := folder.Elsewhere(); err == nil || !strings.Contains(err.Error(), "is in postgres://") {
		t.Errorf("a start without the database: %v", err)
	}
	// Somebody puts the old file back, and both claim the folder: neither is written over.
	aside, err := filepath.Glob(filepath.Join(string(folder), "catalog.moved-*", data.CatalogFile))
	if err != nil || len(aside) != 1 {
		t.Fatal(aside, err)
	}
	if err := os.Rename(aside[0], folder.Catalog()); err != nil {
		t.Fatal(err)
	}
	refused("over a database that a server used", folder, url, false, model.CodeConflict, "a server used it")
	refused("over a file that somebody put there", folder, url, true, model.CodeConflict, "does not have its copy")
}

func mustOpen(t testing.TB, url string) {
	t.Helper()
	db, err := postgres.Open(t.Context(), url, postgres.Options{})
	if err == nil {
		err = db.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}
