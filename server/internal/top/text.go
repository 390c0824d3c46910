package top

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/rivo/uniseg"

	"github.com/kymogram/kymogram/read"
	"github.com/kymogram/kymogram/server/internal/table"
)

// mostMarks is how many marks one letter of a name may carry: no script needs more.
const mostMarks = 4

// clean makes a text that others chose fit for a line of a terminal. Nothing in it moves the
// cursor, turns the direction of writing, is invisible, or piles up over other lines.
func clean(s string) string {
	const blank = '\u2800' // braille without a dot
	marks := 0
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r) || r == blank {
			return unicode.ReplacementChar
		}
		if marks++; !unicode.Is(unicode.M, r) {
			marks = 0
		} else if marks > mostMarks {
			return -1
		}
		return r
	}, s)
}

// fit cuts a text in its middle, where names differ least, or fills it up to width.
func fit(s string, width int) string {
	if width <= 0 {
		return ""
	}
	size := uniseg.StringWidth(s)
	if size <= width {
		return s + strings.Repeat(" ", width-size)
	}
	if width == 1 {
		return "…"
	}
	tail := (width - 1) / 2
	head, used := front(s, width-1-tail)
	end, more := back(s, width-1-used)
	return head + "…" + end + strings.Repeat(" ", width-1-used-more)
}

// right fills a text up at its left.
func right(s string, width int) string {
	if size := uniseg.StringWidth(s); size < width {
		return strings.Repeat(" ", width-size) + s
	}
	return fit(s, width)
}

func front(s string, width int) (part string, used int) {
	state, rest := -1, s
	for rest != "" {
		var size int
		var next string
		_, next, size, state = uniseg.FirstGraphemeClusterInString(rest, state)
		if used+size > width {
			break
		}
		used, rest = used+size, next
	}
	return s[:len(s)-len(rest)], used
}

func back(s string, width int) (part string, used int) {
	var clusters []string
	var sizes []int
	for state := -1; s != ""; {
		var cluster string
		var size int
		cluster, s, size, state = uniseg.FirstGraphemeClusterInString(s, state)
		clusters, sizes = append(clusters, cluster), append(sizes, size)
	}
	at := len(clusters)
	for at > 0 && used+sizes[at-1] <= width {
		at--
		used += sizes[at]
	}
	return strings.Join(clusters[at:], ""), used
}

// number writes a value with four significant digits; whole numbers keep theirs up to a million.
func number(v float64) string {
	size := math.Abs(v)
	switch {
	case math.IsNaN(v):
		return "NaN"
	case math.IsInf(v, 0):
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v == math.Trunc(v) && size < 1e6:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case size >= 1e6 || size < 1e-4:
		return power(strconv.FormatFloat(v, 'e', 3, 64))
	}
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 4, 64), 64)
	return strconv.FormatFloat(rounded, 'f', -1, 64)
}

// power writes an exponent as short as it goes: 1.500e+06 is 1.5e6.
func power(text string) string {
	digits, exponent, found := strings.Cut(text, "e")
	if !found {
		return text
	}
	if strings.Contains(digits, ".") {
		digits = strings.TrimRight(strings.TrimRight(digits, "0"), ".")
	}
	n, _ := strconv.Atoi(exponent)
	return digits + "e" + strconv.Itoa(n)
}

// short writes a value in width columns: with less digits rather than without its end.
func short(v float64, width int) string {
	text := number(v)
	for digits := 3; len(text) > width && digits > 0; digits-- {
		text = power(strconv.FormatFloat(v, 'g', digits, 64))
	}
	if len(text) > width {
		return "…"
	}
	return text
}

// value is a number of a table, a dash where there is none.
func value(v float64) string {
	if math.IsNaN(v) {
		return "–"
	}
	return short(v, numberWidth)
}

// last is the last value of a series.
func last(s *read.Series, width int) string {
	if s.Last == nil {
		if !numeric(s) {
			return s.Kind
		}
		return "–"
	}
	return short(s.Last.Float, width)
}

// speed is a rate for a table.
func speed(perSecond float64) string {
	switch {
	case perSecond == 0:
		return "0/s"
	case perSecond < 0.1:
		return number(round(perSecond*60, 2)) + "/min"
	case perSecond < 10:
		return number(round(perSecond, 1)) + "/s"
	case perSecond < 1e6:
		return table.Count(uint64(perSecond+0.5)) + "/s"
	}
	return number(perSecond) + "/s"
}

func round(v float64, digits int) float64 {
	p := math.Pow10(digits)
	return math.Round(v*p) / p
}

// marksWidth is what the longest count of [marks] takes.
const marksWidth = 12

// marks count the points of a curve that have no finite value, by kind where there is room.
func marks(c *curve) string {
	if c == nil {
		return ""
	}
	var out []string
	if _, _, nans := c.limits(); nans > 0 {
		out = append(out, table.Count(nans)+" NaN")
	}
	if c.infinite > 0 {
		out = append(out, table.Count(c.infinite)+" Inf")
	}
	if text := strings.Join(out, " "); len(text) <= marksWidth {
		return text
	}
	_, _, nans := c.limits()
	text := table.Count(nans + c.infinite)
	if len(text) > marksWidth-2 {
		text = number(float64(nans + c.infinite))
	}
	return text + " " + string(noValue)
}

// key tells series apart.
func key(s *read.Series) string {
	var b strings.Builder
	b.WriteString(strconv.Quote(s.Metric) + strconv.Quote(s.Scale))
	for _, name := range slices.Sorted(maps.Keys(s.Labels)) {
		b.WriteString(strconv.Quote(name) + strconv.Quote(s.Labels[name]))
	}
	return b.String()
}

// title names a series in a line: its metric and what tells it from others of the metric.
func title(s *read.Series) string {
	parts := make([]string, 0, len(s.Labels)+1)
	for _, name := range slices.Sorted(maps.Keys(s.Labels)) {
		parts = append(parts, name+"="+s.Labels[name])
	}
	if len(parts) == 0 {
		return clean(s.Metric)
	}
	return clean(s.Metric + "{" + strings.Join(parts, ",") + "}")
}
