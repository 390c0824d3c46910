package top

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/rivo/uniseg"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/read"
	"github.com/kymogram/kymogram/server/internal/table"
)

// style is the SGR code of a text, "" for none.
type style string

const (
	plain  style = ""
	bold   style = "1"
	dim    style = "2"
	warn   style = "33"
	line   style = "36"
	strong style = "7"
)

// segment is a piece of a line in one style.
type segment struct {
	style style
	text  string
}

// render writes a line, with colours on a terminal that wants them.
func render(segments []segment, colour bool) string {
	var b strings.Builder
	for _, s := range segments {
		if colour && s.style != plain && s.text != "" {
			b.WriteString("\x1b[" + string(s.style) + "m" + s.text + "\x1b[0m")
		} else {
			b.WriteString(s.text)
		}
	}
	return b.String()
}

// state is what a frame shows.
type state struct {
	about   about
	readAt  time.Time
	all     []*read.Series
	curves  map[string]*curve
	meters  map[string]*meter
	total   meter
	view    view
	trouble string // why what is shown may be old
	since   time.Time
}

// columns are the widths of a table; 0 leaves one out.
type columns struct{ name, last, marks, spark, min, max, rate int }

// The widths of a terminal from which on a column is there.
const (
	lastFrom, sparkFrom, limitsFrom, rateFrom = 6, 36, 76, 96
	numberWidth                               = 10
)

// layout divides a width: numbers first, then the names, the curves get the rest.
func layout(width int, names, marks int) columns {
	if width < lastFrom {
		return columns{name: width}
	}
	c := columns{last: min(numberWidth, width*3/5)}
	rest := width - c.last - 1
	if width >= sparkFrom {
		c.marks = min(marks, marksWidth)
		rest -= gap(c.marks)
	}
	if width >= limitsFrom {
		c.min, c.max = numberWidth, numberWidth
		rest -= 2 * gap(numberWidth)
	}
	if width >= rateFrom {
		c.rate = numberWidth
		rest -= gap(numberWidth)
	}
	if width >= sparkFrom {
		c.name = min(max(names, 6), rest*45/100)
		c.spark = rest - c.name - 2
		return c
	}
	c.name = rest
	return c
}

func gap(width int) int {
	if width == 0 {
		return 0
	}
	return width + 1
}

// body is how many rows of metrics a screen has.
func body(height int) int { return max(height-2-heads(height), 1) }

// heads is 1 where there is room for the names of columns.
func heads(height int) int {
	if height < 8 {
		return 0
	}
	return 1
}

// visible are the rows on the screen.
func (s *state) visible(rows []*read.Series, height int) []*read.Series {
	first := min(s.view.first, len(rows))
	return rows[first:min(first+body(height), len(rows))]
}

// measure divides the width for the rows that are seen.
func (s *state) measure(shown []*read.Series, width int) columns {
	names, noted := 0, 0
	for _, row := range shown {
		names = max(names, uniseg.StringWidth(title(row)))
		noted = max(noted, uniseg.StringWidth(marks(s.curves[key(row)])))
	}
	return layout(width, names, noted)
}

// frame draws height lines, none wider than width.
func (s *state) frame(rows []*read.Series, width, height int, now time.Time, colour bool) []string {
	shown := s.visible(rows, height)
	c := s.measure(shown, width)
	var lines [][]segment
	lines = append(lines, s.head(width, now))
	if heads(height) > 0 {
		lines = append(lines, titles(c))
	}
	if s.view.help {
		shown = nil
		for _, text := range help[:min(len(help), body(height))] {
			lines = append(lines, []segment{{plain, fit(text, width)}})
		}
	} else if len(rows) == 0 {
		lines = append(lines, []segment{{dim, fit(s.empty(), width)}})
	}
	for _, row := range shown {
		lines = append(lines, s.row(row, c, now))
	}
	for len(lines) < height-1 {
		lines = append(lines, nil)
	}
	lines = append(lines[:height-1], s.foot(len(rows), len(shown), width))
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = render(l, colour)
	}
	return out
}

var help = []string{
	"/        show metrics that match a regular expression; Esc shows all again",
	"↑ ↓ j k  scroll by a line; PgUp PgDn Space by a screen; Home End to the ends",
	"s r      sort by the next column; reverse",
	"x        the next axis of the curves: step, time, …",
	"w        the whole run, its last 10 %, its last 1 %",
	"q        quit",
	"▲ ▼      a value far above or below the others; × no finite value",
}

func (s *state) empty() string {
	if s.view.filter != "" {
		return "No metric matches " + clean(s.view.filter) + ". Esc shows all."
	}
	return "No metrics yet. They appear when the run logs some."
}

var symbols = map[model.RunStatus]string{
	model.StatusRunning: "●", model.StatusFinished: "✓", model.StatusFailed: "✕",
	model.StatusInterrupted: "■", model.StatusLost: "◌", model.StatusSilent: "○",
}

