package dir_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kymogram/kymogram/server/internal/blob"
	"github.com/kymogram/kymogram/server/internal/blob/blobtest"
	"github.com/kymogram/kymogram/server/internal/blob/dir"
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

// A sweep deletes what is old and not used; what is put again is young again.
func TestSweep(t *testing.T) {
	folder := t.TempDir()
	s, err := dir.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	put := func(text string) blob.Hash {
		h := blob.Hash(sha256.Sum256([]byte(text)))
		if err := s.Put(t.Context(), h, strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
		return h
	}
	old := time.Now().Add(-48 * time.Hour)
	used, again, gone := put("used"), put("again"), put("gone!")
	err = dir.List(t.Context(), folder, func(e dir.Entry) error { return os.Chtimes(filepath.Join(folder, e.Path), old, old) })
	if err != nil {
		t.Fatal(err)
	}
	young := put("young")
	files, bytes, err := s.Sweep(t.Context(), time.Now().Add(-time.Hour), func(hashes []string) (map[string]bool, error) {
		if len(hashes) != 3 || slices.Contains(hashes, young.String()) {
			t.Errorf("asked about %v", hashes)
		}
		put("again") // by a client that is about to name it
		return map[string]bool{used.String(): true}, nil
	})
	if err != nil || files != 1 || bytes != 5 {
		t.Fatalf("%d files, %d bytes, %v", files, bytes, err)
	}
	for h, want := range map[blob.Hash]bool{used: true, again: true, young: true, gone: false} {
		r, err := s.Open(t.Context(), h)
		if (err == nil) != want {
			t.Errorf("blob %s is there: %v, want %v", h, err == nil, want)
		}
		if err == nil {
			_ = r.Close()
		}
	}
}

// What came of a blob outlives a restart and is no blob to a list; it goes when
// nothing more comes, or when there are too many.
func TestPartsOfBlobs(t *testing.T) {
	folder := t.TempDir()
	s := open(t, folder)
	hash := func(i int) blob.Hash { return sha256.Sum256(fmt.Append(nil, i)) }
	for i := range 100 {
		if _, err := s.Append(t.Context(), hash(i), 0, false, strings.NewReader("part")); err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(folder, "partial", hash(i).String())
		then := time.Now().Add(time.Duration(i-200) * time.Minute)
		if err := os.Chtimes(name, then, then); err != nil {
			t.Fatal(err)
		}
	}
	s = open(t, folder)
	for i := range 100 {
		want := int64(4)
		if i < 100-64 {
			want = 0 // made way
		}
		if offset, whole, err := s.Offset(t.Context(), hash(i)); offset != want || whole || err != nil {
			t.Errorf("%d stands at %d, %v, %v; want %d", i, offset, whole, err, want)
		}
	}
	err := dir.List(t.Context(), folder, func(e dir.Entry) error { t.Errorf("listed %s", e.Path); return nil })
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = s.Sweep(t.Context(), time.Now().Add(-110*time.Minute), func([]string) (map[string]bool, error) { return nil, nil })
	if err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(filepath.Join(folder, "partial"))
	if err != nil || len(left) != 9 {
		t.Errorf("%d are left, want 9, %v", len(left), err)
	}
}
