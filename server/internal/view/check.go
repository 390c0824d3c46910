package view

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/kymogram/kymogram/internal/model"
)

// maxDepth is one more than a document needs.
const maxDepth = 6

// checkShape refuses what Go's decoder would take in silence: null, a name that is there
// twice or in other letters, and text after the document. It also bounds what decoding
// the document takes: its depth and its lists.
func checkShape(text []byte) error {
	if !utf8.Valid(text) {
		return errors.New("the view is not UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if err := walk(dec, "", 0, MaxPanels); err != nil {
		return inLine(err, text, dec.InputOffset())
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more follows after the view")
	}
	return nil
}

// inLine names the line where a text ends to be JSON.
func inLine(err error, text []byte, at int64) error {
	var syntax *json.SyntaxError
	if !errors.As(err, &syntax) && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	if syntax != nil {
		at = max(at, syntax.Offset)
	}
	line := 1 + bytes.Count(text[:min(at, int64(len(text)))], []byte{'\n'})
	return fmt.Errorf("line %d: %w", line, err)
}

// wrongKind says in the words of JSON which field has a value of the wrong kind.
func wrongKind(err error) string {
	var e *json.UnmarshalTypeError
	if !errors.As(err, &e) {
		return strings.TrimPrefix(err.Error(), "json: ")
	}
	return fmt.Sprintf("%s has a %s where %s is expected", cmp.Or(e.Field, "the view"), e.Value, kindWord(e.Type))
}

func kindWord(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Map, reflect.Struct:
		return "an object"
	case reflect.String:
		return "a text"
	case reflect.Bool:
		return "true or false"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Pointer:
		return kindWord(t.Elem())
	default:
		return "a whole number"
	}
}

// walk reads one value, that of the field of a name. Lists in it have at most some entries.
func walk(dec *json.Decoder, field string, depth, most int) error {
	token, err := dec.Token()
	if err != nil {
		return fmt.Errorf("the view is not JSON: %w", err)
	}
	if token == nil {
		return fmt.Errorf("%s is null: leave it out", cmp.Or(model.Clip(field), "the view"))
	}
	open, nests := token.(json.Delim)
	if !nests {
		return nil
	}
	if depth == maxDepth {
		return fmt.Errorf("the view is nested more than %d deep", maxDepth)
	}
	names := map[string]bool{}
	for n := 1; dec.More(); n++ {
		if n > most {
			return fmt.Errorf("%s has more than %d entries", cmp.Or(model.Clip(field), "the view"), most)
		}
		name := field
		if open == '{' {
			if name, err = walkName(dec, names, field == "labels"); err != nil {
				return err
			}
		}
		within := most
		if depth == 0 && name == "page" {
			within = MaxPageList
		}
		if err := walk(dec, name, depth+1, within); err != nil {
			return err
		}
	}
	_, err = dec.Token()
	return err
}

func walkName(dec *json.Decoder, names map[string]bool, free bool) (string, error) {
	token, err := dec.Token()
	if err != nil {
		return "", fmt.Errorf("the view is not JSON: %w", err)
	}
	name, _ := token.(string) // Token gives nothing else here
	if len(name) > maxText {
		return "", fmt.Errorf("a name has %d bytes", len(name))
	}
	if names[name] {
		return "", fmt.Errorf("the name %q is given twice", model.Clip(name))
	}
	// Go's decoder would read "Title" as title, other readers would not.
	if !free && strings.ToLower(name) != name {
		return "", fmt.Errorf("there is no field %q: fields are written in small letters", model.Clip(name))
	}
	names[name] = true
	return name, nil
}

func (d *Document) check() error {
	if d.Format != Format {
		return invalid("format", "is %d, this version reads %d", d.Format, Format)
	}
	if err := checkTexts("", d.Title, d.Description); err != nil {
		return err
	}
	if d.Last != "" && !spans.MatchString(d.Last) {
		return invalid("last", "is %q, it must be a whole number and one of m, h, d, w, such as 24h", model.Clip(d.Last))
	}
	if err := d.checkAxes(); err != nil {
		return err
	}
	if d.Page != nil {
		return d.checkPage()
	}
	if n := len(d.Panels); n < 1 || n > MaxPanels {
		return invalid("panels", "has %d entries, it must have 1 to %d", n, MaxPanels)
	}
	for i := range d.Panels {
		if err := d.Panels[i].check(fmt.Sprintf("panels[%d]", i)); err != nil {
			return err
		}
	}
	return nil
}

// spans are ranges of time; the longest are longer than any run.
var spans = regexp.MustCompile(`^[1-9][0-9]{0,3}[mhdw]$`)

// maxPlace is the largest number that every reader of JSON has exactly.
const maxPlace = 1 << 53

func (d *Document) checkAxes() error {
	if len(d.Axes) == 0 {
		d.Axes = nil // as in its text
	}
	for _, axis := range slices.Sorted(maps.Keys(d.Axes)) {
		if axis == model.AxisTime {
			return invalid("axes", "has time_ns: last is the range of time")
		}
		if err := oneOf("axes", axis, model.Axes()...); err != nil {
			return err
		}
		place := "axes." + string(axis)
		shown := d.Axes[axis]
		if len(shown) != 2 {
			return invalid(place, "has %d numbers, it must have the first and the last", len(shown))
		}
		if shown[0] >= shown[1] || shown[0] < -maxPlace || shown[1] > maxPlace {
			return invalid(place, "is from %d to %d: the first must be less than the last, and both within ±2^53", shown[0], shown[1])
		}
	}
	return nil
}

