package top

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/kymogram/kymogram/internal/duration"
	"github.com/kymogram/kymogram/read"
)

// Sorts are the orders of rows that s steps through.
var Sorts = []string{"name", "newest", "value", "points"}

// parts are the stretches of the axis that w steps through: the whole, and its ends.
var parts = []struct {
	name  string
	share int64
}{{"whole run", 1}, {"last 10 %", 10}, {"last 1 %", 100}}

// view is what the person chose to see.
type view struct {
	filter  string
	typing  bool   // of the filter
	old     string // the filter before it was typed
	sort    int
	reverse bool
	axis    string // "" for the usual one of each series
	part    int
	first   int // row at the top
	help    bool
}

// axisName is what the foot calls the axis.
func (v *view) axisName() string { return cmp.Or(v.axis, "step") }

// pattern reads the filter: a regular expression, or what it would be without its signs.
func (v *view) pattern() *regexp.Regexp {
	re, err := regexp.Compile(v.filter)
	if err != nil {
		re = regexp.MustCompile(regexp.QuoteMeta(v.filter))
	}
	return re
}

// rows are the series that the filter selects, in order.
func (v *view) rows(all []*read.Series) []*read.Series {
	out := all
	if v.filter != "" {
		re := v.pattern()
		out = slices.DeleteFunc(slices.Clone(all), func(s *read.Series) bool { return !re.MatchString(s.Metric) })
	}
	return order(out, Sorts[v.sort], v.reverse)
}

// order sorts a copy; what is equal stays in the order of names.
func order(rows []*read.Series, by string, reverse bool) []*read.Series {
	out := slices.Clone(rows)
	compare := map[string]func(a, b *read.Series) int{
		"newest": func(a, b *read.Series) int { return cmp.Compare(newest(b), newest(a)) },
		"points": func(a, b *read.Series) int { return cmp.Compare(b.Count, a.Count) },
		"value": func(a, b *read.Series) int {
			switch {
			case a.Last == nil && b.Last == nil:
				return 0
			case a.Last == nil:
				return 1
			case b.Last == nil:
				return -1
			}
			return cmp.Compare(b.Last.Float, a.Last.Float)
		},
	}[by]
	if compare != nil {
		slices.SortStableFunc(out, compare)
	}
	if reverse {
		slices.Reverse(out)
	}
	return out
}

func newest(s *read.Series) int64 {
	if s.Last == nil {
		return 0
	}
	return s.Last.TimeNs
}

// axes are those of any series; the usual one, first, is step where there is one.
func axes(all []*read.Series) []string {
	seen := map[string]bool{"time_ns": true}
	for _, s := range all {
		for _, a := range s.Axes {
			seen[string(a)] = true
		}
	}
	delete(seen, "step")
	return append([]string{""}, slices.Sorted(maps.Keys(seen))...)
}

// does changes the view by a key; false ends the program.
func (v *view) does(k press, all []*read.Series, rows, screen int) bool {
	if v.typing {
		return v.types(k)
	}
	v.help = k == "?" && !v.help
	switch k {
	case "q", keyStop:
		return false
	case keyEscape:
		v.filter, v.first = "", 0
	case "/":
		v.typing, v.old = true, v.filter
	case "s":
		v.sort, v.first = (v.sort+1)%len(Sorts), 0
	case "r":
		v.reverse, v.first = !v.reverse, 0
	case "x":
		list := axes(all)
		v.axis = list[(slices.Index(list, v.axis)+1)%len(list)]
	case "w":
		v.part = (v.part + 1) % len(parts)
	default:
		v.moves(k, screen)
	}
	v.bound(rows, screen)
	return true
}

func (v *view) moves(k press, screen int) {
	const far = 1 << 30
	v.first += map[press]int{
		keyUp: -1, "k": -1, keyDown: 1, "j": 1, keyPageUp: -screen, keyPageDn: screen, " ": screen,
		keyHome: -far, "g": -far, keyEnd: far, "G": far,
	}[k]
}

// types edits the filter.
func (v *view) types(k press) bool {
	v.first = 0
	switch k {
	case keyStop:
		return false
	case keyEnter:
		v.typing = false
	case keyEscape:
		v.typing, v.filter = false, v.old
	case keyErase:
		if _, size := utf8.DecodeLastRuneInString(v.filter); size > 0 {
			v.filter = v.filter[:len(v.filter)-size]
		}
	case keyHome:
		v.filter = ""
	default:
		if utf8.RuneCountInString(string(k)) == 1 {
			v.filter += string(k)
		}
	}
	return true
}

func (v *view) bound(rows, screen int) { v.first = max(0, min(v.first, rows-screen)) }

// endOf is the last of some equal shares of an axis; whole is the curve over all of it.
func endOf(whole *curve, shares int64) span {
	if shares == 1 || whole == nil {
		return span{}
	}
	first, last := whole.lo[0], whole.hi[len(whole.hi)-1]
	from := last - (last/shares - first/shares)
	return span{from: &from}
}

// elapsed writes how long a run has been going, from a day on without seconds.
func elapsed(d time.Duration) string {
	d = d.Round(time.Second)
	if d < duration.Day {
		return duration.Text(d)
	}
	return duration.Text(d.Truncate(time.Minute))
}
