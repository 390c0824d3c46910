package statelog_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/state"
	"github.com/kymogram/kymogram/server/internal/statelog"
)

// killed is a folder as a SIGKILL left it, with its records and a signed head.
type killed struct {
	folder, keyFile string
	records         map[string]bool // the hashes of what was acknowledged
	root            state.Hash
}

const acknowledged = 14

func newKilled(t *testing.T) *killed {
	t.Helper()
	k := &killed{folder: t.TempDir(), keyFile: filepath.Join(t.TempDir(), "log.key"), records: map[string]bool{}}
	origin := t.TempDir()
	l := openLog(t, filepath.Join(origin, "state.db"))
	fill := func(from, to int) {
		for n := from; n < to; n++ {
			at := run(byte(n/2 + 1))
			newest, err := l.Head(t.Context(), at.ID)
			head := newest.Head
			if err != nil {
				t.Fatal(err)
			}
			var on *state.Envelope
			if head != nil {
				on = &head.Envelope
			}
			e := signed(t, at, byte(n/2+1), on, fmt.Sprintf(`{"n":%d}`, n))
			put(t, l, at, e)
			k.records[e.Hash().String()] = true
		}
	}
	fill(0, 6)
	if err := l.Close(); err != nil { // SQLite's file takes over its log
		t.Fatal(err)
	}
	l = openLog(t, filepath.Join(origin, "state.db"))
	fill(6, acknowledged)
	k.root = k.head(t, l)
	if err := os.CopyFS(k.folder, os.DirFS(origin)); err != nil {
		t.Fatal(err)
	}
	return k
}

func (k *killed) head(t *testing.T, l *statelog.Log) state.Hash {
	t.Helper()
	key, err := statelog.SigningKey(k.keyFile)
	if err != nil {
		t.Fatal(err)
	}
	h, err := l.Tree(key).Head(t.Context(), "lab", "net", false)
	if err != nil {
		t.Fatal(err)
	}
	if h.Size != acknowledged {
		t.Errorf("a head of size %d was signed, %d records were acknowledged", h.Size, acknowledged)
	}
	return h.Root
}

// copied is a copy of the folder, harmed.
func (k *killed) copied(t *testing.T, harm func(folder string)) string {
	t.Helper()
	folder := t.TempDir()
	if err := os.CopyFS(folder, os.DirFS(k.folder)); err != nil {
		t.Fatal(err)
	}
	harm(folder)
	return filepath.Join(folder, "state.db")
}

// has checks that all records are there, by reading them as any client does.
func (k *killed) has(t *testing.T, l *statelog.Log) {
	t.Helper()
	found := map[string]bool{}
	for n := range acknowledged / 2 {
		page, err := l.History(t.Context(), run(byte(n+1)).ID, state.Span{})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page.Entries {
			if _, err := e.Authentic(); err != nil {
				t.Error(err)
			}
			found[e.Envelope.Hash().String()] = true
		}
	}
	for hash := range k.records {
		if !found[hash] {
			t.Errorf("record %s was acknowledged and is gone", hash)
		}
	}
	if root := k.head(t, l); root != k.root {
		t.Errorf("the head's root is %s, %s was signed", root, k.root)
	}
}

