package query

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestAutomaton: the answer is that of package regexp.
func TestAutomaton(t *testing.T) {
	part := rapid.SampledFrom([]string{
		"loss", "a", "é", "(b|c)", "[0-9]+", "(?i)LoSS", "(?i)ſ", ".*", "x?", "(ab)+", "(ab){0,2}", "^", "$", "\\.", "(|q)", "\\b", "\\B", "(?m)^", "(?m)$",
		"\\A", "\\z", "(?s).", ".", "[^a]", "\\w", "\\W", "a{3}", "(?:a|ab)(?:c|bcd)", "\\pL", "[é-ü]", "(a*)*", "()", "[^\\x00-\\x{10FFFF}]", "(?U)a+", "\\n", "x{0}",
	})
	name := rapid.SampledFrom([]string{"", "loss", "LOSS", "ab", "abab", "a.b", "é7", "train/loss", "q", "b12", "xx", "\n", "a\nb", " ", "aaa", "abcd", "ſ", "日本", "\xff", "_"})
	rapid.Check(t, func(rt *rapid.T) {
		expression := strings.Join(rapid.SliceOfN(part, 1, 5).Draw(rt, "expression"), "")
		re, err := regexp.Compile(expression)
		if err != nil {
			rt.Skip(err)
		}
		a, err := newAutomaton(expression)
		if err != nil {
			rt.Fatal(err)
		}
		names := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) string { return strings.Join(rapid.SliceOfN(name, 0, 4).Draw(rt, "parts"), "") }), 1, 12)
		for _, n := range names.Draw(rt, "names") {
			if got, want := a.matches(n), re.MatchString(n); got != want {
				rt.Fatalf("%q on %q: %v, want %v", expression, n, got, want)
			}
		}
	})
}

// FuzzAutomaton compares with package regexp on any expression and name.
func FuzzAutomaton(f *testing.F) {
	f.Add(`[ab]+c?$`, "train/loss", "loss")
	f.Add(`(?m)^\bx|(?i)ſé*`, "a\nx", "Sé")
	f.Fuzz(func(t *testing.T, expression, one, two string) {
		if len(expression) > 64 {
			t.Skip("package regexp takes too long")
		}
		re, err := regexp.Compile(expression)
		if err != nil {
			t.Skip(err)
		}
		a, err := newAutomaton(expression)
		if err != nil && strings.Contains(err.Error(), "too large") {
			t.Skip(err)
		}
		if err != nil {
			t.Fatalf("%q, which package regexp takes: %v", expression, err)
		}
		for _, name := range []string{one, two, one + two, one} {
			if got, want := a.matches(name), re.MatchString(name); got != want {
				t.Fatalf("%q on %q: %v, want %v", expression, name, got, want)
			}
		}
	})
}

// TestAutomatonIsBounded: an expression of more states than there may be is
// still answered, one of a larger program refused.
func TestAutomatonIsBounded(t *testing.T) {
	re := regexp.MustCompile(`[ab]*a[ab]{12}c`)
	a, err := newAutomaton(re.String())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1 << 15 {
		name := strings.NewReplacer("0", "a", "1", "b").Replace(fmt.Sprintf("%015b", i)) + "c"
		if got, want := a.matches(name), re.MatchString(name); got != want {
			t.Fatalf("%s: %v, want %v", name, got, want)
		}
	}
	if len(a.states) != maxStates {
		t.Errorf("%d states, want the bound reached", len(a.states))
	}
	if _, err := newAutomaton(strings.Repeat(`a{1000}`, 10)); err == nil || !strings.Contains(err.Error(), "too large") {
		t.Errorf("a program of 10,000 steps: %v", err)
	}
}

func BenchmarkSearch(b *testing.B) {
	names := make([]string, 1_000_000)
	for i := range names {
		names[i] = fmt.Sprintf("model/layer_%03d/head_%02d/grad_norm_%d", i/1000, i/10%100, i%10)
	}
	for _, expression := range []string{`[xy]+z?`, `[0-9]{4}`, `(weight|bias)_norm_[0-9]+`, `^model/layer_999/head_99/grad_norm_9$`, `(?i)LOSS`, `\bq`} {
		b.Run(expression, func(b *testing.B) {
			for b.Loop() {
				a, err := newAutomaton(expression)
				if err != nil {
					b.Fatal(err)
				}
				for _, n := range names {
					a.matches(n)
				}
			}
		})
	}
}
