package row

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/loose"
	"github.com/kymogram/kymogram/server/internal/query"
)

// draft is a line that grows key by key.
type draft struct {
	text    []byte          // members, with a comma behind each
	last    int             // where that of the last series begins
	series  int             // the last one, counted from 1
	objects map[string]bool // keys of objects whose numbers are series too
	literal map[string]bool // of the keys that are asked for, those in OtherMetric
	given   given
}

// given says which of W&B's own members a draft has already.
type given uint8

const (
	runtimeGiven given = 1 << iota
	stepGiven
	timestampGiven
)

// line closes a draft.
func (s *selection) line(d *draft, e *entry) []byte {
	out := make([]byte, 0, len(d.text)+80)
	out = append(append(out, '{'), d.text...)
	if s.owns(d, RuntimeKey, runtimeGiven) && !s.events && !math.IsNaN(e.runtime) {
		out = append(loose.AppendNumber(append(out, `"`+RuntimeKey+`":`...), e.runtime), ',')
	}
	if s.owns(d, StepKey, stepGiven) && !s.events {
		out = append(strconv.AppendInt(append(out, `"`+StepKey+`":`...), e.step, 10), ',')
	}
	if s.owns(d, TimestampKey, timestampGiven) {
		out = append(loose.AppendNumber(append(out, `"`+TimestampKey+`":`...), Seconds(e.time)), ',')
	}
	if n := len(out); out[n-1] == ',' {
		return append(out[:n-1], '}')
	}
	return append(out, '}')
}

// owns reports whether a line is to have one of W&B's own members, and has none yet.
func (s *selection) owns(d *draft, key string, bit given) bool {
	return d.given&bit == 0 && s.wants(key)
}

// wants reports whether a key is asked for.
func (s *selection) wants(key string) bool {
	if s.keys == nil {
		return true
	}
	_, found := slices.BinarySearch(s.keys, key)
	return found
}

// passes are the metrics that may hold what is asked for, in groups that are read one
// after the other; none: all. What is in OtherMetric under a key stands before the number
// of an object that has the same name.
func (s *selection) passes() [][]string {
	if s.keys == nil {
		return [][]string{nil}
	}
	keys := slices.DeleteFunc(slices.Clone(s.keys), func(key string) bool { return key == "" || key == OtherMetric })
	if len(keys) == 0 {
		return [][]string{{OtherMetric}}
	}
	return [][]string{{OtherMetric}, keys}
}

// filler gives drafts their members.
type filler struct {
	*selection
	entries []entry
	drafts  []draft
	bytes   int
	series  int
	text    string // of the series
	at      int    // the entry that the series has come to
}

// fill reads what the rows of some entries hold, in drafts: of fewer rows, but at least of
// the first step, where they are long.
func fill(ctx context.Context, src Source, sel *selection, entries []entry) ([]draft, error) {
	f := &filler{selection: sel, entries: entries, drafts: make([]draft, len(entries))}
	r := sel.request()
	r.From = entries[0].step
	r.Match = isCell
	if sel.events {
		r.Match = isEvent
	}
	for _, metrics := range sel.passes() {
		r.Metrics, r.After = metrics, ""
		for more := true; more; {
			r.To = f.lastStep()
			var err error
			if more, err = f.readUntilCut(ctx, src, r); err != nil {
				return nil, err
			}
			r.After = f.text
		}
	}
	return f.drafts, nil
}

func (f *filler) lastStep() int64 { return f.entries[len(f.drafts)-1].step }

// readUntilCut reads series until all are read, or there are fewer rows to read: then the
// rest of the series is read for them alone.
func (f *filler) readUntilCut(ctx context.Context, src Source, r query.AcrossRequest) (more bool, err error) {
	cut := false
	for rows, err := range src.Across(ctx, r) {
		if err != nil {
			return false, err
		}
		if text := rows.Values.Series.String(); text != f.text {
			f.begin(text)
		}
		if err := f.take(rows); err != nil {
			return false, err
		}
		if f.bytes > PageBytes {
			cut = f.cut() || cut
		}
		steps := f.xs(rows)
		if cut && (rows.Next == nil || steps[len(steps)-1] > f.lastStep()) {
			return true, nil
		}
	}
	return false, nil
}

func (f *filler) begin(text string) {
	f.text, f.at = text, 0
	f.series++
}

// take adds the points of a series to the rows that they are of.
func (f *filler) take(rows *query.Rows) error {
	c := newCells(&rows.Values, f.events)
	if c == nil {
		return nil
	}
	return f.join(rows, f.entries[:len(f.drafts)], &f.at, func(i, k int) error {
		d := &f.drafts[k]
		before := len(d.text)
		err := f.put(d, c, i)
		f.bytes += len(d.text) - before
		return err
	})
}

// join finds the rows that the points of a series are of: point i is of entry k. Both are
// in one order. at is the entry that earlier points came to.
func (s *selection) join(rows *query.Rows, entries []entry, at *int, each func(i, k int) error) error {
	for i, x := range s.xs(rows) {
		if s.events && hasStep(rows, i) {
			continue
		}
		for *at < len(entries) && entries[*at].compare(x, rows.TimeNs[i], &rows.Writer[i]) < 0 {
			*at++
		}
		if *at == len(entries) {
			return nil
		}
		for k := *at; k < len(entries) && entries[k].compare(x, rows.TimeNs[i], &rows.Writer[i]) == 0; k++ {
			if entries[k].attempt != rows.Attempt[i] {
				continue
			}
			if err := each(i, k); err != nil {
				return err
			}
			break
		}
	}
	return nil
}

