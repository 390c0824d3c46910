package influx

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/ingest"
)

// maxSeries bounds the series of one request: each costs some 500 bytes of memory
// while the request is read, and a body could name one with every 8 bytes.
const maxSeries = 200_000

// decoder turns a body into columns. Lines of the same measurement, tags and
// fields follow each other in practice, so each line is first compared with the
// shape of the one before.
type decoder struct {
	rules *Rules
	unit  int64 // of timestamps, ns
	now   int64 // of points without one

	heads  map[string]*head  // by their bytes, without axes
	groups map[string]*group // by run, axes, measurement and tags
	order  []*group
	last   *head
	key    []byte
	fields []field
	series int
	slab   *ingest.Slab
}

// head is the measurement and the tags of points.
type head struct {
	raw   []byte
	group *group
	axes  []int64 // as group.axes
}

// group is points of one run, measurement and tags; their axes may differ in
// values.
type group struct {
	run    string
	prefix string // of the metrics' names
	labels []model.Label
	axes   []model.Axis
	shapes map[string]*shape
	order  []*shape
	last   *shape
}

// shape is points of a group with the same fields in the same order.
type shape struct {
	fields  [][]byte // NAME= as it was written
	slots   []int    // column of each field; -1: a later one has its name
	plain   bool     // slots are 0, 1, 2, …
	columns []model.Column
	times   []int64
	axes    [][]int64
}

// field is one of a line that fits no shape yet.
type field struct {
	name  []byte // with its =
	value value
}

func newDecoder(rules *Rules, unit, now int64, slab *ingest.Slab) *decoder {
	return &decoder{rules: rules, unit: unit, now: now, slab: slab, heads: map[string]*head{}, groups: map[string]*group{}}
}

// decode reads every line, or none: InfluxDB 2 refuses a body with a bad line as
// a whole.
func (d *decoder) decode(body []byte) error {
	for at, line := 0, 1; ; line++ {
		for at < len(body) && (body[at] == ' ' || body[at] == '\t' || body[at] == '\r') {
			at++
		}
		switch {
		case at >= len(body):
			return nil
		case body[at] == '\n':
			at++
			continue
		case body[at] == '#':
			at += lineLength(body[at:])
			continue
		}
		end, reason := d.line(body, at)
		if reason != "" {
			return badLine(body[at:], line, reason)
		}
		line += bytes.Count(body[at:min(end, len(body)-1)], []byte{'\n'}) // in strings
		at = end + 1
	}
}

// lineLength is the length of a line with its end.
func lineLength(b []byte) int {
	if n := bytes.IndexByte(b, '\n'); n >= 0 {
		return n + 1
	}
	return len(b)
}

func badLine(rest []byte, line int, reason string) error {
	text := strings.ToValidUTF8(strings.TrimRight(string(rest[:lineLength(rest)]), "\r\n"), "�")
	return model.Errorf(model.CodeInvalid, "unable to parse '%s': line %d: %s", model.CutBytes(text, 256), line, reason)
}

// line reads the line at i; end is the place of its line feed.
func (d *decoder) line(b []byte, i int) (end int, reason string) {
	h, i, reason := d.head(b, i)
	if reason != "" {
		return i, reason
	}
	for i < len(b) && b[i] == ' ' {
		i++
	}
	if i >= len(b) || b[i] == '\n' || b[i] == '\r' && (i+1 == len(b) || b[i+1] == '\n') {
		return i, reasonFields
	}
	s := h.group.last
	stop, ok := s.push(d.slab, b, i)
	if !ok {
		if s, stop, reason = d.slow(h.group, b, i); reason != "" {
			return stop, reason
		}
	}
	end = stop + lineLength(b[stop:]) - 1
	if end < len(b) && b[end] != '\n' {
		end++
	}
	ns, given, reason := parseTime(b[stop:end], d.unit)
	if reason != "" {
		return end, reason
	}
	if !given {
		ns = d.now
	}
	s.times = append(s.times, ns)
	for k, v := range h.axes {
		s.axes[k] = append(s.axes[k], v)
	}
	return end, ""
}

