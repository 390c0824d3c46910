package query

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kymogram/kymogram/internal/model"
)

// TestByName: the shortcut gives the answer of the expression itself.
func TestByName(t *testing.T) {
	part := rapid.SampledFrom([]string{"loss", "a", "é", "(b|c)", "[0-9]+", "(?i)LoSS", ".*", "x?", "(ab)+", "(ab){0,2}", "^", "$", "\\.", "(|q)"})
	name := rapid.SampledFrom([]string{"", "loss", "LOSS", "ab", "abab", "a.b", "é7", "train/loss", "q", "b12", "xx"})
	rapid.Check(t, func(rt *rapid.T) {
		expression := strings.Join(rapid.SliceOfN(part, 1, 4).Draw(rt, "expression"), "")
		re, err := regexp.Compile(expression)
		if err != nil {
			rt.Skip(err)
		}
		a, err := newAutomaton(expression)
		if err != nil {
			rt.Fatal(err)
		}
		match, not := byName([]*automaton{a}, nil), byName(nil, []*automaton{a})
		for _, n := range rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) string { return name.Draw(rt, "a") + name.Draw(rt, "b") }), 1, 9).Draw(rt, "names") {
			if got, want := match(model.SeriesKey{Metric: n}), re.MatchString(n); got != want {
				rt.Fatalf("%q on %q: %v, want %v", expression, n, got, want)
			}
			if not(model.SeriesKey{Metric: n}) == re.MatchString(n) {
				rt.Fatalf("not %q on %q: %v", expression, n, re.MatchString(n))
			}
		}
	})
}

func TestRequired(t *testing.T) {
	for expression, want := range map[string][]string{
		`loss`: {"loss"}, `^train/.*_norm$`: {"train/"}, `(weight|bias)_norm_[0-9]+`: {"weight_norm_", "bias_norm_"},
		`[ab]*`: nil, `(?i)loss`: nil, `a|`: nil, `(ab)+c`: {"ab"}, `layer_[0-9]+/mlp`: {"layer_"},
	} {
		if got := required(expression); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", expression, got, want)
		}
	}
}
