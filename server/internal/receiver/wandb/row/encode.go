package row

import (
	"bytes"
	"iter"
	"math"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/loose"
)

// class is how a part is stored.
type class byte

const (
	number    class = 'n'
	text      class = 't'
	document  class = 'j'
	histogram class = 'h'
)

// part is a value of a row on its way into a column.
type part struct {
	name  []byte
	class class
	value float64
	raw   []byte // of the JSON
	doc   []byte // of a histogram
	text  string
}

// Encoder gathers the rows of one lane into columns. Rows that have the same keys, with
// values of the same classes, share a group.
type Encoder struct {
	groups []*group
	of     map[string]*group // by the names and classes of their cells
	parts  []part
	sign   []byte
	last   *group
	forms  map[*form]*group
	form   *form // that of the last row which has one, and its group
	formed *group
	expect int
}

// Expect says how many rows come at most, so that room for them is made at once.
func (e *Encoder) Expect(rows int) { e.expect = rows }

// group is a row group that grows.
type group struct {
	sign    string
	doubled bool // a row of this form names a series twice
	step    []int64
	time    []int64
	runtime []float64
	columns []model.Column
}

// Add takes a row; now is its time where the line has none.
func (e *Encoder) Add(l *Line, now int64) {
	if l.form != nil {
		e.numbers(l, now)
		return
	}
	e.collect(l)
	g := e.find()
	if g.doubled {
		e.settle()
		g = e.find()
	}
	g.begin(l, now)
	for i := range e.parts {
		g.add(i, &e.parts[i])
	}
}

// begin adds what each row has.
func (g *group) begin(l *Line, now int64) {
	if l.TimeNs != 0 {
		now = l.TimeNs
	}
	g.step, g.time, g.runtime = append(g.step, l.Step), append(g.time, now), append(g.runtime, l.runtime)
}

// numbers takes a row that has a form.
func (e *Encoder) numbers(l *Line, now int64) {
	if e.form != l.form {
		e.form, e.formed = l.form, e.groupOf(l.form)
	}
	e.formed.begin(l, now)
	for i, at := range l.form.columns {
		c := &e.formed.columns[i]
		c.Floats = append(c.Floats, math.Float64frombits(l.bits[at]))
	}
}

// groupOf is the group of a form's rows.
func (e *Encoder) groupOf(f *form) *group {
	if g := e.forms[f]; g != nil {
		return g
	}
	e.parts = e.parts[:0]
	for _, name := range f.names {
		e.parts = append(e.parts, part{name: name, class: number})
	}
	g := e.find()
	if n := min(e.expect, f.rows); n > 0 && len(g.step) == 0 {
		g.step, g.time, g.runtime = make([]int64, 0, n), make([]int64, 0, n), make([]float64, 0, n)
		room := make([]float64, n*len(g.columns))
		for i := range g.columns {
			g.columns[i].Floats = room[i*n : i*n : (i+1)*n]
		}
	}
	if e.forms == nil {
		e.forms = map[*form]*group{}
	}
	e.forms[f] = g
	return g
}

func (g *group) add(i int, c *part) {
	column := &g.columns[i]
	switch c.class {
	case number:
		column.Floats = append(column.Floats, c.value)
	case text:
		column.Texts = append(column.Texts, c.text)
	case document:
		column.Texts = append(column.Texts, string(c.raw))
	case histogram:
		column.Docs = append(column.Docs, bytes.Clone(c.doc))
	}
}

// Groups gives the groups up: the encoder is empty again.
func (e *Encoder) Groups() []model.RowGroup {
	out := make([]model.RowGroup, 0, len(e.groups))
	for _, g := range e.groups {
		if len(g.step) == 0 {
			continue
		}
		g.columns = append(g.columns, model.Column{Series: model.SeriesKey{Metric: IndexMetric, Scale: model.ScaleStep}, Kind: model.KindFloat, Floats: g.runtime})
		out = append(out, model.RowGroup{
			Unique: model.UniqueAxes, Axes: []model.AxisColumn{{Axis: model.AxisStep, Values: g.step}}, TimeNs: g.time, Columns: g.columns,
		})
	}
	e.groups, e.of, e.last = e.groups[:0], nil, nil
	e.forms, e.form, e.formed = nil, nil, nil
	return out
}

