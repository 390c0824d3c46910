package subtensor

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Another file is no substitute: what the tests say would be about another runtime.
func TestAnotherGenesisFails(t *testing.T) {
	raw, err := os.ReadFile(Path())
	if err != nil {
		raw = []byte(`{"genesis":{"raw":{"top":{"0x3a636f6465":"0x00"}}}}`)
	} else {
		raw = append(raw, '\n')
	}
	path := filepath.Join(t.TempDir(), "raonet.json")
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(t.Context(), path); err == nil || !strings.Contains(err.Error(), "is another file: its sha256 is") {
		t.Errorf("one line end more: %v", err)
	}
}

// TestOpened is run by TestMissingGenesis in a process of its own.
func TestOpened(t *testing.T) { Open(t) }

func TestMissingGenesis(t *testing.T) {
	for chain, want := range map[string]string{"": "--- SKIP: TestOpened", "required": "--- FAIL: TestOpened"} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestOpened$", "-test.v")
		cmd.Env = append(os.Environ(), "KYMOGRAM_TESTDATA="+t.TempDir(), "CHAIN="+chain)
		out, err := cmd.CombinedOutput()
		if !strings.Contains(string(out), want) || !strings.Contains(string(out), "is not at") || (err != nil) != (chain != "") {
			t.Errorf("CHAIN=%q: %v\n%s", chain, err, out)
		}
	}
}
