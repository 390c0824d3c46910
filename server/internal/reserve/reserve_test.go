package reserve_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/reserve"
)

const size = 2 << 20

func open(t *testing.T, path string) *reserve.File {
	t.Helper()
	f, err := reserve.Open(path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// A write that fails on a full disk is tried again each time that some was given
// up; other failures are not.
func TestDo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "reserve")
	f := open(t, path)
	if held, _ := f.Stats(); held != size {
		t.Fatalf("%d bytes are held", held)
	}
	full := model.Errorf(model.CodeDiskFull, "full")
	var seen []int64
	err := f.Do(func() error {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if seen = append(seen, info.Size()); len(seen) < 4 {
			return full
		}
		return nil
	})
	if err != nil || len(seen) != 4 || seen[0] != size || seen[3] >= seen[2] {
		t.Errorf("%v, the file had %v bytes", err, seen)
	}
	if held, given := f.Stats(); held != size || given != 3 {
		t.Errorf("%d bytes are held again, %d times some were given up", held, given)
	}
	other, calls := errors.New("other"), 0
	if err := f.Do(func() error { calls++; return other }); !errors.Is(err, other) || calls != 1 {
		t.Errorf("%v after %d calls", err, calls)
	}
	if err := f.Do(func() error { return full }); model.CodeOf(err) != model.CodeDiskFull {
		t.Errorf("a disk that stays full: %v", err)
	}
	if held, _ := open(t, path).Stats(); held != size {
		t.Errorf("%d bytes are held after the next start", held)
	}
}
