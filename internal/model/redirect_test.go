package model_test

import (
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
)

// TestRedirected: Python's client reads the same table.
func TestRedirected(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join("..", "..", "testdata", "client", "redirects.json"))
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		From, Location, Says string
		Server               *string
	}
	if err := json.Unmarshal(doc, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		from, err := url.Parse(c.From)
		if err != nil {
			t.Fatal(err)
		}
		to, err := from.Parse(c.Location)
		if err != nil {
			t.Fatal(err)
		}
		hint := "It looks like a proxy that asks for a sign-in, or another program. Name an address where Kymogram itself answers (KYMOGRAM_SERVER)."
		if c.Server != nil {
			hint = "Name " + *c.Server + " as the server (KYMOGRAM_SERVER)."
		}
		e := model.Redirected(from, to)
		if e.Message != c.Says || e.Hint != hint || e.Code != model.CodeUnavailable || strings.Contains(e.Message+e.Hint, "secret") {
			t.Errorf("%s → %s: %q %q", c.From, c.Location, e.Message, e.Hint)
		}
	}
}
