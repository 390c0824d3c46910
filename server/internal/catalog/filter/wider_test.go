package filter_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kymogram/kymogram/server/internal/catalog/filter"
)

// holds evaluates a filter whose terms are words and at(…) by name.
func holds(e filter.Expr, truth map[string]bool) bool {
	switch e.Kind {
	case filter.Word:
		return truth[e.Value]
	case filter.Compare:
		return truth[e.Path]
	case filter.Not:
		return !holds(e.Parts[0], truth)
	case filter.Any:
		for _, part := range e.Parts {
			if holds(part, truth) {
				return true
			}
		}
		return false
	}
	for _, part := range e.Parts {
		if !holds(part, truth) {
			return false
		}
	}
	return true
}

func line(rt *rapid.T, depth int) string {
	switch n := rapid.IntRange(0, 5).Draw(rt, "kind"); {
	case n < 2 || depth == 0:
		return rapid.SampledFrom([]string{"a", "b", "at(x,1)<1", "at(y,2)=3"}).Draw(rt, "term")
	case n == 2:
		return "not (" + line(rt, depth-1) + ")"
	case n == 3:
		return "(" + line(rt, depth-1) + " or " + line(rt, depth-1) + ")"
	default:
		return "(" + line(rt, depth-1) + " " + line(rt, depth-1) + ")"
	}
}

// A filter without some comparisons holds wherever the whole one does, and has none of them.
func TestWithoutIsWider(t *testing.T) {
	narrower := 0
	rapid.Check(t, func(rt *rapid.T) {
		text := line(rt, 3)
		e, err := filter.Parse(text)
		if err != nil {
			rt.Fatal(err)
		}
		wider := e.Without(func(m filter.Metric) bool { return m.Of == filter.AtStep })
		if len(wider.Metrics(nil)) > 0 {
			rt.Fatalf("%s became %v", text, wider)
		}
		for bits := range 16 {
			truth := map[string]bool{"a": bits&1 > 0, "b": bits&2 > 0, "at(x,1)": bits&4 > 0, "at(y,2)": bits&8 > 0}
			if holds(e, truth) && !holds(*wider, truth) {
				rt.Fatalf("%s holds for %v, %v does not", text, truth, wider)
			}
			if !holds(*wider, truth) {
				narrower++
			}
		}
		if !strings.Contains(text, "at(") && wider.String() != e.String() {
			rt.Fatalf("%s became %v", text, wider)
		}
	})
	if narrower == 0 {
		t.Error("every filter became one that holds for all runs")
	}
}
