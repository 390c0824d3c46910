package statelog_test

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/internal/state"
	"github.com/kymogram/kymogram/server/internal/statelog"
)

// change edits the file as somebody with the disk can.
func change(t *testing.T, path, statement string, args ...any) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(statement, args...); err != nil {
		t.Fatal(err)
	}
}

func inspect(t *testing.T, path string) *statelog.Inventory {
	t.Helper()
	i, err := statelog.Inspect(t.Context(), path, true, func(int64) {})
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func TestInspectFindsEveryChange(t *testing.T) {
	if i := inspect(t, filepath.Join(t.TempDir(), "none.db")); i.Records != 0 || len(i.Damage) != 0 {
		t.Errorf("no file: %+v", i)
	}
	for name, c := range map[string]struct{ statement, says string }{
		"a payload":       {`UPDATE records SET payload = x'7b7d' WHERE idx = 1`, "payload is not the signed one"},
		"a signature":     {`UPDATE records SET signature = zeroblob(64) WHERE idx = 1`, "signature is not one of"},
		"a record":        {`UPDATE records SET record = zeroblob(300) WHERE idx = 1`, "is damaged"},
		"a sequence":      {`UPDATE records SET sequence = 77 WHERE idx = 1`, "kept under sequence 77"},
		"a record taken":  {`DELETE FROM records WHERE idx = 1`, "does not follow"},
		"the newest":      {`DELETE FROM records WHERE idx = 3`, "the newest record of run"},
		"one less":        {`DELETE FROM records WHERE idx = 3`, "has 3 records of 4"},
		"records swapped": {`UPDATE records SET idx = CASE idx WHEN 1 THEN -2 ELSE -1 END WHERE idx IN (1, 2); UPDATE records SET idx = -idx WHERE idx < 0`, "not the leaf"},
		"a leaf":          {`UPDATE nodes SET hash = zeroblob(32) WHERE level = 0 AND idx = 1`, "not the leaf"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state.db")
			l := openLog(t, path)
			var on *state.Envelope
			for range 4 {
				on = signed(t, run(1), 1, on, `{"a":1}`)
				put(t, l, run(1), on)
			}
			key, err := statelog.SigningKey(filepath.Join(t.TempDir(), "log.key"))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := l.Tree(key).Head(t.Context(), "lab", "net", false); err != nil {
				t.Fatal(err)
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			if i := inspect(t, path); i.Records != 4 || i.Runs != 1 || len(i.Damage) != 0 {
				t.Fatalf("before the change: %+v", i)
			}
			change(t, path, c.statement)
			if i := inspect(t, path); len(i.Damage) == 0 || !strings.Contains(strings.Join(i.Damage, "\n"), c.says) {
				t.Errorf("after it: %+v", i)
			}
		})
	}
}

func TestACopyIsWhole(t *testing.T) {
	folder := t.TempDir()
	l := openLog(t, filepath.Join(folder, "state.db"))
	put(t, l, run(1), signed(t, run(1), 1, nil, `{}`))
	if err := statelog.Copy(t.Context(), filepath.Join(folder, "state.db"), filepath.Join(folder, "copy.db")); err != nil {
		t.Fatal(err)
	}
	if i := inspect(t, filepath.Join(folder, "copy.db")); i.Records != 1 || len(i.Damage) != 0 {
		t.Errorf("%+v", i)
	}
	if err := statelog.Copy(t.Context(), filepath.Join(folder, "none.db"), filepath.Join(folder, "x.db")); err != nil {
		t.Error(err)
	}
}