// Keys are the keys of the rows that it has.
func (e *Encoder) Keys() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, g := range e.groups {
			for i := range g.columns {
				if series := g.columns[i].Series; IsSeries(series) && !yield(series.Metric) {
					return
				}
			}
		}
	}
}

// collect lists the cells of a line.
func (e *Encoder) collect(l *Line) {
	e.parts = e.parts[:0]
	var other []loose.Member
	objects := 0
	for _, m := range l.members {
		if !m.Faithful || !isName(m.Key) {
			other = append(other, m)
			continue
		}
		if e.value(m) {
			objects++
		}
	}
	if objects > 0 {
		e.settle() // an object that a later member replaces has no numbers
		other = e.literals(other)
		for i, n := 0, len(e.parts); i < n; i++ {
			if c := e.parts[i]; c.class == document && isPlainObject(c.raw) {
				e.leaves(c.name, c.raw)
			}
		}
	}
	e.rest(append(other, l.odd...))
}

// value makes the part of a member, and tells an object whose numbers become series.
func (e *Encoder) value(m loose.Member) (object bool) {
	c := part{name: m.Key, class: document, raw: m.Value}
	switch loose.KindOf(m.Value) {
	case loose.Number:
		if f, held := Number(m.Value); held {
			c.class, c.value = number, f
		}
	case loose.String:
		if s, faithful := loose.Text(m.Value); faithful {
			c.class, c.text = text, s
		}
	case loose.Object:
		if doc, ok := histogramOf(m.Value); ok {
			c.class, c.doc = histogram, doc
			break
		}
		object = isPlainObject(m.Value)
	}
	e.parts = append(e.parts, c)
	return object
}

// isPlainObject tells an object of values from one of W&B's own types.
func isPlainObject(v []byte) bool {
	if loose.KindOf(v) != loose.Object {
		return false
	}
	_, typed := loose.Get(v, TypeMember)
	return !typed
}

// isName tells keys that can be metrics. Keys that mean something to the reader cannot.
func isName(key []byte) bool {
	return isMetric(key) && string(key) != OtherMetric && string(key) != ConsoleMetric && !bytes.HasPrefix(key, []byte(SystemPrefix))
}

func isMetric(name []byte) bool {
	return len(name) > 0 && len(name) <= maxName && model.IsClean(string(name))
}

const maxName = 1024

// literals takes the keys out that look as if they were below an object of the row: the
// reader takes such a series for a number of the object.
func (e *Encoder) literals(other []loose.Member) []loose.Member {
	above := map[string]bool{}
	for i := range e.parts {
		if c := &e.parts[i]; c.class == document && isPlainObject(c.raw) {
			above[string(c.name)] = true
		}
	}
	kept := e.parts[:0]
	for _, c := range e.parts {
		if below(c.name, above) {
			other = append(other, loose.Member{Key: c.name, Value: original(&c)})
			continue
		}
		kept = append(kept, c)
	}
	e.parts = kept
	return other
}

// below tells a name that has a name of the set and a dot in front.
func below(name []byte, above map[string]bool) bool {
	for i, b := range name {
		if b == '.' && above[string(name[:i])] {
			return true
		}
	}
	return false
}

// original is the JSON of a part, as it came or the same value.
func original(c *part) []byte {
	switch c.class {
	case number:
		return loose.AppendNumber(nil, c.value)
	case text:
		return loose.AppendText(nil, c.text)
	}
	return c.raw
}

// leaves makes series of an object's numbers, beside the object itself.
func (e *Encoder) leaves(key, object []byte) {
	for name, f := range Leaves(string(key), object) {
		if isName([]byte(name)) {
			e.parts = append(e.parts, part{name: []byte(name), class: number, value: f})
		}
	}
}

// rest keeps what can be no series in one object.
func (e *Encoder) rest(other []loose.Member) {
	if len(other) == 0 {
		return
	}
	doc := []byte{'{'}
	for i, m := range other {
		if i > 0 {
			doc = append(doc, ',')
		}
		if m.RawKey != nil {
			doc = append(doc, m.RawKey...)
		} else {
			doc = loose.AppendText(doc, string(m.Key))
		}
		doc = append(doc, ':')
		doc = append(doc, m.Value...)
	}
	e.parts = append(e.parts, part{name: []byte(OtherMetric), class: document, raw: append(doc, '}')})
}

