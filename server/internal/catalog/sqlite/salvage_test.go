package sqlite

import (
	"bytes"
	"fmt"
	"os"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
)

// TestTwoDamages: the catalog and its mirror are damaged at once. Only what neither
// has whole is lost, and it is named. Every key is revoked.
func TestTwoDamages(t *testing.T) {
	const runs = 40
	db := openDB(t)
	live(t, db, 0, runs)
	if err := db.checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := map[model.RunID]string{}
	describe := func(db *DB, id model.RunID) string {
		d, err := db.GetRun(t.Context(), id)
		if err != nil {
			return err.Error()
		}
		return fmt.Sprint(d.Name, d.Project, d.Tags, d.Attributes, d.Attempts)
	}
	for i := range runs {
		id := model.RunID{byte(i), 9}
		want[id] = describe(db, id)
	}
	page := func(text string) func(string) {
		return func(path string) {
			harm(t, path, func(b []byte) []byte { return flip(bytes.LastIndex(b, []byte(text)))(b) })
		}
	}
	noise := func(path string) {
		harm(t, path, func(b []byte) []byte { return bytes.Repeat([]byte("noise"), len(b)/5) })
	}
	remove := func(pattern string) func(string) {
		return func(path string) {
			if err := os.RemoveAll(onlyFile(t, mirrorDir(path)+pattern)); err != nil {
				t.Fatal(err)
			}
		}
	}
	snapshot := func(path string) { harm(t, onlyFile(t, mirrorDir(path)+"/snapshot-*/*.wal"), flip(70)) }
	for name, test := range map[string]struct {
		catalog, mirror func(string)
		least           int // runs that are as they were
	}{
		"a page of events, no mirror":          {page("event\x00"), remove(""), runs},
		"a page of events, no changes":         {page("event\x00"), remove("/*.wal"), runs},
		"a page of events, a damaged snapshot": {page("event\x00"), snapshot, runs},
		"a page of runs, no mirror":            {page("run17"), remove(""), runs / 3},
		"a page of runs, no changes":           {page("run17"), remove("/*.wal"), runs / 3},
		"noise, no mirror":                     {noise, remove(""), 0},
		"noise, a damaged snapshot":            {noise, snapshot, 0},
	} {
		t.Run(name, func(t *testing.T) {
			path := killed(t, db)
			test.catalog(path)
			test.mirror(path)
			if found, err := Inspect(t.Context(), path, true); err != nil || len(found.Damage) == 0 {
				t.Errorf("verify: %+v, %v", found, err)
			}
			healed, err := Open(t.Context(), path)
			if err != nil {
				t.Fatal(err)
			}
			defer healed.Close()
			same := 0
			for id, before := range want {
				if describe(healed, id) == before {
					same++
				}
			}
			h := healed.Health()
			if same < test.least || h.Rebuilt == "" || len(h.Lost) == 0 || len(h.SetAside) == 0 {
				t.Errorf("%d of %d runs are as they were, %+v", same, runs, h)
			}
			keys, err := healed.ListKeys(t.Context())
			for _, k := range keys {
				if k.RevokedNs == 0 {
					t.Errorf("the key %s is valid", k.ID)
				}
			}
			if err != nil || test.least > 0 && len(keys) != runs {
				t.Errorf("%d keys, %v", len(keys), err)
			}
			live(t, healed, 200, 202) // and goes on
			if err := healed.Close(); err != nil {
				t.Fatal(err)
			}
			if found, err := Inspect(t.Context(), path, true); err != nil || len(found.Damage) > 0 {
				t.Errorf("then %q, %v", found.Damage, err)
			}
		})
	}
}
