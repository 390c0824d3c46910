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
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/state"
	"github.com/kymogram/kymogram/internal/wallet"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/catalog/sqlite"
	"github.com/kymogram/kymogram/server/internal/data"
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
