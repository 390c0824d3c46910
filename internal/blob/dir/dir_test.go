package dir_test

import (
	"crypto/sha256"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/internal/blob"
	"github.com/kymogram/kymogram/internal/blob/blobtest"
	"github.com/kymogram/kymogram/internal/blob/dir"
)

func open(t *testing.T, folder string) *dir.Store {
	t.Helper()
	s, err := dir.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestSuite(t *testing.T) {
	blobtest.Run(t, func(t *testing.T) blob.Store { return open(t, t.TempDir()) })
}

func TestReopenKeepsBlobsAndClearsHalfWrittenOnes(t *testing.T) {
	folder := t.TempDir()
	h := blob.Hash(sha256.Sum256([]byte("kept")))
	if err := open(t, folder).Put(t.Context(), h, strings.NewReader("kept")); err != nil {
		t.Fatal(err)
	}
	half := filepath.Join(folder, "tmp", "half")
	if err := os.WriteFile(half, []byte("ha"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := open(t, folder).Open(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Close()
	if _, err := os.Stat(half); !os.IsNotExist(err) {
		t.Fatalf("the half-written file is still there: %v", err)
	}
}

func TestLinkOutOfTheFolderIsNotFollowed(t *testing.T) {
	folder, secret := t.TempDir(), filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("canary"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, folder)
	name := strings.Repeat("ab", 32)
	if err := os.Mkdir(filepath.Join(folder, "ab"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, filepath.Join(folder, "ab", name[2:])); err != nil {
		t.Fatal(err)
	}
	h, err := blob.ParseHash(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Open(t.Context(), h); err == nil {
		t.Fatal("a link out of the folder was followed")
	}
}