func checkTexts(at, title, description string) error {
	if at != "" {
		at += "."
	}
	if strings.TrimSpace(title) == "" {
		return invalid(at+"title", "is empty")
	}
	if err := checkText(at+"title", title, maxTitle); err != nil {
		return err
	}
	return checkText(at+"description", description, maxText)
}

// checkText refuses what no page can show.
func checkText(at, text string, most int) error {
	if n := utf8.RuneCountInString(text); n > most {
		return invalid(at, "has %d characters, the most is %d", n, most)
	}
	if i := strings.IndexFunc(text, func(r rune) bool { return unicode.IsControl(r) && r != '\n' }); i >= 0 {
		return invalid(at, "holds a control character")
	}
	return nil
}

func (p *Panel) check(at string) error {
	if err := checkTexts(at, p.Title, p.Description); err != nil {
		return err
	}
	if err := p.checkChoices(at); err != nil {
		return err
	}
	if err := p.checkKind(at); err != nil {
		return err
	}
	if p.Top < 0 || p.Top > MaxTop {
		return invalid(at+".top", "is %d, it must be from 1 to %d", p.Top, MaxTop)
	}
	if p.Top > 0 && p.Order == "" {
		return invalid(at+".top", "needs an order: desc keeps the largest, asc the smallest")
	}
	if err := checkText(at+".unit", p.Unit, 40); err != nil {
		return err
	}
	if err := p.checkBy(at); err != nil {
		return err
	}
	return p.Query.check(at + ".query")
}

func (p *Panel) checkChoices(at string) error {
	if err := oneOf(at+".kind", p.Kind, Line, Stat, Table); err != nil {
		return err
	}
	if err := oneOf(at+".reduce", p.Reduce, "", Last, Mean, Min, Max, Count, NaN, Time); err != nil {
		return err
	}
	if err := oneOf(at+".order", p.Order, "", Falling, Rising); err != nil {
		return err
	}
	return oneOf(at+".axis", p.Axis, append([]model.Axis{"", model.AxisTime}, model.Axes()...)...)
}

func oneOf[T ~string](at string, value T, choices ...T) error {
	if slices.Contains(choices, value) {
		return nil
	}
	var shown []string
	for _, c := range choices {
		if c != "" {
			shown = append(shown, string(c))
		}
	}
	return invalid(at, "is %q, it must be one of %s", model.Clip(string(value)), strings.Join(shown, ", "))
}

// checkKind refuses fields that the panel's kind would not use.
func (p *Panel) checkKind(at string) error {
	switch {
	case p.Kind != Line && p.Axis != "":
		return invalid(at+".axis", "is for lines; this panel is a %s", p.Kind)
	case p.Kind == Line && p.By != nil:
		return invalid(at+".by", "is for stat and table: each series is a line of its own")
	case p.Kind != Table && p.Columns != "":
		return invalid(at+".columns", "is for tables; this panel is a %s", p.Kind)
	case p.Kind == Table && p.Order != "" && p.columns() != metricKey:
		return invalid(at+".order", "is for tables whose columns are metrics: rows are sorted by the first one")
	}
	return nil
}

// The names that groups are made by, besides labels.
const (
	runKey    = "run"
	metricKey = "metric"
	labelKey  = "label."
)

func (p *Panel) columns() string {
	if p.Columns == "" {
		return metricKey
	}
	return p.Columns
}

func (p *Panel) checkBy(at string) error {
	if p.Columns != "" {
		if err := checkKey(at+".columns", p.Columns); err != nil {
			return err
		}
	}
	if p.By == nil {
		return nil
	}
	if len(*p.By) > maxList {
		return invalid(at+".by", "has %d entries, the most is %d", len(*p.By), maxList)
	}
	for i, key := range *p.By {
		place := fmt.Sprintf("%s.by[%d]", at, i)
		if err := checkKey(place, key); err != nil {
			return err
		}
		if slices.Contains((*p.By)[:i], key) {
			return invalid(place, "is %q a second time", key)
		}
		if p.Kind == Table && key == p.columns() {
			return invalid(place, "is %q, which the columns are made of", key)
		}
	}
	return nil
}

func checkKey(at, key string) error {
	label, isLabel := strings.CutPrefix(key, labelKey)
	if key == runKey || key == metricKey || isLabel && label != "" {
		return checkText(at, key, maxTitle)
	}
	return invalid(at, "is %q, it must be run, metric or label.NAME", model.Clip(key))
}

func (q *Query) check(at string) error {
	if n := len(q.Metrics); n < 1 || n > MaxMetrics {
		return invalid(at+".metrics", "has %d entries, it must have 1 to %d", n, MaxMetrics)
	}
	for i, m := range q.Metrics {
		if err := checkPattern(fmt.Sprintf("%s.metrics[%d]", at, i), m); err != nil {
			return err
		}
		if slices.Contains(q.Metrics[:i], m) {
			return invalid(fmt.Sprintf("%s.metrics[%d]", at, i), "is %q a second time", m)
		}
	}
	if err := checkText(at+".runs", q.Runs, 512); err != nil {
		return err
	}
	if len(q.Tags) > maxList || len(q.Labels) > maxList {
		return invalid(at, "has %d tags and %d labels, the most is %d of each", len(q.Tags), len(q.Labels), maxList)
	}
	for i, tag := range q.Tags {
		if err := checkPattern(fmt.Sprintf("%s.tags[%d]", at, i), tag); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(q.Labels)) {
		if name == "" {
			return invalid(at+".labels", "has an empty name")
		}
		if err := checkPattern(at+".labels."+model.Clip(name), q.Labels[name]); err != nil {
			return err
		}
	}
	return nil
}

func checkPattern(at, text string) error {
	if text == "" {
		return invalid(at, "is empty")
	}
	return checkText(at, text, 512)
}
