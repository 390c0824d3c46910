package main

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/auth"
	"github.com/kymogram/kymogram/server/internal/data"
)

// TestAWipedStoreIsNamed: the files that say which files there must be go together
// with those. The catalog still knows which runs were written to.
func TestAWipedStoreIsNamed(t *testing.T) {
	m := &museum{folder: filepath.Join(t.TempDir(), "killed"), secrets: map[string]string{}}
	origin := filepath.Join(t.TempDir(), "data")
	n := m.open(t, origin, slog.DiscardHandler)
	m.furnish(t, n, 0, 2)
	p, err := n.keyring.Authenticate(t.Context(), m.secrets["admin"])
	if err != nil {
		t.Fatal(err)
	}
	// A run without points, whose records are flushed.
	s, err := n.ingest.Join(auth.WithPrincipal(t.Context(), p), model.OpenRequest{Writer: model.WriterID{77}, Workspace: "w", Project: "p", RunName: "pointless"})
	if err != nil {
		t.Fatal(err)
	}
	b := &model.Batch{First: 1, Last: 1, Updates: []model.Update{{Op: model.OpSetAttribute, Path: "note", Value: model.StringValue("x")}}}
	if _, err := s.Append(auth.WithPrincipal(t.Context(), p), b); err != nil {
		t.Fatal(err)
	}
	s.Close()
	if err := n.close(); err != nil {
		t.Fatal(err)
	}
	n = m.open(t, origin, slog.DiscardHandler)
	m.furnish(t, n, 2, 3)
	if err := os.CopyFS(m.folder, os.DirFS(origin)); err != nil {
		t.Fatal(err)
	}
	if err := n.close(); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		wipe []string
		runs int // that are named at least
	}{
		"nothing":               {nil, 0},
		"the list and segments": {[]string{"segments/LIST", "segments/*.kgs"}, 2},
		"the tip and the log":   {[]string{"wal/TIP", "wal/*.wal"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "data")
			m.copyTo(t, folder)
			for _, pattern := range test.wipe {
				found, err := filepath.Glob(filepath.Join(folder, "store", pattern))
				if err != nil || len(found) == 0 {
					t.Fatalf("%s: %v, %v", pattern, found, err)
				}
				for _, file := range found {
					if err := os.Remove(file); err != nil {
						t.Fatal(err)
					}
				}
			}
			s, err := data.Folder(folder).Survey(t.Context(), true, io.Discard)
			if err != nil || s.OK != (test.runs == 0) || len(s.Apart) < test.runs {
				t.Errorf("%+v, %v", s, err)
			}
		})
	}
}

// TestSmallFilesAreNamed: a server does not start with these files, and verify says so.
func TestSmallFilesAreNamed(t *testing.T) {
	m := &museum{folder: filepath.Join(t.TempDir(), "data"), secrets: map[string]string{}}
	n := m.open(t, m.folder, slog.DiscardHandler)
	m.furnish(t, n, 0, 1)
	if err := n.close(); err != nil {
		t.Fatal(err)
	}
	if s, err := data.Folder(m.folder).Survey(t.Context(), true, io.Discard); err != nil || !s.OK {
		t.Fatalf("before: %+v, %v", s, err)
	}
	for file, text := range map[string]string{"store/VERSION": "r", "log.key": "short", "admin.key": strings.Repeat("0f", 20)} {
		folder := filepath.Join(t.TempDir(), "data")
		m.copyTo(t, folder)
		if err := os.WriteFile(filepath.Join(folder, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := data.Folder(folder).Survey(t.Context(), true, io.Discard)
		if err != nil || s.OK || len(s.Apart) != 1 || !strings.Contains(s.Apart[0], file) {
			t.Errorf("%s: %+v, %v", file, s, err)
		}
	}
}
