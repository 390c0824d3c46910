package tables

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/share"
)

// A caller whose reads take long keeps two of the four connections, and no other waits for it.
func TestCallersTakeTurns(t *testing.T) {
	db := OpenSQLite(t)
	as := func(caller string) context.Context { return share.WithCaller(t.Context(), caller) }
	// It counts for ever, until its context ends.
	const slow = `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n WHERE i < 0`
	ctx, stop := context.WithCancel(as("greedy"))
	var reads sync.WaitGroup
	for range 20 {
		reads.Go(func() {
			_, _ = Collect(ctx, db.reader, func(*sql.Rows) (int, error) { return 0, nil }, slow)
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
	db := OpenSQLite(t)
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
