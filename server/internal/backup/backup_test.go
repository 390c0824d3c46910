package backup_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/backup"
	"github.com/kymogram/kymogram/server/internal/progress"
)

// source is a data folder with back ends that copy plainly, and what it holds.
func source(t *testing.T) (*backup.Source, map[string]string) {
	t.Helper()
	folder := t.TempDir()
	files := map[string]string{"store/log": "points", "blobs/aa": "video", "catalog.db": "runs", "state.db": "records", "admin.key": "secret", "tls/ca.pem": "ca"}
	for name, text := range files {
		write(t, filepath.Join(folder, name), text)
	}
	write(t, filepath.Join(folder, "catalog.db-wal"), "not copied")
	write(t, filepath.Join(folder, "state.db-wal"), "not copied")
	write(t, filepath.Join(folder, ".probe-1"), "not copied")
	return &backup.Source{
		Folder: folder, Store: "store", Catalog: "catalog.db", States: "state.db", Blobs: "blobs",
		CopyStates: func(_ context.Context, from, to string) error {
			text, err := os.ReadFile(from)
			return errors.Join(err, os.WriteFile(to, text, 0o600))
		},
		CopyCatalog: func(_ context.Context, from, to string) (uint64, error) {
			text, err := os.ReadFile(from)
			return 7, errors.Join(err, os.WriteFile(to, text, 0o600), os.Chmod(to, 0o644)) // as SQLite makes it
		},
		CopyStore: func(_ context.Context, highest uint64, put func(string, int64, io.Reader) error) error {
			if highest != 7 {
				t.Errorf("the store is copied up to %d", highest)
			}
			return put("log", 6, strings.NewReader("points"))
		},
		ListBlobs: func(_ context.Context, _ string, each func(string) error) error {
			return errors.Join(each("aa"), each("deleted-meanwhile"))
		},
	}, files
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, folder string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(folder, path)
		text, rerr := os.ReadFile(path)
		out[name] = string(text)
		return errors.Join(err, rerr)
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func bar() progress.Bar { return progress.Bytes(io.Discard, 1, "test") }

func TestThereAndBack(t *testing.T) {
	s, files := source(t)
	saved, restored := filepath.Join(t.TempDir(), "saved"), filepath.Join(t.TempDir(), "restored")
	done, err := s.Backup(t.Context(), saved, "1.2.3", bar())
	if err != nil || done.Files != len(files) || done.Folder != saved {
		t.Fatalf("%+v, %v", done, err)
	}
	if changed, err := backup.Changed(t.Context(), saved); err != nil || len(changed) > 0 {
		t.Errorf("changed %v, %v", changed, err)
	}
	if _, err := backup.Restore(t.Context(), saved, restored, false, bar()); err != nil {
		t.Fatal(err)
	}
	private(t, saved)
	private(t, restored)
	got := read(t, restored)
	for name, text := range files {
		if got[name] != text {
			t.Errorf("%s is %q", name, got[name])
		}
	}
	if len(got) != len(files) {
		t.Errorf("restored %v", got)
	}
	if _, err := s.Backup(t.Context(), saved, "1.2.3", bar()); model.CodeOf(err) != model.CodeConflict {
		t.Errorf("over another one: %v", err)
	}
}

// private fails for a file or folder that others may read.
func private(t *testing.T, folder string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if info, err := d.Info(); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s is %v, %v", path, info.Mode(), err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestDamageIsNamedAndNotRestored(t *testing.T) {
	s, _ := source(t)
	saved := filepath.Join(t.TempDir(), "saved")
	if _, err := s.Backup(t.Context(), saved, "1.2.3", bar()); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(saved, "store", "log"), "pointz")
	if changed, err := backup.Changed(t.Context(), saved); err != nil || len(changed) != 1 || changed[0] != "store/log is not what was saved" {
		t.Errorf("changed %v, %v", changed, err)
	}
	to := filepath.Join(t.TempDir(), "restored")
	if _, err := backup.Restore(t.Context(), saved, to, false, bar()); err == nil || !strings.Contains(err.Error(), "store/log in the backup is not what was saved") {
		t.Errorf("restored: %v", err)
	}
	if _, err := os.Stat(to); !os.IsNotExist(err) {
		t.Errorf("half a folder has its name: %v", err)
	}
	if err := os.Remove(filepath.Join(saved, "blobs", "aa")); err != nil {
		t.Fatal(err)
	}
	done, err := backup.Restore(t.Context(), saved, to, true, bar())
	if err != nil || !slices.Equal(done.Damaged, []string{"store/log is not what was saved", "blobs/aa is not what was saved"}) {
		t.Fatalf("%+v, %v", done, err)
	}
	if got := read(t, to); got["store/log"] != "pointz" || got["catalog.db"] != "runs" || len(got) != 5 {
		t.Errorf("restored %v", got)
	}
}

// TestNoCopyIntoTheFolderItself: such a copy would contain itself, and the next one it.
func TestNoCopyIntoTheFolderItself(t *testing.T) {
	s, files := source(t)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(s.Folder, link); err != nil {
		t.Fatal(err)
	}
	for _, to := range []string{filepath.Join(s.Folder, "bk"), filepath.Join(s.Folder, "new", "bk"), s.Folder, filepath.Join(link, "bk"), filepath.Join(s.Folder, "store", "..", "bk")} {
		if _, err := s.Backup(t.Context(), to, "1.2.3", bar()); err == nil || !strings.Contains(err.Error(), "the copy would contain itself") {
			t.Errorf("%s: %v", to, err)
		}
	}
	if got := read(t, s.Folder); len(got) != len(files)+3 {
		t.Errorf("left %v", got)
	}
	saved := s.Folder + "-saved" // a name that begins with the folder's is not in it
	if _, err := s.Backup(t.Context(), saved, "1.2.3", bar()); err != nil {
		t.Fatal(err)
	}
	if _, err := backup.Restore(t.Context(), saved, filepath.Join(saved, "data"), false, bar()); err == nil || !strings.Contains(err.Error(), "the copy would contain itself") {
		t.Errorf("restored into the backup: %v", err)
	}
}

func TestFoldersThatAreNoBackup(t *testing.T) {
	folder := t.TempDir()
	to := filepath.Join(t.TempDir(), "restored")
	if changed, err := backup.Changed(t.Context(), folder); err != nil || changed != nil {
		t.Errorf("%v, %v", changed, err)
	}
	for manifest, want := range map[string]string{
		"":                                       "is no complete backup",
		"{":                                      "is damaged",
		`{"format":99}`:                          "has format 99, this program knows 1",
		`{"format":1,"files":[{"path":"../x"}]}`: "names a file outside itself",
	} {
		if manifest != "" {
			write(t, filepath.Join(folder, "BACKUP.json"), manifest)
		}
		if _, err := backup.Restore(t.Context(), folder, to, false, bar()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", manifest, err)
		}
		_ = os.Remove(filepath.Join(folder, "BACKUP.json"))
	}
}
