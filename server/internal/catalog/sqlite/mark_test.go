package sqlite

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOlderCopy: older copies of a catalog and its mirror agree with each other. The mark
// apart from them tells, at the start and to verify, and only then.
func TestOlderCopy(t *testing.T) {
	data := t.TempDir()
	path, mark := filepath.Join(data, "catalog.db"), filepath.Join(data, "marks", "CATALOG")
	var log bytes.Buffer
	open := func() *DB {
		t.Helper()
		log.Reset()
		db, err := OpenWith(t.Context(), path, Options{Mark: mark, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))})
		if err != nil {
			t.Fatal(err)
		}
		return db
	}
	quiet := func(when string) {
		t.Helper()
		if why, err := Older(t.Context(), path, mark); why != "" || err != nil {
			t.Errorf("%s: %s %v", when, why, err)
		}
		h, err := Plan(t.Context(), path, mark)
		if err != nil || !h.Healthy() {
			t.Errorf("%s: %+v, %v", when, h, err)
		}
	}
	db := open()
	live(t, db, 0, 5)
	if why, err := Older(t.Context(), path, mark); why != "" || err != nil {
		t.Errorf("while it is used: %s %v", why, err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	quiet("after a stop")
	older := filepath.Join(t.TempDir(), "older")
	if err := os.CopyFS(older, os.DirFS(data)); err != nil {
		t.Fatal(err)
	}
	db = open()
	live(t, db, 5, 8)
	if err := db.Close(); err != nil || log.Len() > 0 {
		t.Fatal(err, log.String())
	}
	quiet("after another stop")
	newer := filepath.Join(t.TempDir(), "newer")
	if err := errors.Join(os.Rename(data, newer), os.CopyFS(data, os.DirFS(older))); err != nil {
		t.Fatal(err)
	}
	quiet("as a whole it is older, and nothing tells")
	b, err := os.ReadFile(filepath.Join(newer, "marks", "CATALOG"))
	if err == nil {
		err = os.WriteFile(mark, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if why, err := Older(t.Context(), path, mark); !strings.Contains(why, "older copies") || err != nil {
		t.Errorf("verify: %q, %v", why, err)
	}
	if h, err := Plan(t.Context(), path, mark); err != nil || h.Healthy() || !strings.Contains(h.Older, "older copies") {
		t.Errorf("repair: %+v, %v", h, err)
	}
	db = open()
	if !strings.Contains(log.String(), "level=ERROR") || db.Health().Older == "" {
		t.Errorf("the start: %s, %+v", log.String(), db.Health())
	}
	live(t, db, 10, 12)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	quiet("what goes on from there")
	for _, noise := range []string{"", "noise", strings.Repeat("noise", 9)} {
		if err := os.WriteFile(mark, []byte(noise), 0o600); err != nil {
			t.Fatal(err)
		}
		quiet("a damaged mark")
	}
	if err := errors.Join(os.RemoveAll(mirrorDir(path)), os.Remove(path)); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{"-wal", "-shm"} {
		_ = os.Remove(path + suffix)
	}
	if err := os.WriteFile(mark, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := open().Close(); err != nil || !strings.Contains(log.String(), "older copies") {
		t.Errorf("catalog and mirror are gone: %v, %s", err, log.String())
	}
}
