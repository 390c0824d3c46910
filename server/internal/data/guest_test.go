package data_test

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wal"
	"github.com/kymogram/kymogram/server/internal/backup"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/data"
	"github.com/kymogram/kymogram/server/internal/progress"
)

// A guest keeps others out where no server runs, and stays beside one that does.
func TestGuest(t *testing.T) {
	quiet := slog.New(slog.DiscardHandler)
	if _, err := data.Folder(t.TempDir()).Guest(t.Context(), quiet); model.CodeOf(err) != model.CodeNotFound {
		t.Errorf("no folder: %v", err)
	}
	folder := empty(t)
	alone, err := folder.Guest(t.Context(), quiet)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := folder.Lock(); !errors.Is(err, wal.ErrLocked) {
		t.Errorf("a server could start: %v", err)
	}
	if err := alone.Close(); err != nil {
		t.Fatal(err)
	}
	server, err := folder.Lock()
	if err != nil {
		t.Fatal(err)
	}
	beside, err := folder.Guest(t.Context(), quiet)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(beside.Close(), server.Close()); err != nil {
		t.Error(err)
	}
}

// A backup is a folder that can be surveyed; a file of it that was changed is named.
func TestSurveyOfABackup(t *testing.T) {
	folder, to := empty(t), filepath.Join(t.TempDir(), "copy")
	if err := os.WriteFile(filepath.Join(string(folder), "tls.pem"), []byte("ca"), 0o600); err != nil {
		t.Fatal(err)
	}
	done, err := folder.Backup(t.Context(), to, "1", io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	if err := done.Print(&said); err != nil || !strings.HasPrefix(said.String(), "saved ") {
		t.Errorf("%v, %s", err, said.String())
	}
	s, err := data.Folder(to).Survey(t.Context(), true, io.Discard)
	if err != nil || !s.OK || s.Err() != nil {
		t.Fatalf("%+v, %v", s, err)
	}
	if err := os.WriteFile(filepath.Join(to, "tls.pem"), []byte("xx"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err = data.Folder(to).Survey(t.Context(), true, io.Discard)
	if err != nil || s.OK || s.Err() == nil || len(s.Backup) != 1 || !strings.Contains(s.Backup[0], "tls.pem") {
		t.Errorf("%+v, %v", s, err)
	}
	if s, err := data.Folder(to).Survey(t.Context(), false, io.Discard); err != nil || !s.OK || s.Err() != nil {
		t.Errorf("not every byte: %+v, %v", s, err)
	}
}

// TestDamageBeforeTheFirstStart: a folder that was restored and never started has a whole
// mirror, so the catalog comes back from it without the loss of a key.
func TestDamageBeforeTheFirstStart(t *testing.T) {
	quiet := slog.New(slog.DiscardHandler)
	folder := empty(t)
	guest, err := folder.Guest(t.Context(), quiet)
	if err == nil {
		err = errors.Join(guest.PutKey(t.Context(), catalog.Key{ID: "k1", Name: "k", SHA256: [32]byte{7}, CreatedNs: 1}), guest.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	saved, restored := filepath.Join(t.TempDir(), "saved"), data.Folder(filepath.Join(t.TempDir(), "restored"))
	if _, err := folder.Backup(t.Context(), saved, "1", io.Discard); err != nil {
		t.Fatal(err)
	}
	if _, err := backup.Restore(t.Context(), saved, string(restored), false, progress.Bytes(io.Discard, 1, "")); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(restored.Catalog())
	if err != nil {
		t.Fatal(err)
	}
	file[len(file)/2] ^= 1
	if err := os.WriteFile(restored.Catalog(), file, 0o600); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	if s, err := restored.Survey(t.Context(), true, io.Discard); err != nil || s.Print(&said) != nil || !strings.Contains(said.String(), "it is damaged, so its runs and keys are not counted") {
		t.Errorf("%v\n%s", err, said.String())
	}
	r, err := restored.Repair(t.Context(), true, quiet, io.Discard)
	if err != nil || r.Catalog.Rebuilt == "" || len(r.Catalog.Lost) > 0 || r.Catalog.Closed > 0 {
		t.Errorf("%+v, %v", r.Catalog, err)
	}
	if s, err := restored.Survey(t.Context(), true, io.Discard); err != nil || !s.OK || s.Catalog.Keys != 1 {
		t.Errorf("then %+v, %v", s.Catalog, err)
	}
}
