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
	if _, err := folder.Survey(t.Context(), true, io.Discard); model.CodeOf(err) != model.CodeInternal || !strings.Contains(err.Error(), "the catalog in "+string(folder)+" is damaged") {
		t.Errorf("noise: %v", err)
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
