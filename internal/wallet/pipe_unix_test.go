//go:build unix

package wallet

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kymogram/kymogram/internal/model"
)

// Nobody writes to the pipe: reading would wait for ever.
func TestPipesDoNotHang(t *testing.T) {
	f := Folder{Path: t.TempDir(), Name: "w", Hotkey: "hot"}
	folder := filepath.Join(f.Path, "w", "hotkeys")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(folder, "hot"), filepath.Join(folder, "hotpub.txt"), filepath.Join(f.Path, "w", "coldkeypub.txt")} {
		if err := unix.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan [3]error, 1)
	go func() {
		_, _, open := f.Open(nil)
		_, public := f.Public()
		_, cold := f.Coldkey()
		done <- [3]error{open, public, cold}
	}()
	select {
	case errs := <-done:
		for i, err := range errs {
			if model.CodeOf(err) != model.CodeInvalid {
				t.Errorf("%d: %v", i, err)
			}
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it hangs")
	}
}
