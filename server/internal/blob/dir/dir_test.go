package dir_test

import (
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
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

// What is being kept when the process is killed is no blob, and is gone after a start; what is
// kept again is young again.
func TestKeepIsKilledAndSwept(t *testing.T) {
	folder := t.TempDir()
	s := open(t, folder)
	in, out := io.Pipe()
	done := make(chan error, 1)
	go func() {
		_, _, _, err := s.Keep(t.Context(), in, 1<<20)
		done <- err
	}()
	if _, err := out.Write([]byte("half")); err != nil {
		t.Fatal(err)
	}
	list := func() (n int) {
		if err := dir.List(t.Context(), folder, func(dir.Entry) error { n++; return nil }); err != nil {
			t.Fatal(err)
		}
		return n
	}
	half, err := filepath.Glob(filepath.Join(folder, "tmp", "*"))
	if err != nil || len(half) != 1 || list() != 0 {
		t.Fatalf("%v, %v, and %d blobs", half, err, list())
	}
	again := open(t, folder) // as a start after a SIGKILL
	if left, _ := filepath.Glob(filepath.Join(folder, "tmp", "*")); len(left) > 0 {
		t.Fatalf("left: %v", left)
	}
	out.Close()
	if err := <-done; err == nil { // its file is gone under it
		t.Error("the killed one succeeded")
	}
	old := time.Now().Add(-48 * time.Hour)
	for _, text := range []string{"named", "again", "unnamed"} {
		h, _, _, err := again.Keep(t.Context(), strings.NewReader(text), 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		name := h.String()
		if err := os.Chtimes(filepath.Join(folder, name[:2], name[2:]), old, old); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, _, err := again.Keep(t.Context(), strings.NewReader("again"), 1<<20); err != nil {
		t.Fatal(err)
	}
	named := fmt.Sprintf("%x", sha256.Sum256([]byte("named")))
	files, _, err := again.Sweep(t.Context(), time.Now().Add(-time.Hour), func([]string) (map[string]bool, error) {
		return map[string]bool{named: true}, nil
	})
	if err != nil || files != 1 || list() != 2 {
		t.Fatalf("%d files swept, %d left, %v", files, list(), err)
	}
}

// What came of a blob outlives a restart and is no blob to a list; it goes when
// nothing more comes, or when there are too many.
func TestPartsOfBlobs(t *testing.T) {
	folder := t.TempDir()
	s := open(t, folder)
	upload := func(i int) blob.Upload { return blob.Upload{Hash: sha256.Sum256(fmt.Append(nil, i)), Owner: "one"} }
	for i := range 100 {
		if _, err := s.Append(t.Context(), upload(i), 0, false, strings.NewReader("part")); err != nil {
			t.Fatal(err)
		}
		age(t, folder, upload(i).Hash, time.Duration(200-i)*time.Minute)
	}
	s = open(t, folder)
	for i := range 100 {
		want := int64(4)
		if i < 100-64 {
			want = 0 // made way
		}
		if offset, whole, err := s.Offset(t.Context(), upload(i)); offset != want || whole || err != nil {
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

// age makes the parts of a blob as old as if nothing had come since.
func age(t *testing.T, folder string, h blob.Hash, by time.Duration) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(folder, "partial", h.String()+"*"))
	if err != nil || len(names) != 1 {
		t.Fatalf("%v, %v", names, err)
	}
	then := time.Now().Add(-by)
	if err := os.Chtimes(names[0], then, then); err != nil {
		t.Fatal(err)
	}
}

// Who begins many uploads is refused, and takes no place from another. Where all places
// are taken, who has none gets one, and those who have most give theirs up.
func TestUploadsHaveOwners(t *testing.T) {
	folder := t.TempDir()
	s := open(t, folder)
	upload := func(owner string, i int) blob.Upload {
		return blob.Upload{Hash: sha256.Sum256(fmt.Append(nil, owner, i)), Owner: owner}
	}
	begin := func(owner string, i int) model.Code {
		_, err := s.Append(t.Context(), upload(owner, i), 0, false, strings.NewReader("x"))
		return model.CodeOf(err)
	}
	if code := begin("honest", 0); code != "" {
		t.Fatal(code)
	}
	age(t, folder, upload("honest", 0).Hash, 24*time.Hour) // its program rests for a night
	for owner := range 15 {
		for i := range 66 {
			want := model.Code("")
			if i >= 64 {
				want = model.CodeBusy
			}
			if code := begin(fmt.Sprint("greedy", owner), i); code != want {
				t.Fatalf("upload %d of greedy%d: %q, want %q", i, owner, code, want)
			}
		}
	}
	taken := 1 + 15*64
	for owner := 0; taken < 1024+256; owner++ {
		if code := begin(fmt.Sprint("many", owner), 0); code != "" {
			t.Fatalf("the first upload of many%d with %d there: %q", owner, taken, code)
		}
		taken++
	}
	if code := begin("late", 0); code != model.CodeBusy {
		t.Errorf("one more than there may be: %q", code)
	}
	if code := begin("honest", 1); code != model.CodeBusy {
		t.Errorf("a second upload where there is no place: %q", code)
	}
	age(t, folder, upload("greedy3", 7).Hash, time.Hour)
	for i, want := range []model.Code{"", model.CodeBusy} {
		if code := begin(fmt.Sprint("late", i), 0); code != want {
			t.Errorf("upload %d in the place of one that rests: %q, want %q", i, code, want)
		}
	}
	for u, want := range map[blob.Upload]int64{upload("honest", 0): 1, upload("greedy3", 7): 0, upload("greedy3", 8): 1} {
		if offset, _, err := s.Offset(t.Context(), u); offset != want || err != nil {
			t.Errorf("an upload of %s stands at %d, %v; want %d", u.Owner, offset, err, want)
		}
	}
	nothing := blob.Upload{Hash: sha256.Sum256([]byte("nothing")), Owner: "late0"}
	if _, err := s.Append(t.Context(), nothing, 5, false, strings.NewReader("x")); model.CodeOf(err) != model.CodeConflict {
		t.Errorf("an append behind nothing: %v", err)
	}
	if left, err := os.ReadDir(filepath.Join(folder, "partial")); err != nil || len(left) != taken {
		t.Errorf("%d files, want %d, %v", len(left), taken, err)
	}
}

// A blob that was changed on the disk is not served, named once, and served again when it
// is sent again.
func TestADamagedBlobIsNotServed(t *testing.T) {
	const text = "what was sent, and nothing else"
	for name, change := range map[string]func(b []byte) []byte{
		"a bit":        func(b []byte) []byte { b[7] ^= 4; return b },
		"cut":          func(b []byte) []byte { return b[:9] },
		"empty":        func([]byte) []byte { return nil },
		"more":         func(b []byte) []byte { return append(b, 0) },
		"another blob": func([]byte) []byte { return []byte("other") },
	} {
		t.Run(name, func(t *testing.T) {
			folder, log := t.TempDir(), new(strings.Builder)
			s, err := dir.OpenWith(folder, slog.New(slog.NewTextHandler(log, nil)))
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			h := blob.Hash(sha256.Sum256([]byte(text)))
			put := func() {
				t.Helper()
				if err := s.Put(t.Context(), h, strings.NewReader(text)); err != nil {
					t.Fatal(err)
				}
			}
			put()
			file := filepath.Join(folder, h.String()[:2], h.String()[2:])
			if err := os.WriteFile(file, change([]byte(text)), 0o600); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				if _, err := s.Open(t.Context(), h); model.CodeOf(err) != model.CodeDamaged {
					t.Fatalf("opened: %v, want %s", err, model.CodeDamaged)
				}
			}
			if lines := strings.Count(log.String(), "\n"); lines != 1 || !strings.Contains(log.String(), h.String()) || s.Damaged() != 1 {
				t.Errorf("%d counted; the log says %q", s.Damaged(), log)
			}
			if offset, whole, err := s.Offset(t.Context(), blob.Upload{Hash: h}); offset != 0 || whole || err != nil {
				t.Errorf("it stands at %d, %v, %v: it cannot be sent again", offset, whole, err)
			}
			put()
			wantText(t, s, h, text)
		})
	}
}

func wantText(t *testing.T, s *dir.Store, h blob.Hash, want string) {
	t.Helper()
	r, err := s.Open(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got, err := io.ReadAll(r); string(got) != want || err != nil {
		t.Fatalf("read %q, %v; want %q", got, err, want)
	}
}

// A file is compared once while it stays the same, also when its blob is put again.
func TestABlobIsComparedOnce(t *testing.T) {
	folder := t.TempDir()
	s := open(t, folder)
	const text, other = "as it was sent", "as it is now.."
	h := blob.Hash(sha256.Sum256([]byte(text)))
	for range 2 {
		if err := s.Put(t.Context(), h, strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
		wantText(t, s, h, text)
	}
	if err := s.Put(t.Context(), h, strings.NewReader("")); err != nil { // not read: it is there
		t.Fatal(err)
	}
	file := filepath.Join(folder, h.String()[:2], h.String()[2:])
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(other), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(file, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	wantText(t, s, h, other) // nothing says that it changed, so it is not read twice
	if err := os.Chtimes(file, time.Now(), time.Now()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Open(t.Context(), h); model.CodeOf(err) != model.CodeDamaged {
		t.Errorf("a file with another time: %v", err)
	}
}
