package data_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/state"
	"github.com/kymogram/kymogram/internal/wallet"
	"github.com/kymogram/kymogram/server/internal/backup"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/catalog/sqlite"
	"github.com/kymogram/kymogram/server/internal/data"
	"github.com/kymogram/kymogram/server/internal/progress"
	"github.com/kymogram/kymogram/server/internal/statelog"
	"github.com/kymogram/kymogram/server/internal/store/local"
)

// lived is the folder of a server that was killed: all logs wait to be taken over.
func lived(t *testing.T) data.Folder {
	t.Helper()
	f := data.Folder(filepath.Join(t.TempDir(), "data"))
	if err := errors.Join(data.Claim(string(f)), os.MkdirAll(f.Blobs(), 0o700)); err != nil {
		t.Fatal(err)
	}
	engine, err := local.Open(t.Context(), local.Config{Dir: f.Store(), Marks: f.Marks()})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	db, err := sqlite.OpenWith(t.Context(), f.Catalog(), sqlite.Options{Mark: f.CatalogMark()})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	states, err := statelog.OpenWith(t.Context(), f.States(), f.StateMark(), time.Now, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer states.Close()
	for i := range 12 {
		o, err := db.Open(t.Context(), model.OpenRequest{Writer: model.WriterID{1, byte(i)}, Workspace: "w", Project: "p", RunName: fmt.Sprint("run", i)}, time.Now())
		if err == nil {
			err = db.PutKey(t.Context(), catalog.Key{ID: fmt.Sprint("k", i), Name: "k", SHA256: [32]byte{byte(i)}, CreatedNs: 1})
		}
		if err != nil {
			t.Fatal(err)
		}
		sign(t, states, o.Run, fmt.Sprint("run", i), byte(i))
	}
	b := []byte("a blob")
	sum := sha256.Sum256(b)
	name := hex.EncodeToString(sum[:])
	blob := filepath.Join(f.Blobs(), name[:2], name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(blob), 0o700), os.WriteFile(blob, b, 0o600)); err != nil {
		t.Fatal(err)
	}
	killed := data.Folder(filepath.Join(t.TempDir(), "killed"))
	if err := os.CopyFS(string(killed), os.DirFS(string(f))); err != nil {
		t.Fatal(err)
	}
	return killed
}

