package importer

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/kymogram/kymogram/internal/model"
)

// What a server takes; longer names are cut, longer texts skipped and counted.
const (
	maxMetric   = 1 << 10
	maxPath     = 512
	maxText     = 64 << 10
	maxTag      = 256
	maxDocument = 1<<20 - 64 // a record of the spool holds it
	maxDepth    = 32
	maxNesting  = 10_000 // of a JSON text that is read at all
	// maxNamed bounds the names in the counts of what is left out, maxShown each.
	maxNamed = 20
	maxShown = 100
	// maxDamage bounds the list of a run; the rest is counted.
	maxDamage = 100
)

// builder gathers a run.
type builder struct {
	run    *Run
	series map[string]*Series
	named  map[string]int // how many names a reason has in Skipped
	texts  *allowance     // bytes of them; nil: as many as the files hold
	points *allowance     // nil: as many as the files hold
}

// allowance is how many points, or bytes of texts, a file may give that writes equal ones once.
type allowance struct{ left int64 }

func newAllowance(file int64) *allowance { return &allowance{freeBytes + freeRatio*file} }

// freePoints and pointRatio bound the points of a file by its bytes. A point takes at least 24
// bytes of memory.
const (
	freePoints = 1 << 20
	pointRatio = 16
)

func newPoints(file int64) *allowance { return &allowance{freePoints + pointRatio*file} }

// check is an error once more points were asked for than are allowed.
func (a *allowance) check() error {
	if a == nil || a.left >= 0 {
		return nil
	}
	return model.Errorf(model.CodeInvalid, "it has more points than %d and %d for each of its bytes: columns of equal values take nearly none", freePoints, pointRatio).
		WithHint("leave such columns out, or write the rows into several files")
}

// take reports whether n bytes more are allowed.
func (a *allowance) take(n int) bool {
	if a == nil {
		return true
	}
	a.left -= int64(n)
	return a.left >= 0
}

func newBuilder() *builder {
	return &builder{
		run:    &Run{Attributes: map[string]*model.Value{}, Skipped: map[string]uint64{}},
		series: map[string]*Series{}, named: map[string]int{},
	}
}

// done orders the series and gives the run.
func (b *builder) done() *Run {
	for _, s := range b.series {
		if len(s.Steps) > 0 {
			b.run.Series = append(b.run.Series, s)
		}
	}
	slices.SortFunc(b.run.Series, func(a, c *Series) int { return strings.Compare(a.Key.String(), c.Key.String()) })
	slices.Sort(b.run.Tags)
	b.run.Tags = slices.Compact(b.run.Tags)
	return b.run
}

// skip counts what is left out.
func (b *builder) skip(why string) { b.run.Skipped[why]++ }

// skipOf counts what is left out by name; the names beyond the first few together.
func (b *builder) skipOf(why, name string) {
	one := why + " of " + clean(name, maxShown)
	if b.run.Skipped[one] == 0 {
		if b.named[why] == maxNamed {
			one = why + " of other names"
		} else {
			b.named[why]++
		}
	}
	b.skip(one)
}

func (b *builder) damage(file string, offset int64, format string, args ...any) {
	if len(b.run.Damage) == maxDamage {
		b.skip("damaged parts beyond the first " + strconv.Itoa(maxDamage))
		return
	}
	b.run.Damage = append(b.run.Damage, Damage{file, offset, fmt.Sprintf(format, args...)})
}

// at finds the series that takes a point, nil when none can.
func (b *builder) at(key model.SeriesKey, kind model.Kind, step, timeNs int64) *Series {
	if step < 0 || step > maxStep {
		b.skipOf("points with a step that is negative or above 2^62", key.Metric)
		return nil
	}
	if timeNs > maxStep || timeNs < -maxStep {
		b.skipOf("points with a time out of range", key.Metric)
		return nil
	}
	text := key.String()
	s := b.series[text]
	if s == nil {
		s = &Series{Key: key, Kind: kind}
		b.series[text] = s
	}
	if s.Kind != kind {
		b.skipOf("values of another kind than the first ("+s.Kind.String()+")", key.Metric)
		return nil
	}
	if !b.points.take(1) {
		return nil
	}
	s.Steps, s.TimeNs = append(s.Steps, step), append(s.TimeNs, timeNs)
	return s
}

// plain is the key of a metric without labels.
func plain(metric string) model.SeriesKey {
	return model.NewSeriesKey(clean(metric, maxMetric), "", nil)
}

func (b *builder) float(metric string, step, timeNs int64, value float64) {
	if s := b.at(plain(metric), model.KindFloat, step, timeNs); s != nil {
		s.Floats = append(s.Floats, value)
	}
}

// number logs a number that a text writes; what float64 does not hold of a long
// integer is counted.
func (b *builder) number(metric string, step, timeNs int64, text string, value float64) {
	b.float(metric, step, timeNs, value)
	if isRounded(text, value) {
		b.skipOf("last digits of integers beyond 2^53", metric)
	}
}

