package statelog_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/internal/state"
	"github.com/kymogram/kymogram/server/internal/statelog"
)

// Records that are gone with their mirror, and older copies of both, are named by verify
// and by the start, which goes on with what is there.
func TestRecordsThatAreGoneWithTheirMirrorAreNamed(t *testing.T) {
	for name, lose := range map[string]func(t *testing.T, folder, older string){
		"gone": func(*testing.T, string, string) {},
		"older copies": func(t *testing.T, folder, older string) {
			t.Helper()
			if err := os.CopyFS(folder, os.DirFS(older)); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			folder, older, mark := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "marks", "STATE")
			path := filepath.Join(folder, "state.db")
			said := new(bytes.Buffer)
			open := func() *statelog.Log {
				l, err := statelog.OpenWith(t.Context(), path, mark, now, slog.New(slog.NewTextHandler(said, nil)))
				if err != nil {
					t.Fatal(err)
				}
				return l
			}
			told := func() string {
				text, err := statelog.Older(t.Context(), path, mark)
				if err != nil {
					t.Fatal(err)
				}
				return text
			}
			var on *state.Envelope
			for n := range 5 {
				l := open()
				on = signed(t, run(1), 1, on, `{}`)
				put(t, l, run(1), on)
				if h := l.Health(); told() != "" || !h.Healthy() || said.Len() > 0 {
					t.Fatalf("%s %+v %s", told(), h, said)
				}
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
				if n == 2 {
					if err := os.CopyFS(older, os.DirFS(folder)); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := os.RemoveAll(folder); err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(folder, 0o700); err != nil {
				t.Fatal(err)
			}
			lose(t, folder, older)
			if text := told(); !strings.Contains(text, "and 5 were taken") {
				t.Errorf("verify says %q", text)
			}
			l := open()
			defer l.Close()
			if h := l.Health(); h.Older == "" || !strings.Contains(said.String(), "the state records are older than they were") {
				t.Errorf("the start says %+v %s", h, said)
			}
			if text := told(); text != "" {
				t.Errorf("after it: %q", text)
			}
		})
	}
}
