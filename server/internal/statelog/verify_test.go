package statelog_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
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

// edited is a file of three runs with two heads and a second record, which somebody
// edits and then takes the mirror of away: it is not needed to find what was done.
func edited(t *testing.T, statement string) *statelog.Inventory {
	t.Helper()
	path := filepath.Join(t.TempDir(), "state.db")
	l := openLog(t, path)
	key, err := statelog.SigningKey(filepath.Join(t.TempDir(), "log.key"))
	if err != nil {
		t.Fatal(err)
	}
	for n := byte(1); n <= 3; n++ {
		var on *state.Envelope
		for i := range 4 {
			on = signed(t, run(n), n, on, fmt.Sprintf(`{"a":%d}`, i))
			put(t, l, run(n), on)
		}
		if _, err := l.Tree(key).Head(t.Context(), "lab", "net", false); err != nil {
			t.Fatal(err)
		}
	}
	twin := signed(t, run(3), 3, nil, `{"twin":1}`)
	if _, err := l.Put(t.Context(), run(3), twin); !errors.As(err, new(*state.Conflict)) {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if i := inspect(t, path); i.Records != 13 || i.Runs != 3 || i.Forks != 1 || len(i.Damage) != 0 {
		t.Fatalf("before the change: %+v", i)
	}
	change(t, path, statement)
	if err := os.RemoveAll(path + "-mirror"); err != nil {
		t.Fatal(err)
	}
	return inspect(t, path)
}

func TestInspectFindsEveryChange(t *testing.T) {
	if i := inspect(t, filepath.Join(t.TempDir(), "none.db")); i.Records != 0 || len(i.Damage) != 0 {
		t.Errorf("no file: %+v", i)
	}
	for name, c := range map[string]struct{ statement, says string }{
		"a payload":             {`UPDATE records SET payload = x'7b7d' WHERE idx = 1`, "payload is not the signed one"},
		"a payload gone":        {`UPDATE records SET payload = NULL WHERE idx = 1`, "were not let go"},
		"the newest payload":    {`UPDATE records SET payload = NULL WHERE idx = 3`, "the newest record, 3, has lost its payload"},
		"the payload of a fork": {`UPDATE records SET payload = NULL WHERE fork = 1`, "and it is evidence"},
		"a signature":           {`UPDATE records SET signature = zeroblob(64) WHERE idx = 1`, "signature is not one of"},
		"a record":              {`UPDATE records SET record = zeroblob(300) WHERE idx = 1`, "is damaged"},
		"a sequence":            {`UPDATE records SET sequence = 77 WHERE idx = 1`, "kept under sequence 77"},
		"a hash":                {`UPDATE records SET hash = zeroblob(32) WHERE idx = 1`, "its hash is not 00"},
		"a run's record moved":  {`UPDATE records SET run = x'02000000000000000000000000000000' WHERE idx = 3`, "and the run is that of"},
		"a record taken":        {`DELETE FROM records WHERE idx = 1`, "does not follow"},
		"the first":             {`DELETE FROM records WHERE idx = 0`, "names a record before it, and there is none"},
		"the newest":            {`DELETE FROM records WHERE idx = 3`, "its newest record is 2 by its records, and 3 in the list"},
		"one less":              {`DELETE FROM records WHERE idx = 3`, "has 12 records of 13"},
		"records swapped":       {`UPDATE records SET idx = CASE idx WHEN 1 THEN -2 ELSE -1 END WHERE idx IN (1, 2); UPDATE records SET idx = -idx WHERE idx < 0`, "not the leaf"},
		"a leaf":                {`UPDATE nodes SET hash = zeroblob(32) WHERE level = 0 AND idx = 1`, "not the leaf"},
		"a node":                {`UPDATE nodes SET hash = zeroblob(32) WHERE level = 2 AND idx = 1`, "node 1 of level 2 of the tree is not that of its records"},
		"a node gone":           {`DELETE FROM nodes WHERE level = 1 AND idx = 3`, "node 3 of level 1 of the tree is missing"},
		"a node more":           {`INSERT INTO nodes VALUES (1, 9, 9, zeroblob(32))`, "1 nodes that no record makes"},
		"all nodes":             {`DELETE FROM nodes`, "is missing"},
		"a root":                {`UPDATE heads SET root = zeroblob(32) WHERE size = 4`, "the head of size 4 has another root"},
		"the last root":         {`UPDATE heads SET root = zeroblob(32) WHERE size = 12`, "the head of size 12 has another root"},
		"the log cut":           {`DELETE FROM records WHERE idx >= 8; DELETE FROM runs WHERE idx >= 8; UPDATE projects SET size = 8, tree_size = 8; DELETE FROM nodes WHERE idx >= 8 >> level`, "a head of size 12 was signed, and there are 8 records"},
		"a tree too long":       {`UPDATE projects SET tree_size = 20`, "the tree has 20 leaves, and there are 13 records"},
		"a log too short":       {`UPDATE projects SET size = 5`, "has 13 records of 5"},
		"one run back":          {`UPDATE runs SET idx = 2 WHERE idx = 3`, "its newest record is 3 by its records, and 2 in the list"},
		"all runs back":         {`UPDATE runs SET idx = idx - 3`, "its newest record is 11 by its records, and 8 in the list"},
		"a run hidden":          {`DELETE FROM runs WHERE idx = 3`, "its 4 records are hidden"},
		"a run's hotkey":        {`UPDATE runs SET hotkey = (SELECT hotkey FROM runs WHERE idx = 7) WHERE idx = 3`, "its hotkey is"},
		"a run's role":          {`UPDATE runs SET role = 'miner' WHERE idx = 3`, "its role is validator by its records, and miner"},
		"a run's subnet":        {`UPDATE runs SET netuid = 28 WHERE idx = 3`, "its subnet is 27 by its records, and 28"},
		"a run's limits":        {`UPDATE runs SET payload_bytes = 0 WHERE idx = 3`, "bytes of payloads is 28 by its records, and 0"},
		"a run of nothing":      {`INSERT INTO runs SELECT x'09', project, idx, role, netuid, hotkey, 1, 0, 0, 0 FROM runs WHERE idx = 3`, "and has no record"},
		"a project's name":      {`UPDATE projects SET project = 'other'`, "it was signed for lab/net, and is kept under lab/other"},
		"a record's run named":  {`UPDATE records SET record = zeroblob(300) WHERE idx = 1`, "state record 1 of run " + run(1).ID.String() + " is damaged"},
		"a record made a fork":  {`UPDATE records SET fork = 1 WHERE idx = 2`, "there is no first"},
		"the newest made one":   {`UPDATE records SET fork = 1 WHERE idx = 3`, "its newest record is 2 by its records, and 3"},
		"a fork made a record":  {`UPDATE records SET fork = 0 WHERE fork = 1`, "record 8 has its sequence too"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if i := edited(t, c.statement); !strings.Contains(strings.Join(i.Damage, "\n"), c.says) {
				t.Errorf("want %q:\n%s", c.says, strings.Join(i.Damage, "\n"))
			}
		})
	}
}

