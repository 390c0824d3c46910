package uplink

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func TestLogTurnsOver(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.log")
	l, err := OpenLog(path)
	if err != nil {
		t.Fatal(err)
	}
	line := bytes.Repeat([]byte("x"), 1000)
	const lines = 1500
	for range lines {
		if _, err := l.Write(line); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	total := int64(0)
	for _, p := range []string{path, path + ".1"} {
		info, err := os.Stat(p)
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() > maxLog || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has %d bytes, mode %v", p, info.Size(), info.Mode())
		}
		total += info.Size()
	}
	if total != lines*1000 {
		t.Errorf("%d bytes in the two files, %d were written", total, lines*1000)
	}
}
