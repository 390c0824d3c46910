package spool

import (
	"os"
	"path/filepath"
	"testing"
)

// A key goes from every folder where a spool may lie, and nothing else does.
func TestForgetKey(t *testing.T) {
	home := t.TempDir()
	vars := map[string]string{"KYMOGRAM_SPOOL_DIR": filepath.Join(home, "own"), "XDG_STATE_HOME": filepath.Join(home, "state"), "TMPDIR": filepath.Join(home, "tmp")}
	env := func(name string) string { return vars[name] }
	own, usual := vars["KYMOGRAM_SPOOL_DIR"], filepath.Join(vars["XDG_STATE_HOME"], "kymogram", "spool", hostFolder())
	for _, path := range []string{own, usual} {
		folder, err := OpenFolder(path)
		if err != nil {
			t.Fatal(err)
		}
		for server, key := range map[string]string{"http://a:1": "old", "http://localhost:1": "old", "http://b:1": "kept"} {
			if err := folder.SetKey(server, key); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := ForgetKey(env, "old"); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{own, usual} {
		text, err := os.ReadFile(filepath.Join(path, "credentials"))
		if want := `{"http://b:1":"kept"}`; err != nil || string(text) != want {
			t.Errorf("%s has %s, %v, want %s", path, text, err, want)
		}
	}
	if _, err := os.Stat(vars["TMPDIR"]); err == nil {
		t.Error("a folder was made where no spool lay")
	}
}
