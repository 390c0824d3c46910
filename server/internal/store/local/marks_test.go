package local_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wal"
	"github.com/kymogram/kymogram/server/internal/store/local"
)

// TestTwoFilesLost: a file with points and the file beside it that says so are lost
// together. Verify and the start name it, by the marks apart from the store.
func TestTwoFilesLost(t *testing.T) {
	run := model.RunID{7}
	store := func(t *testing.T, dir, marks string) *local.Engine {
		t.Helper()
		e, err := local.Open(t.Context(), local.Config{Dir: dir, Marks: marks})
		if err == nil {
			err = e.PutAttempt(t.Context(), run, model.Attempt{Number: 1})
		}
		for seq := uint64(1); seq <= 20 && err == nil; seq++ {
			_, err = e.Append(t.Context(), oneRow(run, model.WriterID{1}, seq))
		}
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	for name, test := range map[string]struct {
		stopped bool // else killed
		lost    []string
		named   bool
	}{
		"a segment and the list":               {true, []string{"store/segments/LIST", "store/segments/0000000000000001.kgs"}, true},
		"all segments and the list":            {true, []string{"store/segments"}, true},
		"the log and its tip":                  {false, []string{"store/wal/TIP", "store/wal/00000000000000000001.wal"}, true},
		"the folder of the log":                {false, []string{"store/wal"}, true},
		"the list, and what says it again":     {true, []string{"store/segments/LIST", "marks/LIST"}, false},
		"the tip, and what says it again":      {false, []string{"store/wal/TIP", "marks/TIP"}, false},
		"nothing after a stop":                 {true, nil, false},
		"nothing after a kill":                 {false, nil, false},
		"the marks, as in a copy of the store": {true, []string{"marks"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			origin, data := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "data")
			e := store(t, filepath.Join(origin, "store"), filepath.Join(origin, "marks"))
			if test.stopped {
				if err := e.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.CopyFS(data, os.DirFS(origin)); err != nil {
				t.Fatal(err)
			}
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			for _, path := range test.lost {
				if err := os.RemoveAll(filepath.Join(data, path)); err != nil {
					t.Fatal(err)
				}
			}
			dir, marks := filepath.Join(data, "store"), filepath.Join(data, "marks")
			if found := verify(t, dir, marks); (len(found) > 0) != test.named {
				t.Errorf("verify names %v", found)
			}
			var told strings.Builder
			e, err := local.Open(t.Context(), local.Config{Dir: dir, Marks: marks, Logger: slog.New(slog.NewTextHandler(&told, &slog.HandlerOptions{Level: slog.LevelWarn}))})
			if err != nil {
				t.Fatal(err)
			}
			if (told.Len() > 0) != test.named || (e.Stats().Quarantined > 0) != test.named {
				t.Errorf("the start says %q, %+v", told.String(), e.Stats())
			}
			// What comes later is stored beside it.
			_, err = e.Append(t.Context(), oneRow(run, model.WriterID{2}, 1))
			if model.CodeOf(err) == model.CodeNotFound {
				err = e.PutAttempt(t.Context(), run, model.Attempt{Number: 1})
			}
			if err := errors.Join(err, e.Close()); err != nil {
				t.Error(err)
			}
		})
	}
}

func verify(t *testing.T, dir, marks string) []local.Fault {
	t.Helper()
	f, err := local.OpenFolder(t.Context(), wal.OS{}, dir, marks)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	found, err := f.Inspect(t.Context(), true, nil)
	if err != nil {
		t.Fatal(err)
	}
	return found.Damage
}

// TestMarksMayLag: marks that a program without them left behind are no alarm, however
// often segments were merged since.
func TestMarksMayLag(t *testing.T) {
	data := t.TempDir()
	dir, marks := filepath.Join(data, "store"), filepath.Join(data, "marks")
	write := func(marks string, from uint64) {
		t.Helper()
		e, err := local.Open(t.Context(), local.Config{Dir: dir, Marks: marks})
		if err != nil {
			t.Fatal(err)
		}
		run := model.RunID{7}
		err = e.PutAttempt(t.Context(), run, model.Attempt{Number: 1})
		for seq := from; seq < from+3 && err == nil; seq++ {
			if _, err = e.Append(t.Context(), oneRow(run, model.WriterID{1}, seq)); err == nil {
				err = e.Flush(context.Background())
			}
			if err == nil && marks == "" {
				err = e.Compact(t.Context(), true)
			}
		}
		if err := errors.Join(err, e.Close()); err != nil {
			t.Fatal(err)
		}
	}
	write(marks, 1)
	write("", 4)
	if found := verify(t, dir, marks); len(found) > 0 {
		t.Errorf("verify names %v", found)
	}
	write(marks, 7)
	if found := verify(t, dir, marks); len(found) > 0 {
		t.Errorf("then verify names %v", found)
	}
}

// TestTheFirstStartMarks: a folder of a version without marks has them after one start
// that nobody wrote during.
func TestTheFirstStartMarks(t *testing.T) {
	data := t.TempDir()
	dir, marks := filepath.Join(data, "store"), filepath.Join(data, "marks")
	e, err := local.Open(t.Context(), local.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	run := model.RunID{7}
	err = e.PutAttempt(t.Context(), run, model.Attempt{Number: 1})
	if err == nil {
		_, err = e.Append(t.Context(), oneRow(run, model.WriterID{1}, 1))
	}
	killed := filepath.Join(data, "killed")
	if err := errors.Join(err, os.CopyFS(killed, os.DirFS(dir)), e.Close()); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ dir, lost string }{{dir, "segments"}, {killed, "wal"}} {
		if e, err = local.Open(t.Context(), local.Config{Dir: test.dir, Marks: marks}); err != nil {
			t.Fatal(err)
		}
		after := filepath.Join(t.TempDir(), "after")
		if err := errors.Join(os.CopyFS(after, os.DirFS(data)), e.Close(), os.RemoveAll(filepath.Join(after, filepath.Base(test.dir), test.lost))); err != nil {
			t.Fatal(err)
		}
		if found := verify(t, filepath.Join(after, filepath.Base(test.dir)), filepath.Join(after, "marks")); len(found) == 0 {
			t.Errorf("%s is gone, and verify does not tell", test.lost)
		}
		if err := os.RemoveAll(marks); err != nil {
			t.Fatal(err)
		}
	}
}