// head finds the measurement and tags at i.
func (d *decoder) head(b []byte, i int) (h *head, end int, reason string) {
	if h = d.last; h != nil {
		if end = i + len(h.raw); end < len(b) && b[end] == ' ' && bytes.Equal(b[i:end], h.raw) {
			return h, end, ""
		}
	}
	end = endOf(b, i, ' ', ' ')
	raw := b[i:end]
	if h = d.heads[string(raw)]; h == nil {
		if h, reason = d.newHead(raw); reason != "" {
			return nil, end, reason
		}
	}
	d.last = h
	return h, end, ""
}

func (d *decoder) newHead(raw []byte) (*head, string) {
	measurement, tags, reason := parseHead(raw)
	if reason != "" {
		return nil, reason
	}
	h := &head{raw: raw}
	g := &group{run: d.rules.name(tags), prefix: metricPrefix(measurement)}
	if err := model.CheckRunName(g.run); err != nil {
		return nil, err.Error()
	}
	h.axes, g.axes = axesOf(tags, d.rules.axes)
	for i, t := range tags {
		_, integer := axisValue(t.value)
		if integer && slices.Contains(d.rules.axes, model.Axis(t.name)) || d.rules.whole(tags, i) {
			continue
		}
		g.labels = append(g.labels, model.Label{Name: t.name, Value: t.value})
	}
	slices.SortFunc(g.labels, func(a, b model.Label) int { return strings.Compare(a.Name, b.Name) })
	for i := 1; i < len(tags); i++ {
		if slices.ContainsFunc(tags[:i], func(o tag) bool { return o.name == tags[i].name }) {
			return nil, reasonTwice
		}
	}
	h.group = d.intern(g)
	if len(g.axes) == 0 && len(d.heads) < maxSeries {
		d.heads[string(raw)] = h
	}
	return h, ""
}

// intern finds the group that is equal to g.
func (d *decoder) intern(g *group) *group {
	k := append(append(d.key[:0], g.run...), 0)
	for _, a := range g.axes {
		k = append(append(k, a...), 0)
	}
	k = append(append(append(k, 0), g.prefix...), 0)
	for _, l := range g.labels {
		k = append(append(append(append(k, l.Name...), 0), l.Value...), 0)
	}
	d.key = k
	if old := d.groups[string(k)]; old != nil {
		return old
	}
	g.shapes = map[string]*shape{}
	d.groups[string(k)] = g
	d.order = append(d.order, g)
	return g
}

// metricPrefix is what the names of a measurement's series start with. A slash of
// its own is escaped, so that the first one in a name always ends the measurement.
func metricPrefix(measurement string) string {
	return strings.NewReplacer("%", "%25", "/", "%2F").Replace(measurement) + "/"
}

// axisValue reads an axis; text that is no integer as we would write it stays a
// label.
func axisValue(text string) (v int64, ok bool) {
	const most = 18 // digits: every such number fits, and leaves room to add
	if text == "" || len(text) > most || len(text) > 1 && text[0] == '0' {
		return 0, false
	}
	for i := range len(text) {
		if text[i]-'0' > 9 {
			return 0, false
		}
		v = v*10 + int64(text[i]-'0')
	}
	return v, true
}

// axesOf are the axes of a point in the model's order. The first of the wanted
// that is there gives the step, when no tag does.
func axesOf(tags []tag, wanted []model.Axis) (values []int64, axes []model.Axis) {
	at := map[model.Axis]int64{}
	first := true
	for _, axis := range wanted {
		k := slices.IndexFunc(tags, func(t tag) bool { return t.name == string(axis) })
		if k < 0 {
			continue
		}
		v, ok := axisValue(tags[k].value)
		if !ok {
			continue
		}
		at[axis] = v
		if first {
			at[model.AxisStep] = v
			first = false
		}
	}
	for _, axis := range model.Axes() {
		if v, ok := at[axis]; ok {
			axes, values = append(axes, axis), append(values, v)
		}
	}
	return values, axes
}

// push reads the fields at i into the columns if they are those of the shape;
// else the shape is as it was.
func (s *shape) push(slab *ingest.Slab, b []byte, i int) (end int, ok bool) {
	if s == nil || !s.plain {
		return 0, false
	}
	for k, name := range s.fields {
		if len(b)-i < len(name) || !bytes.Equal(b[i:i+len(name)], name) {
			return s.undo(k)
		}
		c := &s.columns[k]
		if f, stop, usual := scanFloat(b, i+len(name)); usual && c.Kind == model.KindFloat {
			c.Floats, i = slab.Append(c.Floats, f), stop
		} else {
			v, stop, reason := parseValue(b, i+len(name))
			if reason != "" || v.kind != c.Kind {
				return s.undo(k)
			}
			push(slab, c, &v)
			i = stop
		}
		if k == len(s.fields)-1 {
			break
		}
		if i >= len(b) || b[i] != ',' {
			return s.undo(k + 1)
		}
		i++
	}
	if i < len(b) && (b[i] == ',' || !ends(b[i])) {
		return s.undo(len(s.fields))
	}
	return i, true
}