func harmed(t *testing.T, name string, how func([]byte) []byte) func(string) {
	return func(folder string) {
		t.Helper()
		path := filepath.Join(folder, name)
		b, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, how(b), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func flip(at int) func([]byte) []byte {
	return func(b []byte) []byte {
		b[at%len(b)] ^= 4
		return b
	}
}

func cut(n int) func([]byte) []byte { return func(b []byte) []byte { return b[:n%len(b)] } }

// TestDamageLosesNoRecord harms the file and SQLite's log of it. Nothing that was
// acknowledged is gone afterwards, and verify names it before.
func TestDamageLosesNoRecord(t *testing.T) {
	k := newKilled(t)
	random := rand.New(rand.NewPCG(1, 2))
	harms := map[string]func(string){
		"nothing":       func(string) {},
		"log cut half":  harmed(t, "state.db-wal", func(b []byte) []byte { return b[:len(b)/2] }),
		"file cut half": harmed(t, "state.db", func(b []byte) []byte { return b[:len(b)/2] }),
		"file empty":    harmed(t, "state.db", cut(0)),
		"file cut 10":   harmed(t, "state.db", cut(10)),
		"pages swapped": harmed(t, "state.db", func(b []byte) []byte {
			return bytes.Join([][]byte{b[12288:16384], b[4096:12288], b[:4096], b[16384:]}, nil)
		}),
		"file gone": func(f string) {
			if err := errors.Join(os.Remove(filepath.Join(f, "state.db")), os.Remove(filepath.Join(f, "state.db-wal"))); err != nil {
				t.Fatal(err)
			}
		},
	}
	for _, at := range []int{8, 40, 5000} {
		harms[fmt.Sprint("log bit ", at)] = harmed(t, "state.db-wal", flip(at))
	}
	for _, at := range []int{5, 17, 105} {
		harms[fmt.Sprint("file bit ", at)] = harmed(t, "state.db", flip(at))
	}
	for range 20 {
		at := random.IntN(1 << 30)
		harms[fmt.Sprint("log bit ", at)] = harmed(t, "state.db-wal", flip(at))
		harms[fmt.Sprint("file bit ", at)] = harmed(t, "state.db", flip(at))
	}
	named := 0
	for name, harm := range harms {
		t.Run(name, func(t *testing.T) {
			path := k.copied(t, harm)
			i, err := statelog.Inspect(t.Context(), k.copied(t, harm), true, func(int64) {})
			if err != nil {
				t.Fatal(err)
			}
			if len(i.Damage) > 0 {
				named++
			} else if i.Records < acknowledged-1 {
				t.Errorf("verify found %d records and named nothing", i.Records)
			}
			said := &strings.Builder{}
			l, err := statelog.OpenWith(t.Context(), path, "", now, slog.New(slog.NewTextHandler(said, nil)))
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			k.has(t, l)
			if h := l.Health(); h.Rebuilt != "" != strings.Contains(said.String(), "made anew from their mirror") {
				t.Errorf("%+v is not what the log says: %s", h, said)
			}
			if i, err := statelog.Inspect(t.Context(), path, true, func(int64) {}); err != nil || len(i.Damage) > 0 {
				t.Errorf("after the start: %+v, %v", i, err)
			}
		})
	}
	if named < 10 {
		t.Errorf("verify named %d of %d damages", named, len(harms))
	}
}

// A start mends what is deleted of the records themselves, of their payloads and of the
// tree over them, and says what it did. The head that was signed stays.
func TestTheStartMendsWhatIsDeleted(t *testing.T) {
	const tree, anew = "nodes of the Merkle log are missing", "made anew from their mirror"
	k := newKilled(t)
	for name, c := range map[string]struct{ statement, says string }{
		"a node":                      {`DELETE FROM nodes WHERE level = 1 AND idx = 6`, tree},
		"the newest leaf":             {`DELETE FROM nodes WHERE level = 0 AND idx = 13`, tree},
		"a node of no record":         {`INSERT INTO nodes VALUES (1, 9, 9, zeroblob(32))`, tree},
		"all nodes":                   {`DELETE FROM nodes`, tree},
		"the newest with its leaf":    {`DELETE FROM records WHERE idx = 13; DELETE FROM nodes WHERE level = 0 AND idx = 13`, anew},
		"the newest with all above":   {`DELETE FROM records WHERE idx = 13; DELETE FROM nodes WHERE idx = 13 >> level`, anew},
		"a record with its leaf":      {`DELETE FROM records WHERE idx = 5; DELETE FROM nodes WHERE level = 0 AND idx = 5`, anew},
		"a payload":                   {`UPDATE records SET payload = NULL WHERE idx = 4`, "payloads of 1 records are missing"},
		"payloads":                    {`UPDATE records SET payload = NULL`, "payloads of 14 records are missing"},
		"the newest payload and node": {`UPDATE records SET payload = NULL WHERE idx = 13; DELETE FROM nodes WHERE level = 3`, "payloads of 1 records are missing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := k.copied(t, func(string) {})
			change(t, path, c.statement)
			if i := inspect(t, path); len(i.Damage) == 0 {
				t.Error("verify names nothing")
			}
			said := &strings.Builder{}
			l, err := statelog.OpenWith(t.Context(), path, "", now, slog.New(slog.NewTextHandler(said, nil)))
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			if h := l.Health(); h.Healthy() || !strings.Contains(said.String(), c.says) {
				t.Errorf("%+v, it said: %s", h, said)
			}
			k.has(t, l)
			for n := range acknowledged / 2 {
				if newest, err := l.Head(t.Context(), run(byte(n+1)).ID); err != nil || newest.Head.Dropped {
					t.Errorf("run %d: %+v %v", n+1, newest.Head, err)
				}
			}
			if i := inspect(t, path); len(i.Damage) > 0 {
				t.Errorf("after the start: %q", i.Damage)
			}
		})
	}
}

// A payload that was let go is no damage.
func TestPayloadsLetGoStayGone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	l := openLog(t, path)
	var on *state.Envelope
	for n := range 70 {
		on = signed(t, run(1), 1, on, fmt.Sprintf(`{"n":%d,"x":"%s"}`, n, strings.Repeat("x", 1_000_000)))
		put(t, l, run(1), on)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = openLog(t, path)
	if h := l.Health(); !h.Healthy() {
		t.Errorf("%+v", h)
	}
	page, err := l.History(t.Context(), run(1).ID, state.Span{Limit: 1})
	if err != nil || !page.Entries[0].Dropped {
		t.Errorf("%v %v", page, err)
	}
}

// TestDamagedMirror is made anew from the file, which has everything.
func TestDamagedMirror(t *testing.T) {
	k := newKilled(t)
	files, err := filepath.Glob(filepath.Join(k.folder, "state.db-mirror", "*.wal"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	name := filepath.Join("state.db-mirror", filepath.Base(files[0]))
	for what, harm := range map[string]func(string){
		"bit":  harmed(t, name, flip(700)),
		"gone": func(f string) { _ = os.RemoveAll(filepath.Join(f, "state.db-mirror")) },
		"cut":  harmed(t, name, func(b []byte) []byte { return b[:len(b)/2] }),
	} {
		t.Run(what, func(t *testing.T) {
			path := k.copied(t, harm)
			i, err := statelog.Inspect(t.Context(), path, true, func(int64) {})
			if err != nil || len(i.Damage) == 0 {
				t.Errorf("verify: %+v, %v", i, err)
			}
			l := openLog(t, path)
			if h := l.Health(); h.Renewed == "" {
				t.Errorf("nothing was made anew: %+v", h)
			}
			k.has(t, l)
			if i, err := statelog.Inspect(t.Context(), path, true, func(int64) {}); err != nil || len(i.Damage) > 0 {
				t.Errorf("after the start: %+v, %v", i, err)
			}
		})
	}
}

// TestLogThatLostRecords has a mirror and a file that both lost the newest ones, but
// not the head that was signed over them.
func TestLogThatLostRecords(t *testing.T) {
	k := newKilled(t)
	files, err := filepath.Glob(filepath.Join(k.folder, "state.db-mirror", "*.wal"))
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join("state.db-mirror", filepath.Base(files[0]))
	path := k.copied(t, func(f string) {
		harmed(t, "state.db-wal", cut(0))(f)
		harmed(t, "state.db", cut(0))(f)
		harmed(t, name, func(b []byte) []byte {
			b[len(b)*2/3] ^= 1
			return b
		})(f)
	})
	l := openLog(t, path)
	key, err := statelog.SigningKey(k.keyFile)
	if err != nil {
		t.Fatal(err)
	}
	h, err := l.Tree(key).Head(t.Context(), "lab", "net", false)
	if err == nil {
		t.Fatalf("a head of size %d was signed after one of size %d", h.Size, acknowledged)
	}
	if model.Shown(err) == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("it does not say why: %v", err)
	}
	if i, err := statelog.Inspect(t.Context(), path, true, func(int64) {}); err != nil || len(i.Damage) == 0 {
		t.Errorf("verify after the start: %+v, %v", i, err)
	}
}

// TestDamageWithoutMirror is a folder of an older version: the rest of a server goes on.
func TestDamageWithoutMirror(t *testing.T) {
	k := newKilled(t)
	path := k.copied(t, func(f string) {
		if err := os.RemoveAll(filepath.Join(f, "state.db-mirror")); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(filepath.Join(f, "state.db-wal")); err != nil {
			t.Fatal(err)
		}
		harmed(t, "state.db", flip(5))(f)
	})
	l, err := statelog.Open(t.Context(), path, now)
	if err != nil {
		t.Fatalf("the server would not start: %v", err)
	}
	defer l.Close()
	if l.Broken() == nil {
		t.Error("it is not broken")
	}
	if _, err := l.Head(t.Context(), run(1).ID); model.CodeOf(err) != model.CodeUnavailable {
		t.Errorf("read: %v", err)
	}
	if _, err := l.Put(t.Context(), run(9), signed(t, run(9), 9, nil, "{}")); model.CodeOf(err) != model.CodeUnavailable {
		t.Errorf("put: %v", err)
	}
}

// TestCopyHasAMirror restores a copy without its file.
func TestCopyHasAMirror(t *testing.T) {
	k := newKilled(t)
	to := filepath.Join(t.TempDir(), "state.db")
	if err := statelog.Copy(t.Context(), k.copied(t, func(string) {}), to); err != nil {
		t.Fatal(err)
	}
	k.has(t, openLog(t, to))
	for _, suffix := range []string{"", "-wal", "-shm"} {
		_ = os.Remove(to + suffix)
	}
	k.has(t, openLog(t, to))
}

// TestMirrorIsMadeSmaller writes more than a snapshot waits for, and makes the file
// anew from the snapshot and what came after it.
func TestMirrorIsMadeSmaller(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	l := openLog(t, path)
	var on *state.Envelope
	const records = 40
	for n := range records {
		on = signed(t, run(1), 1, on, fmt.Sprintf(`{"n":%d,"x":"%s"}`, n, strings.Repeat("x", 900_000)))
		put(t, l, run(1), on)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if found, err := filepath.Glob(filepath.Join(path+"-mirror", "snapshot-*")); err != nil || len(found) != 1 || strings.HasSuffix(found[0], "000") {
		t.Errorf("snapshots: %v, %v", found, err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	l = openLog(t, path)
	page, err := l.History(t.Context(), run(1).ID, state.Span{After: records - 3})
	if err != nil || len(page.Entries) != 3 || page.Entries[2].Digest != on.Hash() {
		t.Fatalf("%d entries, %v", len(page.Entries), err)
	}
	if i, err := statelog.Inspect(t.Context(), path, true, func(int64) {}); err != nil || len(i.Damage) > 0 || i.Records != records {
		t.Errorf("%+v, %v", i, err)
	}
}
