package sqlite

import (
	"bytes"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/catalog/mirror"
)

// told is everything that the catalog says, as a naive reader takes it down.
func told(t testing.TB, db *DB) string {
	t.Helper()
	var out bytes.Buffer
	take := json.NewEncoder(&out)
	for _, deleted := range []bool{false, true} {
		runs, _, err := db.ListRuns(t.Context(), catalog.RunFilter{Workspace: "team", Project: "digits", Deleted: deleted, Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range runs {
			d, err := db.GetRun(t.Context(), r.ID)
			if err != nil {
				t.Fatal(err)
			}
			videos, _, err := db.ListRenderings(t.Context(), r.ID, catalog.RenderingFilter{})
			if err != nil {
				t.Fatal(err)
			}
			if err := take.Encode([]any{r, d, videos}); err != nil {
				t.Fatal(err)
			}
		}
	}
	keys, err := db.ListKeys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := take.Encode(keys); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// live writes what a life leaves in every table.
func live(t testing.TB, db *DB, from, to int) {
	t.Helper()
	now := func(i int) time.Time { return time.Unix(1_700_000_000+int64(i), 0) }
	for i := from; i < to; i++ {
		r := model.OpenRequest{
			Writer: model.WriterID{byte(i), 1}, LocalRun: model.RunID{byte(i), 9}, Workspace: "team", Project: "digits", RunName: fmt.Sprintf("run%d", i), DisplayName: "Run",
			Initial: []model.Update{{Op: model.OpSetAttribute, Path: "config/lr", Value: model.FloatValue(float64(i) / 7)}},
		}
		if i > from {
			r.ForkFromRun = fmt.Sprintf("run%d", i-1)
		}
		o, err := db.Open(t.Context(), r, now(i))
		if err != nil {
			t.Fatal(err)
		}
		episode, other := int64(3), model.WriterID{byte(i), 2}
		updates := []model.Update{
			{Op: model.OpSetAttribute, Path: "note", Value: model.StringValue("a\x00b\n" + strings.Repeat("x", i*300))},
			{Op: model.OpSetEnvAttribute, Env: "cart", Episode: &episode, Path: "seed", Value: model.IntValue(int64(i))},
			{Op: model.OpAddTags, Tags: []string{"good", fmt.Sprintf("t%d", i)}},
			{Op: model.OpSetDescription, Text: "what it is"},
			{Op: model.OpLog, Path: "hello", Text: "event\x00", TimeNs: 5},
			{Op: model.OpRendering, Rendering: &model.Rendering{ID: "v", Env: "cart", Episode: 1, SHA256: strings.Repeat("ab", 32)}},
			{Op: model.OpShared, Env: "cart", Other: &other},
			{Op: model.OpSetTree, Path: "wandb/config", Text: `{"a":NaN}` + strings.Repeat(" ", i*5000)},
			{Op: model.OpSetTree, Path: "gone", Text: "1"},
			{Op: model.OpSetTree, Path: "gone"},
			{Op: model.OpSetFile, Path: "media/a.png", File: &model.RunFile{SHA256: strings.Repeat("cd", 32), Size: int64(i), MD5: "x"}},
			{Op: model.OpClose},
		}
		if err := db.Apply(t.Context(), o.Run, r.Writer, uint64(i+1), updates, now(i+100)); err != nil {
			t.Fatal(err)
		}
		if i%4 == 3 {
			if err := db.Trash(t.Context(), o.Run, now(i)); err != nil {
				t.Fatal(err)
			}
		}
		if err := db.PutKey(t.Context(), catalog.Key{ID: fmt.Sprint("k", i), Name: "key", SHA256: [32]byte{byte(i)}, Scopes: []catalog.Scope{catalog.ScopeRead}, CreatedNs: int64(i)}); err != nil {
			t.Fatal(err)
		}
	}
	withArtifacts(t, db, from, to)
	if err := db.RevokeKey(t.Context(), fmt.Sprint("k", to-1), now(to)); err != nil {
		t.Fatal(err)
	}
}

// withArtifacts makes rows in every table of artifacts, and takes some away.
func withArtifacts(t testing.TB, db *DB, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		at := time.Unix(1_700_000_000+int64(i), 0)
		a, err := db.CreateArtifact(t.Context(), "team", "digits", catalog.NewArtifact{
			Collection: fmt.Sprint("ds", i%3), Type: "data", Digest: fmt.Sprint(i), Metadata: "{}", Aliases: []string{"best"}, Tags: []string{"t"}, Run: model.RunID{byte(i), 9},
		}, at)
		if err != nil {
			t.Fatal(err)
		}
		file := catalog.File{Name: "a\"b", RunFile: model.RunFile{SHA256: strings.Repeat("ef", 32), Size: int64(i), MD5: "m"}}
		_, stored := db.PutManifest(t.Context(), a.ID, catalog.ArtifactManifest{Kind: "FULL", Blob: catalog.BlobRef{SHA256: strings.Repeat("01", 32)}})
		if err := errors.Join(stored, db.AddArtifactFiles(t.Context(), a.ID, []catalog.File{file})); err != nil {
			t.Fatal(err)
		}
		if i%5 == 4 {
			continue
		}
		_, committed := db.CommitArtifact(t.Context(), a.ID, catalog.ArtifactContent{}, at)
		_, linked := db.LinkArtifact(t.Context(), a.ID, catalog.VersionName{Workspace: "team", Project: "digits", Collection: "port"}, nil, at)
		if err := errors.Join(committed, linked, db.UseArtifact(t.Context(), a.ID, model.RunID{byte(i), 9}, catalog.RoleUsed, at)); err != nil {
			t.Fatal(err)
		}
		if i%5 == 3 {
			if err := db.DeleteArtifact(t.Context(), a.ID, true, at); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// killed copies the files of a database as a SIGKILL leaves them.
func killed(t testing.TB, db *DB) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "catalog.db")
	for _, suffix := range []string{"", "-wal"} {
		b, err := os.ReadFile(db.path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path+suffix, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS(mirrorDir(path), os.DirFS(mirrorDir(db.path))); err != nil {
		t.Fatal(err)
	}
	return path
}

func harm(t testing.TB, path string, how func([]byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, how(b), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func flip(at int) func([]byte) []byte {
	return func(b []byte) []byte {
		b[at] ^= 4 // "2" becomes "6"
		return b
	}
}

func onlyFile(t testing.TB, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) == 0 {
		t.Fatalf("%s: %v, %v", pattern, found, err)
	}
	return found[len(found)-1]
}

// TestDamageIsHealed: whichever of the database, its log and its mirror is damaged,
// verify names it, and the next start says the same as before.
func TestDamageIsHealed(t *testing.T) {
	db := openDB(t)
	live(t, db, 0, 8)
	if err := db.checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	live(t, db, 8, 12)
	want := told(t, db)
	remove := func(path string) {
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		name                       string
		damage                     func(path string)
		rebuilt, renewed, caughtUp bool
	}{
		{name: "nothing", damage: func(string) {}},
		{name: "a name in the file", rebuilt: true, damage: func(path string) {
			harm(t, path, func(b []byte) []byte { return flip(bytes.Index(b, []byte("run2")) + 3)(b) })
		}},
		{name: "the file is gone", rebuilt: true, damage: func(path string) { remove(path) }},
		{name: "the file and its log are gone", rebuilt: true, damage: func(path string) { remove(path); remove(path + "-wal") }},
		{name: "the file is noise", rebuilt: true, damage: func(path string) {
			harm(t, path, func(b []byte) []byte { return bytes.Repeat([]byte("noise"), len(b)/5) })
		}},
		{name: "the file is cut", rebuilt: true, damage: func(path string) {
			harm(t, path, func(b []byte) []byte { return b[:len(b)/2] })
		}},
		{name: "the byte that says that there are checksums", rebuilt: true, damage: func(path string) {
			harm(t, path, func(b []byte) []byte { b[20] = 0; return b })
		}},
		{name: "two pages are swapped", rebuilt: true, damage: func(path string) {
			harm(t, path, func(b []byte) []byte {
				a := bytes.Clone(b[pageSize : 2*pageSize])
				copy(b[pageSize:], b[2*pageSize:3*pageSize])
				copy(b[2*pageSize:], a)
				return b
			})
		}},
		{name: "the log at its beginning", caughtUp: true, damage: func(path string) { harm(t, path+"-wal", flip(40)) }},
		{name: "the log in its middle", caughtUp: true, damage: func(path string) {
			harm(t, path+"-wal", func(b []byte) []byte { return flip(len(b) / 2)(b) })
		}},
		{name: "the log is gone", caughtUp: true, damage: func(path string) { remove(path + "-wal") }},
		{name: "the mirror is gone", renewed: true, damage: func(path string) { remove(mirrorDir(path)) }},
		{name: "the mirror's changes", renewed: true, damage: func(path string) {
			harm(t, onlyFile(t, mirrorDir(path)+"/*.wal"), func(b []byte) []byte { return flip(len(b) / 2)(b) })
		}},
		{name: "the mirror's end", renewed: true, damage: func(path string) {
			harm(t, onlyFile(t, mirrorDir(path)+"/*.wal"), func(b []byte) []byte { return b[:len(b)-100] })
		}},
		{name: "the mirror's snapshot", renewed: true, damage: func(path string) {
			harm(t, onlyFile(t, mirrorDir(path)+"/snapshot-*/*.wal"), flip(100))
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := killed(t, db)
			test.damage(path)
			found, err := Inspect(t.Context(), path, true)
			if err != nil {
				t.Fatal(err)
			}
			if named := len(found.Damage) > 0; named != (test.rebuilt || test.renewed || test.caughtUp) {
				t.Errorf("verify says %q", found.Damage)
			}
			healed, err := Open(t.Context(), path)
			if err != nil {
				t.Fatal(err)
			}
			defer healed.Close()
			h := healed.Health()
			if (h.Rebuilt != "") != test.rebuilt || (h.Renewed != "") != test.renewed || (h.CaughtUp > 0) != test.caughtUp {
				t.Errorf("%+v", h)
			}
			if got := told(t, healed); got != want {
				t.Errorf("it says\n%s\nnot\n%s", got, want)
			}
			live(t, healed, 20, 22) // and goes on
			if err := healed.Close(); err != nil {
				t.Fatal(err)
			}
			if found, err = Inspect(t.Context(), path, true); err != nil || len(found.Damage) > 0 {
				t.Errorf("then %q, %v", found.Damage, err)
			}
		})
	}
}

// TestACutLogThatTheFileTookOver: what is left of the log is older than the file.
func TestACutLogThatTheFileTookOver(t *testing.T) {
	db := openDB(t)
	live(t, db, 0, 6)
	if err := db.checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := told(t, db)
	path := killed(t, db)
	harm(t, path+"-wal", func(b []byte) []byte { return flip(len(b) / 2)(b) })
	healed, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer healed.Close()
	if got := told(t, healed); got != want || healed.Health().Rebuilt == "" {
		t.Errorf("%+v, and it says\n%s\nnot\n%s", healed.Health(), got, want)
	}
}

// TestBothDamaged: what can be read comes back, and no key is valid that may have
// been revoked.
func TestBothDamaged(t *testing.T) {
	db := openDB(t)
	live(t, db, 0, 6)
	path := killed(t, db)
	harm(t, path, flip(5000))
	harm(t, onlyFile(t, mirrorDir(path)+"/*.wal"), func(b []byte) []byte { return flip(len(b) - 200)(b) })
	healed, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer healed.Close()
	h := healed.Health()
	if runs, _, err := healed.ListRuns(t.Context(), catalog.RunFilter{Workspace: "team", Project: "digits", Limit: 100}); err != nil || len(runs) == 0 || len(h.Lost) == 0 || len(h.SetAside) == 0 {
		t.Errorf("%d runs, %v, %+v", len(runs), err, h)
	}
	keys, err := healed.ListKeys(t.Context())
	for _, k := range keys {
		if k.RevokedNs == 0 {
			t.Errorf("the key %s is valid", k.ID)
		}
	}
	if err != nil || len(keys) == 0 || h.Closed == 0 {
		t.Errorf("%d keys, %v, %d closed", len(keys), err, h.Closed)
	}
}

// TestADatabaseWithoutChecksumsGetsThem, and says the same as before.
func TestADatabaseWithoutChecksumsGetsThem(t *testing.T) {
	path := olderDatabase(t, 9, `INSERT INTO projects (id, workspace, name) VALUES (1, 'team', 'digits')`,
		`INSERT INTO runs (pk, id, project, name, status, created_ns, last_ns, attempt, orchestration_id) VALUES (7, unhex('01000000000000000000000000000000'), 1, 'run2', 'finished', 1, 1, 1, 'a')`,
		`INSERT INTO ids (id, run) VALUES (unhex('01000000000000000000000000000000'), unhex('01000000000000000000000000000000'))`)
	if found, err := Inspect(t.Context(), path, true); err != nil || len(found.Damage) > 0 || len(found.Notes) != 1 || found.Runs != 1 {
		t.Errorf("before: %+v, %v", found, err)
	}
	for range 2 {
		db, err := Open(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		if !db.health.Healthy() {
			t.Errorf("%+v", db.health)
		}
		if r, err := db.GetRun(t.Context(), model.RunID{1}); err != nil || r.Name != "run2" {
			t.Errorf("%+v, %v", r, err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if found, err := Inspect(t.Context(), path, true); err != nil || len(found.Damage)+len(found.Notes) > 0 {
			t.Errorf("after: %+v, %v", found, err)
		}
	}
}

// TestTheDatabaseCatchesUp: what the mirror has and SQLite refused is stored before
// the next write, or at the next start.
func TestTheDatabaseCatchesUp(t *testing.T) {
	db := openDB(t)
	live(t, db, 0, 2)
	ahead := func() {
		t.Helper()
		row := `INSERT INTO tags (run, tag) VALUES (1, 'late')`
		err := using(db.path, vfsName, "", func(other *sql.DB) error { // as a COMMIT that fails
			tables, err := mirroredTables(t.Context(), other)
			if err != nil {
				return err
			}
			r, err := tables["tags"].row([]any{int64(1), "late"})
			if err != nil {
				return err
			}
			c := db.mirror.Prepare([]mirror.Row{r})
			if err := db.mirror.Append(t.Context(), c); err != nil {
				return err
			}
			db.behind = append(db.behind, missed{c.At, c.Rows()})
			return nil
		})
		if err != nil {
			t.Fatal(row, err)
		}
	}
	ahead()
	path := killed(t, db)
	if err := openRun(t.Context(), db, 77); err != nil {
		t.Fatal(err)
	}
	again, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if again.Health().CaughtUp != 1 {
		t.Errorf("%+v", again.Health())
	}
	for name, c := range map[string]*DB{"the next write": db, "the next start": again} {
		if d, err := c.GetRun(t.Context(), model.RunID{0, 9}); err != nil || len(d.Tags) == 0 {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
		var there bool
		if err := c.reader.QueryRow(`SELECT EXISTS (SELECT 1 FROM tags WHERE tag = 'late')`).Scan(&there); err != nil || !there {
			t.Errorf("%s: the tag is missing, %v", name, err)
		}
	}
}

// TestAGuestBesideTheOwner: both write, and none loses what the other wrote.
func TestAGuestBesideTheOwner(t *testing.T) {
	db := openDB(t)
	live(t, db, 0, 2)
	guest, err := OpenWith(t.Context(), db.path, Options{Guest: true})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		if err := guest.PutKey(t.Context(), catalog.Key{ID: fmt.Sprint("guest", i), SHA256: [32]byte{99, byte(i)}}); err != nil {
			t.Fatal(err)
		}
		if i == 5 {
			if err := db.Compact(t.Context(), true); err != nil {
				t.Fatal(err)
			}
		}
		if err := openRun(t.Context(), db, 50+i); err != nil {
			t.Fatal(err)
		}
	}
	if err := guest.Close(); err != nil {
		t.Fatal(err)
	}
	want := told(t, db)
	path := killed(t, db)
	if found, err := Inspect(t.Context(), path, true); err != nil || len(found.Damage) > 0 {
		t.Errorf("%q, %v", found.Damage, err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	again, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if got := told(t, again); got != want {
		t.Errorf("made anew it says\n%s\nnot\n%s", got, want)
	}
}

// TestADamagedPageIsToldWhileServing: the page is named once it is met, and gone
// after the next start.
func TestADamagedPageIsToldWhileServing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "catalog.db")
	open := func() *DB {
		db, err := Open(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		return db
	}
	db := open()
	live(t, db, 1, 5)
	want := told(t, db)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = open()
	if err := db.Damaged(); err != nil {
		t.Errorf("before: %v", err)
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for at := pageSize + 100; at < len(file); at += pageSize {
		file[at] ^= 4
	}
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := db.GetRun(t.Context(), model.RunID{1, 9}); model.CodeOf(err) != model.CodeInternal {
		t.Errorf("a read of a damaged page: %v", err)
	}
	if err := db.Damaged(); err == nil || !strings.Contains(err.Error(), "a page of the catalog is damaged") {
		t.Errorf("while serving: %v", err)
	}
	_ = db.Close() // of damaged pages
	db = open()
	defer db.Close()
	if got := told(t, db); got != want || db.Damaged() != nil {
		t.Errorf("after the next start: %v, %v", got == want, db.Damaged())
	}
}

// TestAFileShorterThanItSays: the disk was full as the file took over its log. Its first
// page says how long it is to be, and the log has the pages that found no place.
func TestAFileShorterThanItSays(t *testing.T) {
	db := openDB(t)
	live(t, db, 0, 3)
	if err := db.checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	db.since = -1 << 20 // the file does not take over its log by itself
	live(t, db, 3, 30)
	want := told(t, db)
	if err := db.alone(t.Context(), func() error { return db.mirror.BeginCheckpoint(t.Context()) }); err != nil {
		t.Fatal(err)
	}
	path := killed(t, db)
	log, err := os.ReadFile(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	var first []byte // the newest first page of the log
	for at := 32; at+24+pageSize <= len(log); at += 24 + pageSize {
		if binary.BigEndian.Uint32(log[at:]) == 1 && bytes.Equal(log[at+8:at+16], log[16:24]) {
			first = log[at+24 : at+24+pageSize]
		}
	}
	seal(first, 1) // as SQLite's writes are
	harm(t, path, func(b []byte) []byte { return append(bytes.Clone(first), b[pageSize:]...) })
	if promised := int(binary.BigEndian.Uint32(first[28:])) * pageSize; promised <= len(onlyBytes(t, path)) {
		t.Fatal("the file is not too short for the test")
	}
	if found, err := Inspect(t.Context(), path, true); err != nil || len(found.Damage) > 0 {
		t.Errorf("%q, %v", found.Damage, err)
	}
	again, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if h := again.Health(); h.Rebuilt != "" || h.Renewed != "" || told(t, again) != want {
		t.Errorf("%+v", h)
	}
}

func onlyBytes(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
