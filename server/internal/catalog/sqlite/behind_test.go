package sqlite

import (
	"fmt"
	"strings"
	"testing"
	"time"

	driver "modernc.org/sqlite"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
)

// failCommits lets the next commits fail that change something, as on a full disk.
func failCommits(t *testing.T, db *DB, fails *int) {
	t.Helper()
	if err := db.tx.conn.Raw(func(c any) error {
		c.(driver.HookRegisterer).RegisterCommitHook(func() int32 {
			if *fails == 0 {
				return 0
			}
			*fails--
			return 1
		})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// TestCatchesUpAfterAFailedCommit: the mirror has what a full disk kept SQLite from
// committing. The next write stores that too, and takes no row of another change.
func TestCatchesUpAfterAFailedCommit(t *testing.T) {
	broken, fails := openDB(t), 0
	failCommits(t, broken, &fails)
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

// TestAGuestWhoseCommitFails: on a full disk a guest leaves the mirror ahead of the
// database, and ends. The owner goes on with its next write, whoever wrote before, and
// so does another guest. A stop leaves no alarm behind.
func TestAGuestWhoseCommitFails(t *testing.T) {
	key := func(i int) catalog.Key { return catalog.Key{ID: fmt.Sprint("key", i), SHA256: [32]byte{77, byte(i)}} }
	for name, next := range map[string]string{
		"the owner wrote last":    "owner fails owner guest owner stop",
		"a guest wrote last":      "guest fails owner guest stop",
		"a guest goes on":         "owner fails guest owner stop",
		"the owner stops":         "guest fails stop",
		"two fail":                "owner fails fails owner stop",
		"both wait":               "owner waits guest owner guest stop",
		"a stop after a guest's":  "owner guest stop",
		"a stop behind a failure": "owner waits stop",
	} {
		t.Run(name, func(t *testing.T) {
			db, fails, made := openDB(t), 0, 0
			failCommits(t, db, &fails)
			live(t, db, 0, 3)
			want, ahead := []string{}, false
			put := func(db *DB, fails *int, failing bool) {
				t.Helper()
				if made++; failing {
					*fails = 1
				}
				if !failing || !ahead { // else it fails before the mirror has it, which is done
					want = append(want, key(made).ID)
				}
				ahead = failing
				if err := db.PutKey(t.Context(), key(made)); (err != nil) != failing {
					t.Fatalf("key %d: %v", made, err)
				}
			}
			guest := func(failing bool) {
				t.Helper()
				g, err := OpenWith(t.Context(), db.path, Options{Guest: true})
				if err != nil {
					t.Fatal(err)
				}
				fails := 0
				failCommits(t, g, &fails)
				put(g, &fails, failing)
				if err := g.Close(); err != nil {
					t.Fatal(err)
				}
			}
			for _, act := range strings.Fields(next) {
				switch act {
				case "owner", "waits":
					put(db, &fails, act == "waits")
				case "guest", "fails":
					guest(act == "fails")
				case "stop":
					if err := db.Close(); err != nil {
						t.Fatal(err)
					}
				}
			}
			if found, err := Inspect(t.Context(), db.path, true); err != nil || len(found.Damage)+len(found.Notes) > 0 {
				t.Errorf("verify: %q %q, %v", found.Damage, found.Notes, err)
			}
			again, err := Open(t.Context(), db.path)
			if err != nil {
				t.Fatal(err)
			}
			defer again.Close()
			if h := again.Health(); !h.Healthy() {
				t.Errorf("the next start: %+v", h)
			}
			keys, err := again.ListKeys(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			have := map[string]bool{}
			for _, k := range keys {
				have[k.ID] = true
			}
			for _, id := range want {
				if !have[id] {
					t.Errorf("%s is gone", id)
				}
			}
		})
	}
}
