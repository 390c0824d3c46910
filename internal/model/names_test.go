package model_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
)

// The rule of ARCHITECTURE.md, as a regular expression.
func TestPlaceNamesFollowTheRule(t *testing.T) {
	rule := regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)
	names := []string{"", "a", "Z9", "a.b_c-d", ".a", "-a", "_a", "a/b", "a b", "a\n", "ä", "aä", strings.Repeat("a", 128), strings.Repeat("a", 129), "@", "[", "`", "{", "a@", "a[", "a`", "a{"}
	for c := range 256 {
		names = append(names, string([]byte{byte(c)}), string([]byte{'a', byte(c)}))
	}
	for _, name := range names {
		if got, want := model.CheckPlace("w", name) == nil, rule.MatchString(name) && !strings.HasSuffix(name, "\n"); got != want {
			t.Errorf("CheckPlace of %q: valid is %v, want %v", name, got, want)
		}
	}
}
