package sqlite

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/catalog/catalogtest"
	"github.com/kymogram/kymogram/server/internal/catalog/tables"
)

func openDB(t testing.TB) *DB {
	t.Helper()
	db, err := Open(t.Context(), filepath.Join(t.TempDir(), "catalog.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func openRun(ctx context.Context, db *DB, i int) error {
	writer := model.WriterID{1, byte(i), byte(i >> 8), byte(i >> 16)}
	_, err := db.Open(ctx, model.OpenRequest{Writer: writer, Workspace: "w", Project: "p", RunName: fmt.Sprintf("run-%05d", i)}, time.Now())
	return err
}

// runNames are the runs that a reader sees.
func runNames(t *testing.T, db *DB) map[string]bool {
	t.Helper()
	runs, next, err := db.ListRuns(t.Context(), catalog.RunFilter{Workspace: "w", Project: "p", Limit: 10_000})
	if err != nil || next != "" {
		t.Fatal(err, next)
	}
	names := map[string]bool{}
	for i := range runs {
		names[runs[i].Name] = true
	}
	return names
}

// TestWritesThatWaitShareATransaction: while one commits, all others gather; each
// has its own result, and what failed or was given up left nothing.
func TestWritesThatWaitShareATransaction(t *testing.T) {
	db := openDB(t)
	release := db.writes.Turn() // as if one were committing
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	refused := errors.New("refused")
	const n = 100
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			switch i % 10 {
			case 3:
				errs[i] = db.write(t.Context(), "do half", func(tx tables.Tx) error {
					_, err := tx.ExecContext(t.Context(), `INSERT INTO projects (workspace, name) VALUES ('half', ?)`, i)
					return errors.Join(err, refused)
				})
			case 7:
				errs[i] = openRun(gone, db, i)
			default:
				errs[i] = openRun(t.Context(), db, i)
			}
		})
	}
	for db.writes.Waiting() < n {
		time.Sleep(time.Millisecond) // nothing tells; the test ends by its timeout
	}
	release()
	all.Wait()
	names := runNames(t, db)
	for i, err := range errs {
		want := map[int]error{3: refused, 7: context.Canceled}[i%10]
		if !errors.Is(err, want) {
			t.Errorf("write %d: %v, want %v", i, err, want)
		}
		if there := names[fmt.Sprintf("run-%05d", i)]; there != (want == nil) {
			t.Errorf("run %d is there: %v, its error %v", i, there, err)
		}
	}
	var halves int
	if err := db.reader.QueryRow(`SELECT count(*) FROM projects WHERE workspace = 'half'`).Scan(&halves); err != nil || halves > 0 {
		t.Errorf("%d failed writes left something, %v", halves, err)
	}
}

// TestFullDiskUndoesAllThatShare: SQLite rolls back a whole transaction then. Whose
// open was not answered is not there, whose was is; and it goes on by itself.
func TestFullDiskUndoesAllThatShare(t *testing.T) {
	db := openDB(t)
	var pages int
	if err := db.tx.QueryRowContext(t.Context(), `PRAGMA page_count`).Scan(&pages); err != nil {
		t.Fatal(err)
	}
	limit := func(n int) {
		if _, err := db.tx.ExecContext(t.Context(), fmt.Sprintf(`PRAGMA max_page_count = %d`, n)); err != nil {
			t.Fatal(err)
		}
	}
	limit(pages + 20)
	const n = 400
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { errs[i] = openRun(t.Context(), db, i) })
	}
	all.Wait()
	names, full := runNames(t, db), 0
	for i, err := range errs {
		if there := names[fmt.Sprintf("run-%05d", i)]; there != (err == nil) {
			t.Errorf("run %d is there: %v, its error %v", i, there, err)
		}
		if model.CodeOf(err) == model.CodeDiskFull {
			full++
		} else if err != nil {
			t.Errorf("run %d: %v", i, err)
		}
	}
	if full == 0 || full == n {
		t.Errorf("%d of %d writes met the full disk", full, n)
	}
	limit(1 << 20)
	if err := openRun(t.Context(), db, n); err != nil {
		t.Errorf("with room again: %v", err)
	}
}

// TestCloseLeavesNoLog: the log is in the database, and a write that comes later
// is an error.
func TestCloseLeavesNoLog(t *testing.T) {
	db := openDB(t)
	if err := openRun(t.Context(), db, 1); err != nil {
		t.Fatal(err)
	}
	var path string
	if err := db.reader.QueryRowContext(t.Context(), `SELECT file FROM pragma_database_list`).Scan(&path); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if files, err := filepath.Glob(path + "*"); err != nil || !slices.Equal(files, []string{path, path + "-mirror"}) {
		t.Errorf("%q are left, %v", files, err)
	}
	if err := openRun(t.Context(), db, 2); err == nil {
		t.Error("opened a run in a closed database")
	}
}

// BenchmarkOpen opens runs with a sync each, by one caller and by many.
func BenchmarkOpen(b *testing.B) {
	for _, callers := range []int{1, 8, 64} {
		b.Run(fmt.Sprint(callers), func(b *testing.B) {
			db := openDB(b)
			next := make(chan int)
			var all sync.WaitGroup
			for range callers {
				all.Go(func() {
					for i := range next {
						if err := openRun(b.Context(), db, i); err != nil {
							b.Error(err)
						}
					}
				})
			}
			i := 0
			for b.Loop() {
				next <- i
				i++
			}
			close(next)
			all.Wait()
		})
	}
}

// twice does every write, undoes it, and does it again, as a database may that meets others.
type twice struct{ base }

func (d twice) Write(ctx context.Context, act string, f func(tx tables.Tx) error) error {
	return d.write(ctx, act, func(tx tables.Tx) error {
		if err := tables.Exec(ctx, tx, `SAVEPOINT once`); err != nil {
			return err
		}
		_ = f(tx)
		for _, end := range []string{`ROLLBACK TO once`, `RELEASE once`} {
			if err := tables.Exec(ctx, tx, end); err != nil {
				return err
			}
		}
		return f(tx)
	})
}

// TestWritesMayBeDoneAgain: what a write does the first time leaves nothing behind that
// changes the second.
func TestWritesMayBeDoneAgain(t *testing.T) {
	checks := flag.Lookup("rapid.checks").Value
	before := checks.String()
	t.Cleanup(func() { _ = checks.Set(before) }) // it was valid
	if err := checks.Set("15"); err != nil {
		t.Fatal(err)
	}
	catalogtest.Test(t, func(t testing.TB, dir string) catalog.Catalog {
		db, err := Open(t.Context(), filepath.Join(dir, "catalog.db"))
		if err != nil {
			t.Fatal(err)
		}
		db.DB = tables.New(twice{base{db}}, tables.Options{Reader: db.reader, Cache: 1 << 20})
		return db
	})
}
