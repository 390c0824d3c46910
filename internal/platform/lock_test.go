package platform

import (
	"os"
	"path/filepath"
	"testing"
)

func open(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func TestLockExcludesAndSharesUntilClose(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, second := open(t, path), open(t, path)
	expect := func(what string, try func(*os.File) (bool, error), f *os.File, want bool) {
		t.Helper()
		if got, err := try(f); err != nil || got != want {
			t.Fatalf("%s: %v, %v; want %v", what, got, err, want)
		}
	}
	expect("first", TryLock, first, true)
	expect("second while first holds", TryLock, second, false)
	expect("share while first holds", TryShare, second, false)
	first.Close()
	expect("share after the close", TryShare, second, true)
	third := open(t, path)
	expect("another share", TryShare, third, true)
	expect("whole while another shares", TryLock, second, false)
}

func TestMapIsTheFile(t *testing.T) {
	f := open(t, filepath.Join(t.TempDir(), "map"))
	if err := Reserve(f, 1<<16); err != nil {
		t.Fatal(err)
	}
	mem, err := Map(f, 1<<16)
	if err != nil {
		t.Fatal(err)
	}
	copy(mem[1000:], "through the map")
	got := make([]byte, 15)
	if _, err := f.ReadAt(got, 1000); err != nil || string(got) != "through the map" {
		t.Fatalf("read %q, %v", got, err)
	}
	if err := Unmap(mem); err != nil {
		t.Fatal(err)
	}
	if info, err := f.Stat(); err != nil || info.Size() != 1<<16 {
		t.Fatalf("reserved %v bytes, %v", info.Size(), err)
	}
}
