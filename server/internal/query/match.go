package query

import (
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
)

// byName matches a metric's name with all expressions of the first list, and none of the other.
// A list asks for the series of a metric one after the other, so the last answer is kept.
func byName(all, none []*automaton) func(model.SeriesKey) bool {
	want, not := finders(all), finders(none)
	found := func(name string) bool {
		finds := func(f func(string) bool) bool { return f(name) }
		return !slices.ContainsFunc(want, func(f func(string) bool) bool { return !f(name) }) && !slices.ContainsFunc(not, finds)
	}
	last, answer := "", found("")
	return func(key model.SeriesKey) bool {
		if key.Metric != last {
			last = key.Metric
			answer = found(last)
		}
		return answer
	}
}

// finders look first for texts of which every match holds one, which is faster still than the automaton.
func finders(list []*automaton) []func(name string) bool {
	out := make([]func(string) bool, len(list))
	for i, a := range list {
		must := required(a.re.String())
		out[i] = func(name string) bool { return holdsOne(name, must) && a.matches(name) }
	}
	return out
}

func holdsOne(name string, texts []string) bool {
	for _, text := range texts {
		if strings.Contains(name, text) {
			return true
		}
	}
	return len(texts) == 0
}

// maxTexts bounds the texts that are looked for: more cost as much as they save.
const maxTexts = 8

// required is texts of which every match of an expression holds at least one;
// none when that is not easy to see.
func required(expression string) []string {
	re, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return nil
	}
	return requiredOf(re.Simplify())
}

func requiredOf(re *syntax.Regexp) []string {
	if texts, ok := exact(re); ok && worth(texts) > 0 {
		return texts
	}
	switch re.Op {
	case syntax.OpCapture, syntax.OpPlus:
		return requiredOf(re.Sub[0])
	case syntax.OpConcat:
		return requiredOfAll(re.Sub)
	}
	return nil
}

// requiredOfAll joins neighbours that are exact and keeps the best of all.
func requiredOfAll(subs []*syntax.Regexp) (best []string) {
	better := func(texts []string) {
		if worth(texts) > worth(best) {
			best = texts
		}
	}
	run := []string{""}
	for _, sub := range subs {
		texts, ok := exact(sub)
		if joined := cross(run, texts); ok && len(joined) <= maxTexts {
			run = joined
			continue
		}
		better(run)
		better(requiredOf(sub))
		if run = texts; !ok {
			run = []string{""}
		}
	}
	better(run)
	return best
}

// worth is the length of the shortest text: the empty one is in everything.
func worth(texts []string) int {
	if len(texts) == 0 {
		return 0
	}
	return len(slices.MinFunc(texts, func(a, b string) int { return len(a) - len(b) }))
}

// exact is all that an expression matches, when that is a few texts.
func exact(re *syntax.Regexp) (texts []string, ok bool) {
	switch re.Op {
	case syntax.OpEmptyMatch, syntax.OpBeginText, syntax.OpEndText, syntax.OpBeginLine, syntax.OpEndLine, syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return []string{""}, true
	case syntax.OpLiteral:
		return []string{string(re.Rune)}, re.Flags&syntax.FoldCase == 0
	case syntax.OpCapture:
		return exact(re.Sub[0])
	case syntax.OpAlternate:
		for _, sub := range re.Sub {
			more, ok := exact(sub)
			if texts = append(texts, more...); !ok || len(texts) > maxTexts {
				return nil, false
			}
		}
		return texts, true
	case syntax.OpConcat:
		texts = []string{""}
		for _, sub := range re.Sub {
			more, ok := exact(sub)
			if texts = cross(texts, more); !ok || len(texts) > maxTexts {
				return nil, false
			}
		}
		return texts, true
	}
	return nil, false
}

func cross(a, b []string) (out []string) {
	for _, x := range a {
		for _, y := range b {
			out = append(out, x+y)
		}
	}
	return out
}