func (s *state) head(width int, now time.Time) []segment {
	word := string(s.about.Status)
	status := segment{style(table.StatusColour(word)), cmp.Or(symbols[s.about.Status], "?") + " " + clean(word)}
	name := clean(cmp.Or(s.about.DisplayName, s.about.Name))
	path := clean(s.about.Workspace + "/" + s.about.Project + "/")
	list, in := s.facts(now), plain
	if s.trouble != "" {
		list, in = []string{fmt.Sprintf("%s for %s", s.trouble, elapsed(now.Sub(s.since)))}, warn
	}
	left := width - uniseg.StringWidth(status.text) - 2
	least := min(uniseg.StringWidth(name), 12)
	for s.trouble == "" && len(list) > 0 && uniseg.StringWidth(strings.Join(list, " · ")) > left-least-1 {
		list = list[:len(list)-1]
	}
	facts := segment{in, strings.Join(list, " · ")}
	if room := max(left-least-1, 0); uniseg.StringWidth(facts.text) > room {
		facts.text = strings.TrimRight(fit(facts.text, room), " ")
	}
	left -= uniseg.StringWidth(facts.text) + 1
	if uniseg.StringWidth(path+name) > left {
		path = ""
	}
	if left < 1 { // a few columns: what counts is the status
		return []segment{{status.style, fit(status.text, width)}}
	}
	return []segment{status, {plain, "  "}, {dim, path}, {bold, fit(name, left-uniseg.StringWidth(path))}, {plain, " "}, facts}
}

// facts are the numbers of the head.
func (s *state) facts(now time.Time) (out []string) {
	step := int64(-1)
	for _, row := range s.all {
		if row.Last != nil && row.Last.Step != nil {
			step = max(step, *row.Last.Step)
		}
	}
	if step >= 0 {
		out = append(out, "step "+table.Count(uint64(step)))
	}
	if rate, ok := s.total.rate(); ok && s.about.Status == model.StatusRunning {
		out = append(out, strings.TrimSuffix(speed(rate), "/s")+" points/s")
	} else {
		out = append(out, table.Count(s.about.Points)+" points")
	}
	return append(out, elapsed(s.duration(now)))
}

// duration is how long the run has been going.
func (s *state) duration(now time.Time) time.Duration {
	d := time.Duration(s.about.DurationMs) * time.Millisecond
	if s.about.Status == model.StatusRunning {
		d += now.Sub(s.readAt)
	}
	return d
}

func titles(c columns) []segment {
	text := fit("METRIC", c.name)
	for _, column := range []struct {
		width int
		text  string
	}{{c.last, "LAST"}, {c.spark, " CURVE"}, {c.marks, ""}, {c.min, "MIN"}, {c.max, "MAX"}, {c.rate, "RATE"}} {
		if column.width > 0 && column.text == " CURVE" {
			text += " " + fit(column.text, column.width+1)
		} else if column.width > 0 {
			text += " " + right(column.text, column.width)
		}
	}
	return []segment{{dim, text}}
}

func (s *state) row(row *read.Series, c columns, now time.Time) []segment {
	curve := s.curves[key(row)]
	low, high, _ := curve.limits()
	out := []segment{{plain, fit(title(row), c.name)}}
	if c.last > 0 {
		out = append(out, segment{plain, " "}, segment{bold, right(last(row, c.last), c.last)})
	}
	if c.spark > 0 {
		out = append(out, segment{plain, "  "})
		out = append(out, tinted(fit(spark(curve, c.spark), c.spark))...)
	}
	if c.marks > 0 {
		out = append(out, segment{plain, " "}, segment{warn, right(marks(curve), c.marks)})
	}
	for _, column := range []struct {
		width int
		text  string
	}{{c.min, value(low)}, {c.max, value(high)}, {c.rate, speed(s.rate(row, now))}} {
		if column.width > 0 {
			out = append(out, segment{dim, " " + right(column.text, column.width)})
		}
	}
	return out
}

// tinted colours the marks of a curve apart from its heights.
func tinted(text string) (out []segment) {
	for _, r := range text {
		in := line
		if r == above || r == below || r == noValue {
			in = warn
		}
		if n := len(out); n > 0 && out[n-1].style == in {
			out[n-1].text += string(r)
		} else {
			out = append(out, segment{in, string(r)})
		}
	}
	return out
}

// rate is a series' points a second, now for a run that goes on, else over all of it.
func (s *state) rate(row *read.Series, now time.Time) float64 {
	if m := s.meters[key(row)]; m != nil && s.about.Status == model.StatusRunning {
		if rate, ok := m.rate(); ok {
			return rate
		}
	}
	if d := s.duration(now).Seconds(); d > 0 {
		return float64(row.Count) / d
	}
	return 0
}

func (s *state) foot(rows, shown, width int) []segment {
	v := &s.view
	if v.typing {
		return []segment{{strong, fit("/"+clean(v.filter)+"▏", width)}}
	}
	place := "0 metrics"
	if shown > 0 {
		place = fmt.Sprintf("%s–%s of %s", table.Count(uint64(v.first+1)), table.Count(uint64(v.first+shown)), table.Count(uint64(rows)))
	}
	if v.filter != "" {
		place += " /" + clean(v.filter)
	}
	sorted := Sorts[v.sort]
	if v.reverse {
		sorted += " reversed"
	}
	axis := clean(v.axisName())
	for _, keys := range []string{
		fmt.Sprintf("  ·  s sort: %s  ·  x axis: %s  ·  w %s  ·  / filter  ·  ? help  ·  q quit", sorted, axis, parts[v.part].name),
		fmt.Sprintf("  s %s  x %s  w %s  / filter  ? help  q quit", sorted, axis, parts[v.part].name),
		"  / filter  ? help  q quit",
	} {
		if uniseg.StringWidth(place+keys) <= width {
			return []segment{{dim, fit(place+keys, width)}}
		}
	}
	return []segment{{dim, fit(place, width)}}
}
