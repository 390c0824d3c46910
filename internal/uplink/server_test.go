package uplink

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
)

// TestParseServer: Python reads the same table, so that one address means one
// server, and one key, to every client.
func TestParseServer(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join("..", "..", "testdata", "client", "addresses.json"))
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Given   string
		Address *string
	}
	if err := json.Unmarshal(doc, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		got, err := ParseServer(c.Given)
		if c.Address == nil {
			if model.CodeOf(err) != model.CodeInvalid {
				t.Errorf("%q is taken for %q (%v)", c.Given, got, err)
			}
		} else if err != nil || got != *c.Address {
			t.Errorf("%q gives %q, %v", c.Given, got, err)
		}
	}
}
