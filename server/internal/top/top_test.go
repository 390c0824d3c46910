package top

import (
	"math"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"github.com/rivo/uniseg"
	"pgregory.net/rapid"

	"github.com/kymogram/kymogram/read"
)

// plainCurve has a bucket for each value, as the server gives for few points.
func plainCurve(values ...float64) *curve {
	c := &curve{}
	for i, v := range values {
		finite := !math.IsNaN(v)
		c.lo, c.hi = append(c.lo, int64(i)), append(c.hi, int64(i))
		c.min, c.max, c.mean = append(c.min, v), append(c.max, v), append(c.mean, v)
		c.count, c.nans = append(c.count, map[bool]uint64{true: 1}[finite]), append(c.nans, map[bool]uint64{false: 1}[finite])
	}
	return c
}

func TestSparkShowsWhatIsThere(t *testing.T) {
	nan := math.NaN()
	for want, values := range map[string][]float64{
		"▁▂▃▄▅▆▇█":   {0, 1, 2, 3, 4, 5, 6, 7},
		"▄▄▄▄":       {3, 3, 3, 3},
		"▁█×":        {1, 2, nan},
		"▁█▁█▁▲▁█▁█": {0, 1, 0, 1, 0, 99, 0, 1, 0, 1},
		"▄▄▄▄▼▄▄▄▄▄": {5, 5, 5, 5, 1, 5, 5, 5, 5, 5},
		"▁█":         {-math.MaxFloat64, math.MaxFloat64},
	} {
		if got := spark(plainCurve(values...), len(values)); got != want {
			t.Errorf("%v is drawn as %s, want %s", values, got, want)
		}
	}
	wide := plainCurve(make([]float64, 1_000)...) // 999 zeros and one value of a bucket's mean
	wide.max[617], wide.mean[617] = 1_000, 0.001
	if got := spark(wide, 40); strings.Count(got, "▲") != 1 {
		t.Errorf("the spike is lost: %s", got)
	}
}

// Whatever a name is, it takes the width that it is given, and nothing but letters of it
// reach the terminal.
func TestNamesFit(t *testing.T) {
	pieces := []string{"\x1b[2J", "é", "日", "👩\u200d👩", "🇩🇪", "\u0301", "a", "\r", "\u202e", "\xff"}
	rapid.Check(t, func(t *rapid.T) {
		name := clean(rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.SampledFrom(pieces)), func(p []string) string { return strings.Join(p, "") })).Draw(t, "name"))
		width := rapid.IntRange(1, 30).Draw(t, "width")
		got := fit(name, width)
		if w := uniseg.StringWidth(got); w != width {
			t.Errorf("%q takes %d of %d", got, w, width)
		}
		for _, r := range got {
			if !unicode.IsPrint(r) {
				t.Errorf("%q is in %q", r, got)
			}
		}
	})
}

func TestKeys(t *testing.T) {
	got := decode([]byte("q\x1b[A\x1b[6~\x1bOB\x1b[<0;1;1M/é\x7f\r\x1b"))
	if diff := cmp.Diff(got, []press{"q", keyUp, keyPageDn, keyDown, "/", "é", keyErase, keyEnter, keyEscape}); diff != "" {
		t.Error(diff)
	}
}

// Every row is selected by one of the patterns, and none is longer than the server takes.
func TestPatterns(t *testing.T) {
	var rows []*read.Series
	for i := range 60 {
		rows = append(rows, &read.Series{Metric: strings.Repeat("a.b[", 20) + strings.Repeat("x", i)})
	}
	total := 0
	for _, p := range patterns(rows) {
		if len(p) > 2*mostPattern {
			t.Errorf("a pattern of %d characters", len(p))
		}
		total += strings.Count(p, "|") + 1
	}
	if total != len(rows) {
		t.Errorf("%d names in patterns, want %d", total, len(rows))
	}
}
