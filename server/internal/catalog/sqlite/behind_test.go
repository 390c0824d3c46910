package sqlite

import (
	"testing"
	"time"

	driver "modernc.org/sqlite"

	"github.com/kymogram/kymogram/internal/model"
)

// TestCatchesUpAfterAFailedCommit: the mirror has what a full disk kept SQLite from
// committing. The next write stores that too, and takes no row of another change.
func TestCatchesUpAfterAFailedCommit(t *testing.T) {
	broken, fails := openDB(t), 0
	if err := broken.tx.conn.Raw(func(c any) error {
		c.(driver.HookRegisterer).RegisterCommitHook(func() int32 {
			if fails == 0 {
				return 0
			}
			fails--
			return 1
		})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	write := func(db *DB, failures int) {
		t.Helper()
		live(t, db, 0, 4)
		now := time.Unix(1_800_000_000, 0)
		for i, write := range []func() error{
			func() error { return db.Restore(t.Context(), model.RunID{3, 9}) }, // its row has attributes and tags
			func() error {
				_, err := db.Open(t.Context(), model.OpenRequest{
					Writer: model.WriterID{8, 1}, LocalRun: model.RunID{8, 9}, Workspace: "team", Project: "digits", RunName: "late",
					Initial: []model.Update{{Op: model.OpSetAttribute, Path: "config/lr", Value: model.IntValue(1)}},
				}, now)
				return err
			},
			func() error { return db.RevokeKey(t.Context(), "k1", now) },
		} {
			if err := db.Probe(t.Context()); err != nil {
				t.Fatalf("before write %d: %v", i, err)
			}
			fails = failures
			for range max(1, failures) { // the later ones fail as they catch up
				if err := write(); (err == nil) != (failures == 0) {
					t.Fatalf("write %d: %v", i, err)
				}
			}
			if fails > 0 {
				t.Fatalf("write %d did not get to its commit %d times", i, fails)
			}
		}
		live(t, db, 4, 8)
	}
	whole := openDB(t)
	write(whole, 0)
	write(broken, 3)
	if got, want := told(t, broken), told(t, whole); got != want {
		t.Errorf("after failed commits it says\n%s\nnot\n%s", got, want)
	}
	if found, err := Inspect(t.Context(), broken.path, true); err != nil || len(found.Damage) > 0 {
		t.Errorf("%+v, %v", found, err)
	}
}