// find is the group of the cells' form.
func (e *Encoder) find() *group {
	e.sign = e.sign[:0]
	for i := range e.parts {
		c := &e.parts[i]
		e.sign = append(append(append(e.sign, byte(c.class)), c.name...), 0) // no name has a zero byte
	}
	if e.last != nil && e.last.sign == string(e.sign) {
		return e.last
	}
	g := e.of[string(e.sign)]
	if g == nil {
		g = e.newGroup()
	}
	e.last = g
	return g
}

// newGroup makes a group of the cells' form.
func (e *Encoder) newGroup() *group {
	g := &group{sign: string(e.sign), columns: make([]model.Column, len(e.parts), len(e.parts)+1)}
	seen := make(map[string]bool, len(e.parts))
	for i := range e.parts {
		c := &e.parts[i]
		key, kind := c.series()
		g.columns[i] = model.Column{Series: key, Kind: kind}
		name := string(c.name)
		g.doubled = g.doubled || seen[name]
		seen[name] = true
	}
	if e.of == nil {
		e.of = map[string]*group{}
	}
	e.of[g.sign] = g
	if !g.doubled {
		e.groups = append(e.groups, g)
	}
	return g
}

// settle leaves one part of each name, the last as in Python. Of two leaves of objects that
// have the same dotted name, too: the objects keep both.
func (e *Encoder) settle() {
	at := make(map[string]int, len(e.parts))
	for i := range e.parts {
		at[string(e.parts[i].name)] = i
	}
	kept := e.parts[:0]
	for i := range e.parts {
		if at[string(e.parts[i].name)] == i {
			kept = append(kept, e.parts[i])
		}
	}
	e.parts = kept
}

func (c *part) series() (model.SeriesKey, model.Kind) {
	switch c.class {
	case number:
		return model.SeriesKey{Metric: string(c.name), Scale: model.ScaleStep}, model.KindFloat
	case histogram:
		return typed(string(c.name), TypeHistogram), model.KindHistogram
	case text:
		return typed(string(c.name), TypeText), model.KindText
	}
	return typed(string(c.name), TypeJSON), model.KindText
}

// typed is the series of values of a type other than numbers.
func typed(metric, kind string) model.SeriesKey {
	return model.SeriesKey{Metric: metric, Scale: model.ScaleStep, Labels: []model.Label{{Name: LabelType, Value: kind}}}
}

// histogramOf is the document of W&B's histogram, where it is one that reads back the same:
// {"_type":"histogram","values":[counts],"bins":[edges]}.
func histogramOf(v []byte) (doc []byte, ok bool) {
	var edges, counts []byte
	for m, err := range loose.Members(v) {
		if err != nil {
			return nil, false
		}
		switch string(m.Key) {
		case TypeMember:
			if !bytes.Equal(m.Value, []byte(`"histogram"`)) {
				return nil, false
			}
			ok = true
		case "bins":
			edges = m.Value
		case "values":
			counts = m.Value
		default:
			return nil, false
		}
	}
	if !ok || edges == nil || counts == nil || !exactList(edges) || !exactList(counts) {
		return nil, false
	}
	doc = append(append(append(append([]byte(`{"bin_edges":`), edges...), `,"counts":`...), counts...), '}')
	return doc, model.CheckDocument(model.KindHistogram, doc) == nil
}

// exactList tells a list of numbers that float64 holds, few enough for a histogram.
func exactList(v []byte) bool {
	if loose.KindOf(v) != loose.Array {
		return false
	}
	n := 0
	for one, err := range loose.Elements(v) {
		f, exact := loose.Float(one)
		if n++; err != nil || !exact || math.IsNaN(f) || math.IsInf(f, 0) || n > model.MaxBins+1 {
			return false
		}
	}
	return true
}

// IsSeries tells the series that have the values of a key of the history.
func IsSeries(k model.SeriesKey) bool {
	if k.Scale != model.ScaleStep || len(k.Labels) > 1 {
		return false
	}
	if len(k.Labels) == 0 {
		return true
	}
	kind := k.Labels[0].Value
	return k.Labels[0].Name == LabelType && (kind == TypeText || kind == TypeJSON || kind == TypeHistogram)
}
