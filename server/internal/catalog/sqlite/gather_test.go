package sqlite

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/kymogram/kymogram/internal/model"
)

// TestATransactionWaitsForThoseAround: as many as were around the last one, no longer than
// that one took or mostGather; who is alone does not wait.
func TestATransactionWaitsForThoseAround(t *testing.T) {
	for _, c := range []struct {
		name         string
		served, left int // by the last transaction, and behind it
		took         time.Duration
		come         []time.Duration // when they come, the first at once
		waits        time.Duration
	}{
		{"alone", 1, 0, time.Millisecond, []time.Duration{0}, 0},
		{"first of all", 0, 0, 0, []time.Duration{0}, 0},
		{"all come", 2, 1, time.Millisecond, []time.Duration{0, 100 * time.Microsecond, 300 * time.Microsecond}, 300 * time.Microsecond},
		{"one stays away", 3, 0, time.Millisecond, []time.Duration{0, 100 * time.Microsecond}, time.Millisecond},
		{"a slow disk", 2, 0, time.Hour, []time.Duration{0}, mostGather},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &writes{waiting: make([]*write, c.left)}
				w.served(c.served, c.took)
				w.waiting = nil
				for _, at := range c.come {
					if at == 0 {
						w.add(&write{})
						continue
					}
					time.AfterFunc(at, func() { w.add(&write{}) })
				}
				begun := time.Now()
				w.gather()
				if waited := time.Since(begun); waited != c.waits {
					t.Errorf("it waited %v, not %v", waited, c.waits)
				}
				synctest.Wait()
				if n := len(w.take()); n != len(c.come) {
					t.Errorf("%d writes wait, not %d", n, len(c.come))
				}
			})
		})
	}
}

// TestANewRunsRowIsWhole: what an open says of a new run's row is what the row is derived
// to be, whoever opens it.
func TestANewRunsRowIsWhole(t *testing.T) {
	db := openDB(t)
	for _, sdk := range []string{"python/1", "receiver/influx", "system/1"} {
		r := newRun(t, db, sdk)
		before := rowOf(t, db, r)
		if err := db.write(t.Context(), "derive", func(tx *transaction) error { return refreshRun(t.Context(), tx, before.pk, before.seen) }); err != nil {
			t.Fatal(err)
		}
		if after := rowOf(t, db, r); after != before {
			t.Errorf("%s: the row said\n%+v, derived it is\n%+v", sdk, before, after)
		}
		var writers int
		if err := db.reader.QueryRowContext(t.Context(), `SELECT count(*) FROM writers WHERE run = (SELECT id FROM runs WHERE pk = ?)`, before.pk).Scan(&writers); err != nil || writers != before.writers {
			t.Errorf("%s: the row counts %d writers of %d; %v", sdk, before.writers, writers, err)
		}
	}
}

// derived is what a run's row keeps of other tables, and its key.
type derived struct {
	pk, last, seen               int64
	writers, attempt             int
	tags, search, status, parent string
}

func newRun(t *testing.T, db *DB, sdk string) string {
	t.Helper()
	name := "Run of " + sdk
	_, err := db.Open(t.Context(), model.OpenRequest{Writer: model.WriterID{7, sdk[0]}, Workspace: "w", Project: "p", RunName: name, DisplayName: "Shown " + sdk, SDK: sdk}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return name
}

func rowOf(t *testing.T, db *DB, name string) (r derived) {
	t.Helper()
	err := db.reader.QueryRowContext(t.Context(), `SELECT pk, last_ns, seen_ns, writers, attempt, tags, search, status, coalesce(hex(parent), '') FROM runs WHERE name = ?`, name).
		Scan(&r.pk, &r.last, &r.seen, &r.writers, &r.attempt, &r.tags, &r.search, &r.status, &r.parent)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