// sign puts one record of a run.
func sign(t *testing.T, states *statelog.Log, run model.RunID, name string, signer byte) {
	t.Helper()
	now := time.Now()
	key, err := wallet.NewKey([32]byte{signer, 1})
	if err != nil {
		t.Fatal(err)
	}
	e, err := state.Seal(state.Record{
		Place:    state.Place{Netuid: 27, Role: state.Validator, Workspace: "w", Project: "p", Run: name},
		Sequence: 1, TimeMs: uint64(now.UnixMilli()), ExpiresMs: uint64(now.Add(time.Hour).UnixMilli()), PayloadType: state.ConfigPayload,
	}, []byte(`{"a":1}`), key)
	if err == nil {
		_, err = states.Put(t.Context(), &catalog.Run{ID: run, Workspace: "w", Project: "p", Name: name}, e)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// contents are all files of a folder: names, modes, times and bytes.
func contents(t *testing.T, f data.Folder) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(string(f), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		var b []byte
		if !d.IsDir() {
			b, err = os.ReadFile(path)
		}
		out[path] = fmt.Sprintf("%v %v %x", info.Mode(), info.ModTime().UnixNano(), sha256.Sum256(b))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestLookingChangesNothing: what only reads a folder leaves every file of it, and its
// times, as they were. Then the folder may be one that cannot be written, too.
func TestLookingChangesNothing(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	backup := data.Folder(filepath.Join(t.TempDir(), "backup"))
	for _, look := range []struct {
		name string
		do   func(context.Context, data.Folder) error
	}{
		{"verify", func(ctx context.Context, f data.Folder) error {
			s, err := f.Survey(ctx, true, io.Discard)
			if err == nil && (!s.OK || s.Catalog.Runs != 12 || s.Catalog.Keys != 12 || s.States.Records != 12) {
				err = fmt.Errorf("%+v, %+v", s, s.Catalog)
			}
			return err
		}},
		{"stats", func(ctx context.Context, f data.Folder) error {
			_, err := f.Survey(ctx, false, io.Discard)
			return err
		}},
		{"repair without --yes", func(ctx context.Context, f data.Folder) error {
			r, err := f.Repair(ctx, false, log, io.Discard)
			if err == nil && r.Needed {
				err = fmt.Errorf("%+v", r)
			}
			return err
		}},
		{"backup", func(ctx context.Context, f data.Folder) error {
			_, err := f.Backup(ctx, string(backup), "test", io.Discard)
			return err
		}},
	} {
		t.Run(look.name, func(t *testing.T) {
			folder := lived(t)
			long := time.Now().Add(-time.Hour)
			names := slices.Sorted(maps.Keys(contents(t, folder)))
			for _, name := range slices.Backward(names) {
				if err := os.Chtimes(name, long, long); err != nil {
					t.Fatal(err)
				}
			}
			before := contents(t, folder)
			if err := look.do(t.Context(), folder); err != nil {
				t.Error(err)
			}
			after := contents(t, folder)
			for name, was := range before {
				if after[name] != was {
					t.Errorf("%s was\n%s, it is\n%s", name, was, after[name])
				}
			}
			for name := range after {
				if before[name] == "" {
					t.Errorf("%s is new", name)
				}
			}
		})
	}
	if s, err := backup.Survey(t.Context(), true, io.Discard); err != nil || !s.OK || s.Catalog.Keys != 12 || s.States.Records != 12 {
		t.Errorf("the backup: %+v, %v", s, err)
	}
}

// TestOneOfTwoLists: a damaged list of segments is named by its file, with what it means,
// and repair writes it as the other one has it.
func TestOneOfTwoLists(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	for name, test := range map[string]struct {
		harmed, gone []string
		says         string
		mends        bool
	}{
		"among the marks":         {[]string{"marks/LIST"}, nil, "its other copy is used", true},
		"in the store":            {[]string{"store/segments/LIST"}, nil, "its other copy is used", true},
		"both":                    {[]string{"marks/LIST", "store/segments/LIST"}, nil, "there is no other copy", false},
		"one, and the other gone": {[]string{"store/segments/LIST"}, []string{"marks/LIST"}, "there is no other copy", false},
	} {
		t.Run(name, func(t *testing.T) {
			folder := flushed(t)
			at := func(name string) string { return filepath.Join(string(folder), filepath.FromSlash(name)) }
			was, err := os.ReadFile(at("marks/LIST"))
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range test.harmed {
				if err := os.WriteFile(at(name), was[:len(was)/2], 0o600); err != nil {
					t.Fatal(err)
				}
			}
			for _, name := range test.gone {
				if err := os.Remove(at(name)); err != nil {
					t.Fatal(err)
				}
			}
			s, err := folder.Survey(t.Context(), true, io.Discard)
			if err != nil || len(s.Store.Damage) != len(test.harmed) {
				t.Fatalf("%+v, %v", s.Store, err)
			}
			for i, d := range s.Store.Damage {
				if !slices.Contains(test.harmed, filepath.ToSlash(d.File)) || !strings.Contains(d.Reason, test.says) {
					t.Errorf("%d: %+v", i, d)
				}
			}
			r, err := folder.Repair(t.Context(), true, log, io.Discard)
			if err != nil || len(r.Small) != len(test.harmed) {
				t.Fatalf("%+v, %v", r, err)
			}
			for _, name := range test.harmed {
				if b, err := os.ReadFile(at(name)); err != nil || (string(b) == string(was)) != test.mends {
					t.Errorf("%s is %q, %v", name, b, err)
				}
			}
			if s, err = folder.Survey(t.Context(), true, io.Discard); err != nil || s.OK != test.mends {
				t.Errorf("then %+v, %v", s.Store.Damage, err)
			}
		})
	}
}

// flushed is the folder of a server that was stopped, with a segment.
func flushed(t *testing.T) data.Folder {
	t.Helper()
	f := lived(t)
	engine, err := local.Open(t.Context(), local.Config{Dir: f.Store(), Marks: f.Marks()})
	if err != nil {
		t.Fatal(err)
	}
	run := model.RunID{7}
	db, err := sqlite.OpenWith(t.Context(), f.Catalog(), sqlite.Options{Mark: f.CatalogMark()})
	if err != nil {
		t.Fatal(err)
	}
	o, err := db.Open(t.Context(), model.OpenRequest{Writer: model.WriterID{9}, LocalRun: run, Workspace: "w", Project: "p", RunName: "points"}, time.Now())
	if err == nil {
		err = engine.PutAttempt(t.Context(), o.Run, model.Attempt{Number: 1})
	}
	if err == nil {
		_, err = engine.Append(t.Context(), &model.Batch{Run: o.Run, Writer: model.WriterID{9}, Attempt: 1, First: 1, Last: 1, Groups: []model.RowGroup{{
			TimeNs: []int64{1}, Seq: []uint64{1}, Columns: []model.Column{{Series: model.NewSeriesKey("loss", "", nil), Kind: model.KindFloat, Floats: []float64{1}}},
		}}})
	}
	if err := errors.Join(err, engine.Flush(t.Context()), engine.Close(), db.Close()); err != nil {
		t.Fatal(err)
	}
	return f
}

// TestMarksOfNoRecords: that there are none is something that a mark says.
func TestMarksOfNoRecords(t *testing.T) {
	folder := empty(t)
	states, err := statelog.OpenWith(t.Context(), folder.States(), folder.StateMark(), time.Now, slog.New(slog.DiscardHandler))
	if err == nil {
		err = states.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	if s, err := folder.Survey(t.Context(), true, io.Discard); err != nil || !s.OK || len(s.Notes) > 0 {
		t.Errorf("%v, %v", s.Notes, err)
	}
}

// TestMarksOfAFolderWithoutPoints: the tip of an empty log says 0, and is whole.
func TestMarksOfAFolderWithoutPoints(t *testing.T) {
	f := data.Folder(t.TempDir())
	for range 2 { // a start, and one more
		engine, err := local.Open(t.Context(), local.Config{Dir: f.Store(), Marks: f.Marks()})
		if err != nil {
			t.Fatal(err)
		}
		db, err := sqlite.OpenWith(t.Context(), f.Catalog(), sqlite.Options{Mark: f.CatalogMark()})
		if err := errors.Join(err, engine.Close(), db.Close()); err != nil {
			t.Fatal(err)
		}
		if tip, err := os.ReadFile(filepath.Join(f.Marks(), "TIP")); err != nil || len(tip) != 12 {
			t.Fatalf("the tip has %d bytes, %v", len(tip), err)
		}
		s, err := f.Survey(t.Context(), true, io.Discard)
		if err != nil || !s.OK || len(s.Notes) > 0 {
			t.Errorf("%v, %v", s.Notes, err)
		}
	}
}

// TestMarksThatSayNothing are no damage, and verify has a line for each.
func TestMarksThatSayNothing(t *testing.T) {
	for _, mark := range []string{"CATALOG", "STATE", "TIP"} {
		for name, harm := range map[string]func(b []byte) []byte{
			"empty": func([]byte) []byte { return nil },
			"zeros": func(b []byte) []byte { return make([]byte, len(b)) },
			"a bit": func(b []byte) []byte { b[0] ^= 128; return b },
			"whole": func(b []byte) []byte { return b },
		} {
			t.Run(mark+" "+name, func(t *testing.T) {
				folder := flushed(t)
				path := filepath.Join(folder.Marks(), mark)
				b, err := os.ReadFile(path)
				if err == nil {
					err = os.WriteFile(path, harm(b), 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
				s, err := folder.Survey(t.Context(), true, io.Discard)
				if err != nil {
					t.Fatal(err)
				}
				var out strings.Builder
				if err := s.Print(&out); err != nil || !s.OK || strings.Contains(out.String(), "marks/"+mark+" is damaged") != (name != "whole") {
					t.Errorf("%v, %+v\n%s", err, s.Apart, out.String())
				}
			})
		}
	}
}

// TestMarksAreAFile: the start says what to do, verify names it, repair moves it away.
func TestMarksAreAFile(t *testing.T) {
	folder := flushed(t)
	if err := errors.Join(os.RemoveAll(folder.Marks()), os.WriteFile(folder.Marks(), []byte("?"), 0o600)); err != nil {
		t.Fatal(err)
	}
	start := func() error {
		e, err := local.Open(t.Context(), local.Config{Dir: folder.Store(), Marks: folder.Marks()})
		if err == nil {
			err = e.Close()
		}
		return err
	}
	var said *model.Error
	if err := start(); !errors.As(err, &said) || !strings.Contains(said.Message, "is a file, and must be a folder") || !strings.Contains(said.Hint, "Move it away") {
		t.Errorf("the start: %v", err)
	}
	if s, err := folder.Survey(t.Context(), true, io.Discard); err != nil || s.OK || !strings.Contains(strings.Join(s.Apart, ""), "marks: it is a file") {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := folder.Repair(t.Context(), true, slog.New(slog.DiscardHandler), io.Discard); err != nil {
		t.Error(err)
	}
	if err := start(); err != nil {
		t.Error(err)
	}
	if s, err := folder.Survey(t.Context(), true, io.Discard); err != nil || !s.OK {
		t.Errorf("then %+v, %v", s, err)
	}
}

// TestABackupThatIsServed is a data folder like any other from then on.
func TestABackupThatIsServed(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	for name, use := range map[string]func(*testing.T, data.Folder) error{
		"compacted": func(t *testing.T, f data.Folder) error {
			_, err := f.Compact(t.Context(), log, io.Discard)
			return err
		},
		"a key made": func(t *testing.T, f data.Folder) error {
			g, err := f.Guest(t.Context(), log)
			if err == nil {
				err = errors.Join(g.PutKey(t.Context(), catalog.Key{ID: "new", Name: "k", SHA256: [32]byte{99}, CreatedNs: 1}), g.Close())
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			to := data.Folder(filepath.Join(t.TempDir(), "backup"))
			if _, err := flushed(t).Backup(t.Context(), string(to), "test", io.Discard); err != nil {
				t.Fatal(err)
			}
			if err := use(t, to); err != nil {
				t.Fatal(err)
			}
			if s, err := to.Survey(t.Context(), true, io.Discard); err != nil || !s.OK {
				t.Errorf("%+v, %v", s.Backup, err)
			}
			_, err := to.Backup(t.Context(), filepath.Join(t.TempDir(), "again"), "test", io.Discard)
			if err != nil {
				t.Error(err)
			}
			var said *model.Error
			_, err = backup.Restore(t.Context(), string(to), filepath.Join(t.TempDir(), "restored"), false, progress.Bytes(io.Discard, 1, ""))
			if !errors.As(err, &said) || !strings.Contains(said.Message, "no backup any more") || !strings.Contains(said.Hint, "kymogram data backup") {
				t.Errorf("%v", err)
			}
		})
	}
}
