package statelog_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/state"
	"github.com/kymogram/kymogram/server/internal/statelog"
	"github.com/kymogram/kymogram/server/internal/transparency"
)

// Records move into PostgreSQL and back: every head, cosignature and piece of evidence stays,
// and both logs go on where they were.
func TestRecordsMoveIntoPostgreSQLAndBack(t *testing.T) {
	databases, folder := newDatabases(t), t.TempDir()
	keyFile := filepath.Join(folder, "log.key")
	file := openLog(t, filepath.Join(folder, "state.db"))
	tree, err := file.OpenTree(t.Context(), keyFile)
	if err != nil {
		t.Fatal(err)
	}
	var heads [3]*state.Envelope
	for n := range 40 {
		at := byte(n % 3)
		e := signed(t, run(at+1), at+1, heads[at], `{"pad":"`+strings.Repeat("x", n*1000)+`"}`)
		put(t, file, run(at+1), e)
		heads[at] = e
	}
	if _, err := file.Put(t.Context(), run(1), signed(t, run(1), 1, nil, `{"twin":1}`)); !errors.As(err, new(*state.Conflict)) {
		t.Fatal(err)
	}
	head, err := tree.Head(t.Context(), "lab", "net", false)
	if err != nil {
		t.Fatal(err)
	}
	c, err := head.Cosign(key(t, 2))
	if err == nil {
		err = tree.Witness(t.Context(), "lab", "net", head.Size, c)
	}
	if err != nil {
		t.Fatal(err)
	}
	carry := func(from, to *statelog.Log, keyFile string) {
		t.Helper()
		records := int64(0)
		if err := statelog.Carry(t.Context(), from, to, keyFile, func(n int64) { records += n }); err != nil || records < 41 {
			t.Fatalf("%d records: %v", records, err)
		}
	}
	grows := func(l *statelog.Log, keyFile string, before *transparency.SignedHead) *transparency.SignedHead {
		t.Helper()
		tree, err := l.OpenTree(t.Context(), keyFile)
		if err != nil {
			t.Fatal(err)
		}
		seen, err := tree.Head(t.Context(), "lab", "net", true)
		if err != nil || len(seen.Cosignatures) != 1 || seen.Root != head.Root || seen.Check() != nil {
			t.Errorf("the cosigned head is %+v, %v", seen, err)
		}
		e := signed(t, run(2), 2, heads[1], `{}`)
		put(t, l, run(2), e)
		heads[1] = e
		after, err := tree.Head(t.Context(), "lab", "net", false)
		if err != nil || after.Key != before.Key || after.Size != before.Size+1 {
			t.Fatalf("%+v, %v", after, err)
		}
		hashes, err := tree.Consistency(t.Context(), "lab", "net", before.Size, after.Size)
		if err = errors.Join(err, transparency.CheckConsistency(before, after, hashes)); err != nil {
			t.Error(err)
		}
		return after
	}
	place := databases(t)
	shared := place.open(t)
	carry(file, shared, keyFile)
	if err := statelog.Carry(t.Context(), file, shared, keyFile, func(int64) { t.Error("a record was copied again") }); err != nil {
		t.Errorf("once more: %v", err)
	}
	head2 := grows(shared, "", head)
	if i := place.verify(t); i.Records != 42 || i.Forks != 1 || len(i.Damage) > 0 {
		t.Errorf("%+v", i)
	}
	if err := statelog.Carry(t.Context(), file, shared, keyFile, func(int64) {}); model.CodeOf(err) != model.CodeConflict {
		t.Errorf("into a place that has records: %v", err)
	}
	back := t.TempDir()
	again := openLog(t, filepath.Join(back, "state.db"))
	carry(shared, again, filepath.Join(back, "log.key"))
	grows(again, filepath.Join(back, "log.key"), head2)
	if i := inspect(t, filepath.Join(back, "state.db")); i.Records != 43 || i.Forks != 1 || len(i.Damage) > 0 {
		t.Errorf("%+v", i)
	}
	if _, err := os.Stat(filepath.Join(back, "log.key")); err != nil {
		t.Error(err)
	}
}