// undo takes back the values of the first n columns.
func (s *shape) undo(n int) (int, bool) {
	rows := len(s.times)
	for k := range n {
		c := &s.columns[k]
		switch c.Kind {
		case model.KindFloat:
			c.Floats = c.Floats[:rows]
		case model.KindInt:
			c.Ints = c.Ints[:rows]
		default:
			c.Texts = c.Texts[:rows]
		}
	}
	return 0, false
}

// slow reads the fields at i without a guess.
func (d *decoder) slow(g *group, b []byte, i int) (s *shape, end int, reason string) {
	d.fields, d.key = d.fields[:0], d.key[:0]
	for {
		equals, reason := fieldName(b, i)
		if reason != "" {
			return nil, equals, reason
		}
		f := field{name: b[i : equals+1]}
		if f.value, i, reason = parseValue(b, equals+1); reason != "" {
			return nil, i, reason
		}
		if i < len(b) && !ends(b[i]) {
			return nil, i, reasonNumber
		}
		d.fields = append(d.fields, f)
		d.key = append(append(d.key, f.name...), byte(f.value.kind))
		if i >= len(b) || b[i] != ',' {
			break
		}
		i++
	}
	s = g.shapes[string(d.key)]
	if s == nil {
		if s, reason = d.newShape(g); reason != "" {
			return nil, i, reason
		}
	}
	g.last = s
	for k := range d.fields {
		if at := s.slots[k]; at >= 0 {
			push(d.slab, &s.columns[at], &d.fields[k].value)
		}
	}
	return s, i, ""
}

// newShape makes the shape of d.fields. Of two fields with one name the later
// counts.
func (d *decoder) newShape(g *group) (*shape, string) {
	if d.series += len(d.fields); d.series > maxSeries {
		return nil, fmt.Sprintf("the request has more than %d series; send fewer points at once", maxSeries)
	}
	s := &shape{axes: make([][]int64, len(g.axes)), slots: make([]int, len(d.fields))}
	names := make([]string, len(d.fields))
	latest := make(map[string]int, len(d.fields))
	for k, f := range d.fields {
		names[k] = unescape(f.name[:len(f.name)-1])
		latest[names[k]] = k
	}
	for k, f := range d.fields {
		s.fields = append(s.fields, f.name)
		s.slots[k] = -1
		if latest[names[k]] == k {
			s.slots[k] = len(s.columns)
			key := model.SeriesKey{Metric: g.prefix + names[k], Scale: model.ScaleStep, Labels: g.labels}
			s.columns = append(s.columns, model.Column{Series: key, Kind: f.value.kind})
		}
	}
	s.plain = len(s.columns) == len(d.fields)
	g.shapes[string(d.key)] = s
	g.order = append(g.order, s)
	return s, ""
}

// parts are the batches, one for each run.
func (d *decoder) parts() []ingest.Part {
	var out []ingest.Part
	at := map[string]int{}
	for _, g := range d.order {
		k, ok := at[g.run]
		if !ok {
			k = len(out)
			at[g.run] = k
			out = append(out, ingest.Part{Run: g.run})
		}
		for _, s := range g.order {
			out[k].Batch.Groups = append(out[k].Batch.Groups, s.group(g))
		}
	}
	return out
}

func (s *shape) group(g *group) model.RowGroup {
	out := model.RowGroup{Unique: model.UniqueTime, TimeNs: s.times, Columns: s.columns}
	for i, axis := range g.axes {
		out.Axes = append(out.Axes, model.AxisColumn{Axis: axis, Values: s.axes[i]})
	}
	return out
}

// push appends a value of the column's kind.
func push(slab *ingest.Slab, c *model.Column, v *value) {
	switch v.kind {
	case model.KindFloat:
		c.Floats = slab.Append(c.Floats, v.float)
	case model.KindInt:
		c.Ints = append(c.Ints, v.int)
	default:
		c.Texts = append(c.Texts, v.text)
	}
}
