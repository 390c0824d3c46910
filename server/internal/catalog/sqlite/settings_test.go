package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/share"
)

// What durability and safety rest on is set on every connection. The mirror is what
// makes a write durable: SQLite syncs its log (NORMAL, 1) only before the file takes it over.
func TestSettings(t *testing.T) {
	db, err := Open(t.Context(), filepath.Join(t.TempDir(), "catalog.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for name, pool := range map[string]querier{"writer": db.tx, "reader": db.reader} {
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

// A caller whose reads take long keeps two of the four connections, and no other waits for it.
func TestCallersTakeTurns(t *testing.T) {
	db, err := Open(t.Context(), filepath.Join(t.TempDir(), "catalog.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	as := func(caller string) context.Context { return share.WithCaller(t.Context(), caller) }
	// It counts for ever, until its context ends.
	const slow = `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n WHERE i < 0`
	ctx, stop := context.WithCancel(as("greedy"))
	var reads sync.WaitGroup
	for range 20 {
		reads.Go(func() {
			_, _ = collect(ctx, db.reader, func(*sql.Rows) (int, error) { return 0, nil }, slow)
		})
	}
	for db.reader.turns.Stats().Waiting != 20-oneCaller {
		time.Sleep(time.Millisecond)
	}
	for range 10 {
		if _, err := db.GetRun(as("other"), model.RunID{1}); model.CodeOf(err) != model.CodeNotFound {
			t.Error(err)
		}
		if _, _, err := db.ListProjects(as("other"), 1, ""); err != nil {
			t.Error(err)
		}
	}
	if s := db.reader.turns.Stats(); s.Used != oneCaller || s.Waiting != 20-oneCaller {
		t.Errorf("%+v", s)
	}
	early := make(chan error, 1)
	reads.Go(func() { // another kind of read, whose statement is kept
		_, err := db.Summaries(ctx, model.RunID{1})
		early <- err
	})
	for db.reader.turns.Stats().Waiting != 21-oneCaller {
		select {
		case err := <-early:
			t.Fatalf("summaries did not wait for their turn: %v", err)
		case <-time.After(time.Millisecond):
		}
	}
	stop()
	reads.Wait()
}

// A caller that goes away gives its turn back, however many rows are left.
func TestAScanEndsWithItsCaller(t *testing.T) {
	db := openDB(t)
	ctx, leave := context.WithCancel(t.Context())
	rows := 0
	err := db.reader.scan(ctx, `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000000) SELECT i FROM n`, nil, func([]driver.Value) error {
		rows++
		leave()
		return nil
	})
	if !errors.Is(err, context.Canceled) || rows != 1 {
		t.Errorf("it ended after %d rows: %v", rows, err)
	}
	if s := db.reader.turns.Stats(); s.Used != 0 {
		t.Errorf("%+v", s)
	}
}