// isRounded reports whether a text writes another integer than value.
func isRounded(text string, value float64) bool {
	digits := strings.TrimLeft(text, "+-0")
	return len(digits) > 15 && strings.Trim(digits, "0123456789") == "" && digits != strconv.FormatFloat(math.Abs(value), 'f', 0, 64)
}

func (b *builder) text(metric string, step, timeNs int64, value string) {
	if len(value) > maxDocument {
		b.skipOf("texts above 1 MiB", metric)
		return
	}
	if !b.texts.take(len(value)) {
		b.skipOf("texts after "+strconv.Itoa(freeRatio)+" times the size of the file", metric)
		return
	}
	if s := b.at(plain(metric), model.KindText, step, timeNs); s != nil {
		s.Docs = append(s.Docs, []byte(strings.ToValidUTF8(value, "\ufffd")))
	}
}

func (b *builder) histogram(metric string, step, timeNs int64, h *model.Histogram) {
	if h == nil || h.Check() != nil {
		b.skipOf("histograms without bins", metric)
		return
	}
	doc, err := json.Marshal(h)
	if err != nil || len(doc) > maxDocument {
		b.skipOf("histograms that cannot be written", metric)
		return
	}
	if s := b.at(plain(metric), model.KindHistogram, step, timeNs); s != nil {
		s.Docs = append(s.Docs, doc)
	}
}

// attribute sets one attribute; nil and what is too large are left out.
func (b *builder) attribute(path string, value *model.Value) {
	switch {
	case value == nil:
	case len(value.Str) > maxText:
		b.skipOf("values above 64 KiB", path)
	default:
		value.Str = strings.ToValidUTF8(value.Str, "\ufffd")
		b.run.Attributes[clean(path, maxPath)] = value
	}
}

// tree sets the leaves of a decoded JSON value below a path.
func (b *builder) tree(path string, value any, depth int) {
	switch v := value.(type) {
	case map[string]any:
		for name, one := range v {
			b.branch(path, name, one, depth)
		}
	case []any:
		for i, one := range v {
			b.branch(path, strconv.Itoa(i), one, depth)
		}
	default:
		b.attribute(path, leaf(v))
	}
}

func (b *builder) branch(path, name string, value any, depth int) {
	if depth >= maxDepth {
		b.skipOf("values nested deeper than "+strconv.Itoa(maxDepth), path)
		return
	}
	b.tree(path+"/"+strings.Trim(name, "/"), value, depth+1)
}

// leaf is a JSON scalar as an attribute; an integer stays one.
func leaf(value any) *model.Value {
	switch v := value.(type) {
	case bool:
		return model.BoolValue(v)
	case string:
		return model.StringValue(v)
	case float64:
		return model.FloatValue(v)
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return model.IntValue(n)
		}
		f, _ := v.Float64() // ±Inf when it is out of range
		return model.FloatValue(f)
	}
	return nil
}

func (b *builder) tag(tag string) {
	if tag = clean(tag, maxTag); tag != "_" {
		b.run.Tags = append(b.run.Tags, tag)
	}
}

// span widens the run's time by a point's.
func (r *Run) span(timeNs int64) {
	if timeNs <= 0 {
		return
	}
	if r.StartedNs == 0 || timeNs < r.StartedNs {
		r.StartedNs = timeNs
	}
	r.EndedNs = max(r.EndedNs, timeNs)
}

// spanPoints takes the start and the end from the run's points where the source
// gives none.
func (r *Run) spanPoints() {
	var points Run
	for _, s := range r.Series {
		for _, t := range s.TimeNs {
			points.span(t)
		}
	}
	if r.StartedNs == 0 {
		r.StartedNs = points.StartedNs
	}
	if r.EndedNs == 0 {
		r.EndedNs = max(points.EndedNs, r.StartedNs)
	}
}

// clean makes a name that a server takes: UTF-8 without control characters, at
// most n bytes, not empty.
func clean(name string, n int) string {
	name = strings.ToValidUTF8(name, "_")
	if !model.IsClean(name) {
		name = strings.Map(func(r rune) rune {
			if r < ' ' || r >= 0x7f && r < 0xa0 {
				return '_'
			}
			return r
		}, name)
	}
	if name = model.CutBytes(name, n); name == "" || !utf8.ValidString(name) {
		return "_"
	}
	return name
}

// CleanRunName makes a run's name of any text.
func CleanRunName(name string) string { return clean(name, model.MaxNameBytes) }

// seconds is Unix seconds in nanoseconds; what is out of range is 0.
func seconds(s float64) int64 {
	if ns := math.Round(s * 1e9); math.Abs(ns) < maxStep {
		return int64(ns)
	}
	return 0
}
