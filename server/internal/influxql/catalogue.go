package influxql

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/influxdata/influxql"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/query"
	"github.com/kymogram/kymogram/server/internal/store"
)

// tagRun is the tag with the name of a point's run.
const tagRun = "run"

// fieldValue is the field of a metric whose name has no slash.
const fieldValue = "value"

// maxTagText bounds the attributes that are tags, as the write door bounds tags.
const maxTagText = 1 << 10

// catalogue is the measurements of a project that a statement asks for.
type catalogue map[string]*table

// names are those of the measurements, sorted.
func (c catalogue) names() []string { return slices.Sorted(maps.Keys(c)) }

// table is a measurement.
type table struct {
	name   string
	fields map[string]influxql.DataType
	groups []*group

	once            sync.Once
	withAxes, plain map[string]struct{} // the tags of all groups
}

func (t *table) collect() {
	t.once.Do(func() {
		t.withAxes, t.plain = map[string]struct{}{}, map[string]struct{}{}
		for _, g := range t.groups {
			maps.Copy(t.withAxes, g.tags(true))
			maps.Copy(t.plain, g.tags(false))
		}
	})
}

// shown are the tags that * shows, grouped those that GROUP BY * means.
func (t *table) shown() map[string]struct{} {
	t.collect()
	return t.withAxes
}

func (t *table) grouped() map[string]struct{} {
	t.collect()
	return t.plain
}

// hasTag says whether any row has a tag.
func (t *table) hasTag(name string) bool {
	_, ok := t.shown()[name]
	return ok || name == tagRun || isAxisName(name) && slices.ContainsFunc(t.groups, func(g *group) bool { return g.isAxis(name) })
}

// group is the series of a run that share scale and labels: the fields of its rows.
type group struct {
	run    *owner
	labels []model.Label
	axes   []model.Axis
	fields map[string]field
	// The times of all its points.
	minNs, maxNs int64
}

type field struct {
	series       store.SeriesID
	kind         model.Kind
	minNs, maxNs int64
	count        uint64
}

// within says whether a field may have points in a range.
func (f *field) within(from, to int64) bool { return f.maxNs >= from && f.minNs <= to }

// owner is a run, and what its attempts say of themselves: the base, with what is other in an
// attempt, "" for what is missing there. Where no attempt says anything the run's own
// attributes are the base.
type owner struct {
	id       model.RunID
	name     string
	latest   uint32
	attempts map[uint32]map[string]string
	base     map[string]string
	keys     map[string]struct{} // all names, where they were asked for
	groups   map[string]*group
	size     int // bytes of the tags
}

// split is the measurement and the field of a metric.
func split(metric string) (measurement, name string) {
	measurement, name, found := strings.Cut(metric, "/")
	if !found {
		name = fieldValue
	}
	if strings.Contains(measurement, "%") {
		measurement = strings.NewReplacer("%2F", "/", "%25", "%").Replace(measurement)
	}
	return measurement, name
}

// mostDirect is how many metrics are rather looked up than searched for.
const mostDirect = 32

