package spelling_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/server/internal/spelling"
)

func TestNear(t *testing.T) {
	names := []string{"hello", "Hello", "help", "brave-otter-7", "brave-otter-71", "first", "größe", "a", "b", "hello"}
	for word, want := range map[string][]string{
		"hello":     {"Hello", "hello"},
		"HELLO":     {"Hello", "hello"},
		"helo":      {"Hello", "hello", "help"},
		"hlelo":     {"Hello", "hello"},
		"frist":     {"first"},
		"fisrt":     {"first"},
		"brave":     {"brave-otter-7", "brave-otter-71"},
		"br":        {},
		"grösse":    {"größe"},
		"xyzzy":     {},
		"":          {},
		"c":         {},
		"\xff\xfe":  {},
		"otter":     {},
		"firstfirs": {},
	} {
		if got := spelling.Near(word, names, 3); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
	if got := spelling.Near("run-1", []string{"run-4", "run-3", "run-2"}, 2); !slices.Equal(got, []string{"run-2", "run-3"}) {
		t.Errorf("the first of three: %q", got)
	}
	if got := spelling.Near(strings.Repeat("x", 1<<20), []string{strings.Repeat("x", 1<<20)}, 2); len(got) > 0 {
		t.Error("a word without end is compared")
	}
}