// cut leaves the rows that fill half a page, whole steps of at least one.
func (f *filler) cut() bool {
	n, bytes := 0, 0
	for n < len(f.drafts) {
		end, size := n, 0
		for end < len(f.drafts) && f.entries[end].step == f.entries[n].step {
			size += len(f.drafts[end].text)
			end++
		}
		if n > 0 && bytes+size > PageBytes/2 {
			break
		}
		n, bytes = end, bytes+size
	}
	smaller := n < len(f.drafts)
	clear(f.drafts[n:])
	f.drafts, f.bytes = f.drafts[:n], bytes
	return smaller
}

// cells writes the values of a series as members.
type cells struct {
	*model.Column
	key  string
	path []byte // the key
	name []byte // the key as JSON, with a colon
	as   string // "" for a number, else the type
}

// isCell reports whether a series may hold values of a key.
func isCell(key model.SeriesKey) bool {
	if key.Scale != model.ScaleStep {
		return false
	}
	if len(key.Labels) == 0 {
		return key.Metric != IndexMetric
	}
	if len(key.Labels) > 1 || key.Labels[0].Name != LabelType {
		return false
	}
	switch key.Labels[0].Value {
	case TypeText, TypeJSON, TypeHistogram:
		return true
	}
	return false
}

// isEvent reports whether a series may hold values of system events.
func isEvent(key model.SeriesKey) bool {
	return strings.HasPrefix(key.Metric, SystemPrefix) && isCell(key)
}

// eventKey is the key of a system event that a metric has the values of.
func eventKey(metric string) string {
	if rest, own := strings.CutPrefix(metric, SystemOwn); own {
		return "_" + rest
	}
	return SystemKeys + strings.TrimPrefix(metric, SystemPrefix)
}

// newCells is nil for a series of something else, such as the console.
func newCells(values *model.Column, events bool) *cells {
	c := &cells{Column: values, key: values.Series.Metric}
	if events {
		c.key = eventKey(c.key)
	}
	kind := model.KindFloat
	if len(values.Series.Labels) > 0 {
		c.as, kind = values.Series.Labels[0].Value, model.KindText
		if c.as == TypeHistogram {
			kind = model.KindHistogram
		}
	}
	if values.Kind != kind {
		return nil
	}
	c.path = []byte(c.key)
	c.name = append(loose.AppendText(nil, c.key), ':')
	return c
}

// put adds a value to a row. Where the row has one of the series already, the later stands.
func (f *filler) put(d *draft, c *cells, i int) error {
	if d.series == f.series {
		d.text = d.text[:d.last]
	}
	d.series, d.last = f.series, len(d.text)
	switch c.as {
	case "":
		if d.objects != nil && below(c.path, d.objects) || d.literal[c.key] { // the object has it
			return nil
		}
		d.text = append(loose.AppendNumber(append(d.text, c.name...), c.Floats[i]), ',')
	case TypeText:
		d.text = append(loose.AppendText(append(d.text, c.name...), c.Texts[i]), ',')
	case TypeHistogram:
		var err error
		if d.text, err = AppendHistogram(append(d.text, c.name...), c.Docs[i]); err != nil {
			return fmt.Errorf("the histogram %q: %w", c.key, err)
		}
		d.text = append(d.text, ',')
	default:
		return f.putJSON(d, c, c.Texts[i])
	}
	d.note(c.key)
	return nil
}

func (f *filler) putJSON(d *draft, c *cells, text string) error {
	if c.key == OtherMetric {
		return f.putOther(d, []byte(text))
	}
	d.text = append(append(append(d.text, c.name...), text...), ',')
	d.note(c.key)
	if f.keys == nil && !f.events && isPlainObject([]byte(text)) {
		if d.objects == nil {
			d.objects = map[string]bool{}
		}
		d.objects[c.key] = true
	}
	return nil
}

// putOther adds the members of an object.
func (f *filler) putOther(d *draft, object []byte) error {
	for m, err := range loose.Members(object) {
		if err != nil {
			return fmt.Errorf("the rest of a row: %w", err)
		}
		if f.wants(string(m.Key)) {
			d.setLiteral(f.selection, string(m.Key))
			d.text = append(append(append(append(d.text, m.RawKey...), ':'), m.Value...), ',')
			d.note(string(m.Key))
		}
	}
	return nil
}

func (d *draft) setLiteral(s *selection, key string) {
	if s.keys == nil {
		return
	}
	if d.literal == nil {
		d.literal = map[string]bool{}
	}
	d.literal[key] = true
}

// note keeps a member of W&B's from coming twice.
func (d *draft) note(key string) {
	switch key {
	case RuntimeKey:
		d.given |= runtimeGiven
	case StepKey:
		d.given |= stepGiven
	case TimestampKey:
		d.given |= timestampGiven
	}
}

// typeMember is the member that tells W&B's media and histograms from plain objects.
const typeMember = "_type"

// AppendHistogram writes a histogram as W&B does.
func AppendHistogram(dst, doc []byte) ([]byte, error) {
	var h model.Histogram
	if err := json.Unmarshal(doc, &h); err != nil {
		return dst, fmt.Errorf("read a histogram: %w", err)
	}
	dst = append(dst, `{"`+typeMember+`":"histogram","bins":`...)
	dst = appendNumbers(dst, h.BinEdges)
	dst = append(dst, `,"values":`...)
	return append(appendNumbers(dst, h.Counts), '}'), nil
}

func appendNumbers(dst []byte, list []float64) []byte {
	dst = append(dst, '[')
	for i, f := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = loose.AppendNumber(dst, f)
	}
	return append(dst, ']')
}