// What a person changed and no start looks for is mended by hand, from the mirror.
func TestRepairMakesAnewWhatDoesNotFollow(t *testing.T) {
	for name, statement := range map[string]string{
		"a node":             `UPDATE nodes SET hash = zeroblob(32) WHERE level = 1`,
		"a hotkey":           `UPDATE runs SET hotkey = zeroblob(32)`,
		"the newest payload": `UPDATE records SET payload = NULL WHERE idx = 2`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "state.db")
			l := openLog(t, path)
			key, err := statelog.SigningKey(filepath.Join(t.TempDir(), "log.key"))
			if err != nil {
				t.Fatal(err)
			}
			var on *state.Envelope
			for range 3 {
				on = signed(t, run(1), 1, on, `{"a":1}`)
				put(t, l, run(1), on)
			}
			before, err := l.Tree(key).Head(t.Context(), "lab", "net", false)
			if err = errors.Join(err, l.Close()); err != nil {
				t.Fatal(err)
			}
			change(t, path, statement)
			log := slog.New(slog.DiscardHandler)
			for i, act := range []func(context.Context, string, *slog.Logger) (*statelog.Health, error){statelog.Plan, statelog.Repair, statelog.Plan} {
				h, err := act(t.Context(), path, log)
				if err != nil || (h.Rebuilt == "") != (i == 2) {
					t.Fatalf("%d: %+v %v", i, h, err)
				}
			}
			if i := inspect(t, path); i.Records != 3 || len(i.Damage) != 0 {
				t.Errorf("%+v", i)
			}
			after, err := openLog(t, path).Tree(key).Head(t.Context(), "lab", "net", false)
			if err != nil || after.Root != before.Root || after.Signature != before.Signature {
				t.Errorf("%+v %v, before %+v", after, err, before)
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
