package statelog_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/state"
	"github.com/kymogram/kymogram/server/internal/statelog"
)

// A backup of damaged records fails and says what to do; after the repair it is whole.
func TestACopyOfDamagedRecordsSaysWhatToDo(t *testing.T) {
	for name, at := range map[string]int{"a page": 8192, "the first bytes": 0} {
		folder := t.TempDir()
		path := filepath.Join(folder, "state.db")
		l := openLog(t, path)
		var on *state.Envelope
		for range 30 {
			on = signed(t, run(1), 1, on, `{"text":"`+strings.Repeat("a", 500)+`"}`)
			put(t, l, run(1), on)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		copy(b[at:], strings.Repeat("U", 4096))
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		err = statelog.Copy(t.Context(), path, filepath.Join(folder, "copy.db"))
		var said *model.Error
		if !errors.As(err, &said) || !strings.Contains(said.Hint, "data repair --yes") {
			t.Errorf("%s: %v", name, err)
		}
		openLog(t, path)
		if err := statelog.Copy(t.Context(), path, filepath.Join(folder, "again.db")); err != nil {
			t.Error(err)
		}
		if i := inspect(t, filepath.Join(folder, "again.db")); i.Records != 30 || len(i.Damage) != 0 {
			t.Errorf("%s: %+v", name, i)
		}
	}
}
