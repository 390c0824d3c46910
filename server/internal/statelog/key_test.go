package statelog_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/statelog"
	"github.com/kymogram/kymogram/server/internal/transparency"
)

// TestTheKeyOfTheHeads: a key whose file was changed signs nothing, so that witnesses
// never see a server that began anew because of a bit. One that was made for a file
// that somebody deleted begins a new log.
func TestTheKeyOfTheHeads(t *testing.T) {
	dir := t.TempDir()
	path, keyFile := filepath.Join(dir, "state.db"), filepath.Join(dir, "log.key")
	head := func(made bool) (*transparency.SignedHead, error) {
		t.Helper()
		log, err := statelog.Open(t.Context(), path, now)
		if err != nil {
			t.Fatal(err)
		}
		defer log.Close()
		tree, err := log.OpenTree(t.Context(), keyFile)
		if err != nil {
			t.Fatal(err)
		}
		if made {
			put(t, log, run(1), signed(t, run(1), 1, nil, `{}`))
		}
		return tree.Head(t.Context(), "lab", "net", false)
	}
	fault := func(want string) {
		t.Helper()
		got, err := statelog.CompareKey(t.Context(), path, keyFile)
		if err != nil || want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("verify says %q, not %q, %v", got, want, err)
		}
	}
	fault("")
	first, err := head(true)
	if err != nil {
		t.Fatal(err)
	}
	fault("")
	seed, err := os.ReadFile(keyFile)
	if err != nil {
		t.Fatal(err)
	}
	wrong := append([]byte{seed[0] ^ 4}, seed[1:]...)
	if err := os.WriteFile(keyFile, wrong, 0o600); err != nil {
		t.Fatal(err)
	}
	fault("not the key that signed")
	if h, err := head(false); model.CodeOf(err) != model.CodeUnavailable || !strings.Contains(err.Error(), "log.key") {
		t.Errorf("a head with another key: %+v, %v", h, err)
	}
	fault("not the key that signed")
	if err := os.WriteFile(keyFile, seed, 0o600); err != nil {
		t.Fatal(err)
	}
	if again, err := head(false); err != nil || again.Key != first.Key || again.Root != first.Root || again.Signature != first.Signature {
		t.Errorf("with the key again: %+v, %v", again, err)
	}
	if err := os.Remove(keyFile); err != nil {
		t.Fatal(err)
	}
	fault("is missing")
	log, err := statelog.Open(t.Context(), path, now)
	if err != nil {
		t.Fatal(err)
	}
	_, err = log.OpenTree(t.Context(), keyFile)
	if err := errors.Join(err, log.Close()); err != nil { // stopped before anybody asked for a head
		t.Fatal(err)
	}
	fault("")
	after, err := head(false)
	if err != nil || after.Check() != nil || after.Key == first.Key || after.Root != first.Root {
		t.Errorf("a new log: %+v, %v", after, err)
	}
}
