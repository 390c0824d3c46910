package top

import (
	"math"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

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
		"▁▁▁▁▁█":     {1, 2},
		"▁▁▁▅▅█":     {1, 2, 3},
	} {
		if got := spark(plainCurve(values...), utf8.RuneCountInString(want)); got != want {
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
	pieces := []string{"\x1b[2J", "\u3164", "\u115f", "\uffa0", "\u2800", "\u034f", "é", "日", "👩\u200d👩", "🇩🇪", "\u0301", "a", "\r", "\u202e", "\xff"}
	rapid.Check(t, func(t *rapid.T) {
		name := clean(rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.SampledFrom(pieces)), func(p []string) string { return strings.Join(p, "") })).Draw(t, "name"))
		width := rapid.IntRange(1, 30).Draw(t, "width")
		got := fit(name, width)
		if w := uniseg.StringWidth(got); w != width {
			t.Errorf("%q takes %d of %d", got, w, width)
		}
		for _, r := range got {
			if !unicode.IsPrint(r) || strings.ContainsRune("\u3164\u115f\uffa0\u2800\u034f", r) {
				t.Errorf("%q is in %q", r, got)
			}
		}
	})
}

// A line takes the width of its terminal, also of a tiny one, and no number in it loses digits
// at its end.
func TestRowsFit(t *testing.T) {
	row := &read.Series{Metric: "train/loss", Kind: "float64", Last: &read.Last{}}
	for width := 1; width <= 150; width++ {
		for _, v := range []float64{0.00217, -1.2345e-300, 123456, math.Inf(-1)} {
			row.Last.Float = v
			c := plainCurve(v, math.NaN())
			c.nans[1], c.infinite = 1e9, 1e9
			s := state{curves: map[string]*curve{key(row): c}, all: []*read.Series{row}}
			for _, line := range s.frame([]*read.Series{row}, width, 12, time.Time{}, false) {
				if w := uniseg.StringWidth(line); w > width {
					t.Fatalf("a line of %d in %d: %q", w, width, line)
				}
			}
			fields := strings.Fields(s.frame([]*read.Series{row}, width, 3, time.Time{}, false)[1])
			if width < 12 {
				continue
			}
			if got, err := strconv.ParseFloat(fields[1], 64); err != nil || (got != v && math.Abs(got-v) > 0.5*math.Abs(v)) {
				t.Errorf("%v is shown as %q in %d columns", v, fields[1], width)
			}
		}
	}
}

func TestMarksAreWhole(t *testing.T) {
	c := plainCurve(math.NaN(), 1)
	for want, counts := range map[string][2]uint64{
		"50 NaN": {50, 0}, "20 Inf": {0, 20}, "1 NaN 2 Inf": {1, 2}, "30 ×": {10, 20}, "3,000,000 ×": {3_000_000, 0}, "3e9 ×": {1e9, 2e9}, "": {},
	} {
		c.nans[0], c.infinite = counts[0], counts[1]
		if got := marks(c); got != want {
			t.Errorf("%v are written %q, want %q", counts, got, want)
		}
	}
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
