package data_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog/sqlite"
	"github.com/kymogram/kymogram/server/internal/data"
	"github.com/kymogram/kymogram/server/internal/store/local"
)

// A folder of ours is made private; one of another user that others may enter is refused.
func TestClaimMakesTheFolderPrivate(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "data")
	if err := errors.Join(os.Mkdir(folder, 0o700), os.Chmod(folder, 0o755), data.Claim(folder)); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(folder); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder is %v, %v", info.Mode(), err)
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can give a folder away")
	}
	if err := errors.Join(os.Chmod(folder, 0o750), os.Chown(folder, 65534, -1)); err != nil {
		t.Fatal(err)
	}
	var e *model.Error
	if err := data.Claim(folder); !errors.As(err, &e) || !strings.Contains(e.Hint, "chmod 700") {
		t.Errorf("another user's open folder: %v", err)
	}
	if err := errors.Join(os.Chmod(folder, 0o700), data.Claim(folder)); err != nil {
		t.Errorf("another user's private folder: %v", err)
	}
}

// empty makes the folder of a server that nobody used.
func empty(t *testing.T) data.Folder {
	t.Helper()
	folder := data.Folder(filepath.Join(t.TempDir(), "data"))
	if err := data.Claim(string(folder)); err != nil {
		t.Fatal(err)
	}
	engine, err := local.Open(t.Context(), local.Config{Dir: folder.Store()})
	if err != nil {
		t.Fatal(err)
	}
	db, err := sqlite.Open(t.Context(), folder.Catalog())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(engine.Close(), db.Close()); err != nil {
		t.Fatal(err)
	}
	return folder
}

func TestSurveyAndCompact(t *testing.T) {
	folder := empty(t)
	for _, whole := range []bool{false, true} {
		s, err := folder.Survey(t.Context(), whole, io.Discard)
		if err != nil || !s.OK || s.Store.Points != 0 || s.Data != string(folder) {
			t.Fatalf("%+v, %v", s, err)
		}
		var out strings.Builder
		if err := s.Print(&out, whole); err != nil || strings.Contains(out.String(), "every byte is as it was written") != whole {
			t.Errorf("%v\n%s", err, out.String())
		}
	}
	if done, err := folder.Compact(t.Context(), slog.New(slog.DiscardHandler), io.Discard); err != nil || done.After == 0 {
		t.Errorf("%+v, %v", done, err)
	}
	none := data.Folder(t.TempDir())
	if _, err := none.Compact(context.Background(), slog.New(slog.DiscardHandler), io.Discard); model.CodeOf(err) != model.CodeNotFound {
		t.Errorf("%v", err)
	}
	if left, err := os.ReadDir(string(none)); err != nil || len(left) != 0 {
		t.Errorf("it left %v, %v", left, err)
	}
}

func TestFaultsHaveARemedy(t *testing.T) {
	folder := empty(t)
	if err := os.WriteFile(folder.Catalog(), []byte(strings.Repeat("noise", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := folder.Survey(t.Context(), true, io.Discard); err != nil || s.OK || len(s.Catalog.Damage) != 1 {
		t.Errorf("noise: %+v, %v", s, err)
	}
	if err := os.RemoveAll(folder.Catalog() + "-mirror"); err != nil {
		t.Fatal(err)
	}
	if r, err := folder.Repair(t.Context(), true, slog.New(slog.DiscardHandler), io.Discard); err != nil || len(r.Catalog.Lost) == 0 {
		t.Errorf("noise without a mirror: %+v, %v", r, err)
	}
	known := model.Errorf(model.CodeConflict, "known")
	other := errors.New("other")
	for err, code := range map[error]model.Code{
		known: model.CodeConflict, other: model.CodeInternal,
		syscall.ENOSPC: model.CodeDiskFull, syscall.EROFS: model.CodePermission,
	} {
		if got := data.Explain("folder", err); model.CodeOf(got) != code {
			t.Errorf("%v: %v", err, got)
		}
	}
	if data.Explain("folder", nil) != nil {
		t.Error("no fault")
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := data.Claim(filepath.Join(file, "below")); model.CodeOf(err) != model.CodeInvalid {
		t.Errorf("%v", err)
	}
}

// TestRepair: without do nothing changes; with it the catalog is whole again, and
// what was damaged is kept.
func TestRepair(t *testing.T) {
	folder := empty(t)
	log := slog.New(slog.DiscardHandler)
	look := func(do bool) *data.Repaired {
		t.Helper()
		r, err := folder.Repair(t.Context(), do, log, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		if err := r.Print(&out); err != nil || strings.Contains(out.String(), "add --yes") != (r.Needed && !do) {
			t.Errorf("%v\n%s", err, out.String())
		}
		return r
	}
	if r := look(true); r.Needed {
		t.Errorf("a whole folder: %+v", r.Catalog)
	}
	noise := []byte(strings.Repeat("noise", 1000))
	if err := os.WriteFile(folder.Catalog(), noise, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := look(false); !r.Needed || r.Catalog.Rebuilt == "" {
		t.Errorf("%+v", r.Catalog)
	}
	if r := look(true); !r.Needed || len(r.Catalog.SetAside) != 1 {
		t.Errorf("%+v", r.Catalog)
	} else if kept, err := os.ReadFile(r.Catalog.SetAside[0]); err != nil || string(kept) != string(noise) {
		t.Errorf("what was damaged is not kept: %v", err)
	}
	if s, err := folder.Survey(t.Context(), true, io.Discard); err != nil || !s.OK {
		t.Errorf("%+v, %v", s, err)
	}
	engine, err := local.Open(t.Context(), local.Config{Dir: folder.Store()})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	if _, err := folder.Repair(t.Context(), false, log, io.Discard); model.CodeOf(err) != model.CodeUnavailable {
		t.Errorf("while a server runs: %v", err)
	}
}