// metricsOf are the metrics of all fields with these names; nil where only a search finds
// them. A measurement with a / or % can be spelled in several ways.
func metricsOf(measurements []*influxql.Measurement, names map[string]bool) (out []string) {
	if names == nil || len(measurements)*len(names) > mostDirect {
		return nil
	}
	for _, m := range measurements {
		if m.Regex != nil || m.Name == "" || strings.ContainsAny(m.Name, "/%") {
			return nil
		}
		if names[fieldValue] {
			out = append(out, m.Name)
		}
		for name := range names {
			out = append(out, m.Name+"/"+name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// typeOf is the type of a kind's values, Unknown for documents.
func typeOf(kind model.Kind) influxql.DataType {
	switch kind {
	case model.KindFloat:
		return influxql.Float
	case model.KindInt:
		return influxql.Integer
	case model.KindText:
		return influxql.String
	}
	return influxql.Unknown
}

// load reads the fields of a project that are wanted, and tags of their runs. Metrics are
// their names, none where they are not known.
func (s *session) load(ctx context.Context, at place, tags tagFilter, metrics []string, wanted func(measurement, field string) bool) (catalogue, error) {
	match := func(key model.SeriesKey) bool { return wanted(split(key.Metric)) }
	c, runs := catalogue{}, map[model.RunID]*owner{}
	for contents, err := range s.service.Contents(ctx, at.workspace, at.project, metrics, match) {
		if err != nil {
			return nil, err
		}
		o := runs[contents.Run.ID]
		if o == nil {
			if o, err = newOwner(&contents, tags.without(contents.Series)); err == nil {
				err = s.takeTags(o.size)
			}
			if err != nil {
				return nil, err
			}
			runs[o.id] = o
		}
		if err := s.takeSeries(c.add(o, contents.Series, tags.lean)); err != nil {
			return nil, err
		}
	}
	return c, ctx.Err()
}

// add keeps series, and says how many. Lean is for who needs one of each group.
func (c catalogue) add(o *owner, list []store.Series, lean bool) (kept int) {
	for i := range list {
		series := &list[i]
		kind := typeOf(series.Kind)
		if kind == influxql.Unknown {
			continue
		}
		measurement, name := split(series.Key.Metric)
		t := c[measurement]
		if t == nil {
			t = &table{name: measurement, fields: map[string]influxql.DataType{}}
			c[measurement] = t
		}
		key := model.SeriesKey{Metric: measurement, Scale: series.Key.Scale, Labels: series.Key.Labels}.String()
		g := o.groups[key]
		if g == nil {
			g = &group{run: o, labels: series.Key.Labels, fields: map[string]field{}, minNs: series.MinTimeNs, maxNs: series.MaxTimeNs}
			o.groups[key] = g
			t.groups = append(t.groups, g)
		}
		if !lean || len(g.fields) == 0 {
			kept++
			g.fields[name] = field{series.ID, series.Kind, series.MinTimeNs, series.MaxTimeNs, series.Count}
		}
		g.minNs, g.maxNs = min(g.minNs, series.MinTimeNs), max(g.maxNs, series.MaxTimeNs)
		for _, axis := range series.Axes {
			if !slices.Contains(g.axes, axis) {
				g.axes = append(g.axes, axis)
			}
		}
		old, ok := t.fields[name]
		if lean && !ok {
			kept++ // its name
		}
		if !ok || old.LessThan(kind) {
			t.fields[name] = kind
		}
	}
	return kept
}

func newOwner(c *query.Contents, wanted tagFilter) (*owner, error) {
	o := &owner{id: c.Run.ID, name: c.Run.Name, latest: c.Run.Attempt, base: map[string]string{}, groups: map[string]*group{}}
	if wanted.keys {
		o.keys = map[string]struct{}{}
	}
	if wanted.none() {
		return o, nil
	}
	for a, err := range c.Attributes {
		if err != nil {
			return nil, err
		}
		o.attribute(&a, wanted)
	}
	return o, nil
}

// tagFilter selects tags of attempts.
type tagFilter struct {
	names map[string]bool // nil: all
	keys  bool            // all names, without their values
	lean  bool            // one series of each group is enough
}

func (f *tagFilter) takes(name string) bool {
	return f.names == nil || f.names[name] || name == "role" || name == "uid" // of which names of runs are made
}

// without leaves out the names that mean fields, axes and the run's name: where nothing is
// left the attributes need not be read.
func (f tagFilter) without(list []store.Series) tagFilter {
	if f.names == nil {
		return f
	}
	left := maps.Clone(f.names)
	for _, name := range append(model.Axes(), tagRun, "time") {
		delete(left, string(name))
	}
	for i := range list {
		_, name := split(list[i].Key.Metric)
		delete(left, name)
	}
	return tagFilter{names: left, keys: f.keys, lean: f.lean}
}

func (f *tagFilter) none() bool { return f.names != nil && len(f.names) == 0 && !f.keys }

// attribute keeps what is a tag that is wanted. The write door keeps the tags of an attempt N
// as a set of PATH=VALUE under attempts/N; those paths sort before the run's own.
func (o *owner) attribute(a *catalog.Attribute, wanted tagFilter) {
	if number, ok := strings.CutPrefix(a.Path, "attempts/"); ok && a.Value.Type == model.TypeStringSet {
		if n, err := strconv.ParseUint(number, 10, 32); err == nil {
			o.attempt(uint32(n), a.Value.Set, wanted)
		}
		return
	}
	name, text := tagOf(a.Path), textOf(&a.Value)
	if name == "" || text == "" || len(text) > maxTagText || o.attempts != nil {
		return
	}
	o.keep(o.base, name, text, wanted)
}

func (o *owner) keep(into map[string]string, name, value string, wanted tagFilter) {
	if _, known := o.keys[name]; wanted.keys && !known {
		o.keys[name] = struct{}{}
		o.size += tagBytes
	}
	if wanted.takes(name) {
		into[name] = value
		o.size += tagBytes + len(value)
	}
}

// attempt keeps in what an attempt differs from the first.
func (o *owner) attempt(number uint32, set []string, wanted tagFilter) {
	tags, there := make(map[string]string), make(map[string]bool, len(set))
	for _, text := range set {
		path, value, _ := strings.Cut(text, "=")
		name := tagOf(path)
		there[name] = true
		if old, ok := o.base[name]; name == "" || o.attempts != nil && ok && old == value {
			continue
		}
		o.keep(tags, name, value, wanted)
	}
	if o.attempts == nil {
		o.attempts, o.base, tags = map[uint32]map[string]string{}, tags, nil
	}
	for name := range o.base {
		if !there[name] {
			tags[name] = ""
		}
	}
	o.attempts[number] = tags
}

// value is what an attempt says.
func (o *owner) value(attempt uint32, name string) (string, bool) {
	other, ok := o.attempts[attempt]
	if o.attempts != nil && !ok {
		return "", false // it says nothing
	}
	if value, ok := other[name]; ok {
		return value, value != ""
	}
	value, ok := o.base[name]
	return value, ok
}

// said are the names of what an attempt says.
func (o *owner) said(attempt uint32, yield func(string)) {
	for name := range o.keys {
		yield(name)
	}
	other, ok := o.attempts[attempt]
	if o.attempts != nil && !ok {
		return
	}
	for _, names := range []map[string]string{o.base, other} {
		for name := range names {
			if _, ok := o.value(attempt, name); ok {
				yield(name)
			}
		}
	}
}

// tagOf is the tag of an attribute, "" for one that is none: the reverse of the write door's
// way.
func tagOf(path string) string {
	if rest, ok := strings.CutPrefix(path, "config/"); ok {
		return "config_" + rest
	}
	if strings.Contains(path, "/") {
		return ""
	}
	return path
}

func textOf(v *model.Value) string {
	switch v.Type {
	case model.TypeString:
		return v.Str
	case model.TypeBool:
		return strconv.FormatBool(v.Bool)
	case model.TypeInt:
		return strconv.FormatInt(v.Int, 10)
	case model.TypeFloat:
		return strconv.FormatFloat(v.Float, 'g', -1, 64)
	}
	return ""
}

// life is how lives names an attempt.
func (o *owner) life(attempt uint32) uint32 {
	if _, ok := o.attempts[attempt]; ok {
		return attempt
	}
	return 0
}

// lives are the attempts that differ in what they say; 0 stands for the others.
func (o *owner) lives() []uint32 {
	if len(o.attempts) == 0 {
		return []uint32{0}
	}
	out := slices.Sorted(maps.Keys(o.attempts))
	if uint32(len(out)) < o.latest {
		out = append([]uint32{0}, out...)
	}
	return out
}

// named says whether the run's name says more than its other tags: the write door makes a
// name of role and uid, or takes "default", where no tag names the run.
func (o *owner) named(g *group) bool {
	for _, attempt := range o.lives() {
		role, _ := g.tag("role", attempt)
		uid, _ := g.tag("uid", attempt)
		if o.name == role+"-"+uid {
			return false
		}
	}
	return o.name != "default"
}

// label is a label's value.
func (g *group) label(name string) (string, bool) {
	for i := range g.labels {
		if g.labels[i].Name == name {
			return g.labels[i].Value, true
		}
	}
	return "", false
}

func (g *group) isAxis(name string) bool {
	_, label := g.label(name)
	return !label && slices.Contains(g.axes, model.Axis(name))
}

// tag is the value of a tag that is no axis, "" where there is none.
func (g *group) tag(name string, attempt uint32) (value string, ok bool) {
	if value, ok = g.label(name); ok {
		return value, true
	}
	if value, ok = g.run.value(attempt, name); ok {
		return value, true
	}
	if name == tagRun {
		return g.run.name, true
	}
	return "", false
}

// fixed is the value of a tag that all rows have, false where rows differ.
func (g *group) fixed(name string) (string, bool) {
	if g.isAxis(name) {
		return "", false
	}
	lives := g.run.lives()
	first, _ := g.tag(name, lives[0])
	for _, attempt := range lives[1:] {
		if value, _ := g.tag(name, attempt); value != first {
			return "", false
		}
	}
	return first, true
}

// hasTag says whether any row has a tag.
func (g *group) hasTag(name string) bool {
	if g.isAxis(name) {
		return true
	}
	for _, attempt := range g.run.lives() {
		if _, ok := g.tag(name, attempt); ok {
			return true
		}
	}
	return false
}

// tags are those that stand for "all tags". The step is the copy of another axis, where
// there is one.
func (g *group) tags(axes bool) map[string]struct{} {
	out := map[string]struct{}{}
	for i := range g.labels {
		out[g.labels[i].Name] = struct{}{}
	}
	for _, attempt := range g.run.lives() {
		g.run.said(attempt, func(name string) { out[name] = struct{}{} })
	}
	if g.run.named(g) {
		out[tagRun] = struct{}{}
	}
	for _, axis := range g.axes {
		if axes && (axis != model.AxisStep || len(g.axes) == 1) {
			out[string(axis)] = struct{}{}
		}
	}
	return out
}
