package influxql

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/influxdata/influxdb/query"
	"github.com/influxdata/influxql"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
)

// source joins the fields of a group by time into rows, and keeps those that meet the
// condition.
type source struct {
	session *session
	group   *group
	opt     query.IteratorOptions
	name    string
	tags    query.Tags
	varying []string              // dimensions whose values differ from row to row
	known   map[string]query.Tags // of rows, by those
	only    map[uint32]bool       // attempts whose rows are wanted; nil: all
	limit   int                   // rows, 0 for all
	count   int
	meter   *meter

	streams []*stream
	rows    []row // of each stream at the time; page nil where it has none
	now     int64
	lead    row // which says the row's attempt and axes

	driver int // the stream of the field that is asked for, -1 for any of those that are shown
	shown  []int
	aux    []slot
	buffer []any

	condition influxql.Expr
	slots     map[string]slot // what the condition names
	valuer    influxql.ValuerEval
	function  bool // values go into a function: those that are not finite are left out
}

// slot is where a value comes from: a stream, or a tag. Neither is null.
type slot struct {
	stream int // -1: none
	as     influxql.DataType
	tag    string
}

// newSource makes the source of a group, of a condition with these names; nil where it has none of the fields in the range.
func newSource(s *session, t *table, g *group, opt query.IteratorOptions, names []influxql.VarRef, m *meter) *source {
	src := &source{session: s, group: g, opt: opt, name: t.name, meter: m, driver: -1, condition: opt.Condition}
	if opt.StripName {
		src.name = ""
	}
	open := map[string]int{}
	if ref := refOf(opt.Expr); ref != nil {
		src.function = true
		if src.driver = src.open(t, ref.Val, open); src.driver < 0 || ref.Type == influxql.Tag {
			return nil
		}
	}
	for _, ref := range opt.Aux {
		at := src.slot(t, ref, open)
		if src.aux = append(src.aux, at); at.stream >= 0 {
			src.shown = append(src.shown, at.stream)
		}
	}
	if src.driver < 0 && len(src.shown) == 0 {
		return nil
	}
	src.buffer = make([]any, len(src.aux))
	if src.condition != nil && g.settled(names, t) {
		src.condition = nil
	}
	if src.condition != nil {
		src.slots = map[string]slot{}
		for _, ref := range names {
			src.slots[ref.Val] = src.slot(t, ref, open)
		}
		src.valuer = influxql.ValuerEval{Valuer: influxql.MultiValuer(query.MathValuer{}, src)}
	}
	if axis, value, ok := g.pinned(src.condition, t); ok && !src.narrow(axis, value) {
		return nil
	}
	src.rows = make([]row, len(src.streams))
	src.setTags()
	return src
}

// narrow bounds the times to those of the rows with a value of an axis, which the store finds
// without the others; false where there are none. The condition still looks at each row.
// Where more than a page has the value, or the statement fails, the bounds stay.
func (s *source) narrow(axis model.Axis, value int64) bool {
	leads := s.shown
	if s.driver >= 0 {
		leads = []int{s.driver}
	}
	from, to := int64(math.MaxInt64), int64(math.MinInt64)
	pages := map[*stream]*store.Rows{}
	for _, at := range leads {
		st := s.streams[at]
		rows, err := s.session.rows(store.ScanRequest{Run: st.run, Series: st.series, Axis: axis, From: value, To: value, Limit: s.session.pageRows()})
		if err != nil || rows.Next != nil {
			return true
		}
		pages[st] = rows
		for _, ns := range rows.TimeNs {
			from, to = min(from, ns), max(to, ns)
		}
	}
	for _, st := range s.streams {
		st.from, st.to = max(st.from, from), min(st.to, to)
		if rows := pages[st]; rows != nil && st.from == from && st.to == to && slices.IsSorted(rows.TimeNs) {
			st.have(rows)
		}
	}
	return from <= to
}

// refOf is the field that an expression reads.
func refOf(e influxql.Expr) *influxql.VarRef {
	if call, ok := e.(*influxql.Call); ok && len(call.Args) > 0 {
		e = call.Args[0]
	}
	ref, _ := e.(*influxql.VarRef)
	return ref
}

// setTags finds the dimensions' values, as far as all rows have the same.
func (s *source) setTags() {
	values := map[string]string{}
	for _, name := range s.opt.GetDimensions() {
		value, fixed := s.group.fixed(name)
		if !fixed {
			s.varying = append(s.varying, name)
		}
		values[name] = value
	}
	s.tags = query.NewTags(values)
}

// classes are the sources of the attempts that share their dimensions, where these are no
// axes: to read once for each takes no memory. An axis has too many values for that, and few
// rows are rather held.
func (s *source) classes() []*source {
	if len(s.varying) == 0 || slices.ContainsFunc(s.varying, s.group.isAxis) || s.session.fits(s.most()) {
		return []*source{s}
	}
	var out []*source
	by := map[string]*source{}
	for _, attempt := range s.group.run.lives() {
		values := map[string]string{}
		for _, name := range s.opt.GetDimensions() {
			values[name], _ = s.group.tag(name, attempt)
		}
		tags := query.NewTags(values)
		one := by[tags.ID()]
		if one == nil {
			one = s.again()
			one.tags, one.varying, one.only = tags, nil, map[uint32]bool{}
			by[tags.ID()] = one
			out = append(out, one)
		}
		one.only[attempt] = true
	}
	return out
}

// most is how many rows there may be.
func (s *source) most() (n int64) {
	for name := range s.group.fields {
		n = max(n, int64(s.group.fields[name].count))
	}
	return n
}

// again is a source of the same rows from their start.
func (s *source) again() *source {
	one := *s
	one.streams, one.rows, one.buffer = make([]*stream, len(s.streams)), make([]row, len(s.rows)), make([]any, len(s.buffer))
	for i := range s.streams {
		fresh := *s.streams[i]
		one.streams[i] = &fresh
	}
	if s.condition != nil {
		one.valuer = influxql.ValuerEval{Valuer: influxql.MultiValuer(query.MathValuer{}, &one)}
	}
	return &one
}

// open is the place of a field's stream, -1 for a field that has no point in the range.
func (s *source) open(t *table, name string, open map[string]int) int {
	if at, ok := open[name]; ok {
		return at
	}
	open[name] = -1
	f, ok := s.group.fields[name]
	if kind := typeOf(f.kind); !ok || (kind == influxql.String) != (t.fields[name] == influxql.String) {
		return -1 // a text where other runs have numbers
	}
	if st, ok := newStream(s.session, s.group, name, s.opt.StartTime, s.opt.EndTime, !s.opt.Ascending); ok {
		open[name] = len(s.streams)
		s.streams = append(s.streams, st)
	}
	return open[name]
}

func (s *source) slot(t *table, ref influxql.VarRef, open map[string]int) slot {
	if t.isField(&ref) {
		as := ref.Type
		if as == influxql.Unknown || as == influxql.AnyField {
			as = t.fields[ref.Val]
		}
		return slot{stream: s.open(t, ref.Val, open), as: as}
	}
	return slot{stream: -1, tag: ref.Val}
}

// next goes to the next row that meets the condition; false at the end.
func (s *source) next() (bool, error) {
	for s.limit == 0 || s.count < s.limit {
		ok, err := s.step()
		if !ok || err != nil {
			return false, err
		}
		if s.only != nil && !s.only[s.group.run.life(s.lead.page.Attempt[s.lead.at])] || s.condition != nil && !s.valuer.EvalBool(s.condition) {
			continue
		}
		if s.function && !finite(s.rows[s.driver].value()) {
			s.session.skipped.Add(1)
			continue
		}
		s.count++
		return true, s.meter.take(&s.opt, s.tags.ID(), s.now, s.weight())
	}
	return false, nil
}

// weight is what the row counts where it is held: a long text counts as several points.
func (s *source) weight() int64 {
	n := 0
	for _, r := range s.rows {
		if r.page != nil && len(r.page.Values.Texts) > 0 {
			n += len(r.page.Values.Texts[r.at])
		}
	}
	return 1 + int64(n)/pointBytes
}

// step goes to the next time and takes the rows that the streams have there.
func (s *source) step() (bool, error) {
	found := false
	look := func(at int) error {
		r, ok, err := s.streams[at].peek()
		if t := timeOf(r); ok && (!found || s.before(t, s.now)) {
			s.now, s.lead, found = t, r, true
		}
		return err
	}
	if s.driver >= 0 {
		if err := look(s.driver); err != nil {
			return false, err
		}
	} else {
		for _, at := range s.shown {
			if err := look(at); err != nil {
				return false, err
			}
		}
	}
	if !found {
		return false, nil
	}
	for i, st := range s.streams {
		s.rows[i] = row{}
		for {
			r, ok, err := st.peek()
			if err != nil {
				return false, err
			}
			if t := timeOf(r); !ok || s.before(s.now, t) {
				break
			} else if st.skip(); t == s.now {
				s.rows[i] = r
				break
			}
		}
	}
	return true, nil
}

func timeOf(r row) int64 {
	if r.page == nil {
		return 0
	}
	return r.page.TimeNs[r.at]
}

func (s *source) before(a, b int64) bool {
	if s.opt.Ascending {
		return a < b
	}
	return a > b
}

// Value implements the parser's Valuer for the condition.
func (s *source) Value(name string) (any, bool) {
	if axis, ok := strings.CutPrefix(name, axisMark); ok {
		if s.group.isAxis(axis) {
			if v, ok := s.lead.axis(model.Axis(axis)); ok {
				return v, true
			}
		}
		return nil, true
	}
	at, ok := s.slots[name]
	if !ok {
		return nil, false
	}
	if at.tag != "" {
		return s.tag(at.tag), true
	}
	return s.read(at), true
}

// tag is the row's, "" where it has none.
func (s *source) tag(name string) string {
	if s.group.isAxis(name) {
		if v, ok := s.lead.axis(model.Axis(name)); ok {
			return strconv.FormatInt(v, 10)
		}
		return ""
	}
	value, _ := s.group.tag(name, s.lead.page.Attempt[s.lead.at])
	return value
}

// read is the value of a slot in the row, nil where it has none.
func (s *source) read(at slot) any {
	switch {
	case at.tag != "":
		if text := s.tag(at.tag); text != "" {
			return text
		}
		return nil
	case at.stream < 0 || s.rows[at.stream].page == nil:
		return nil
	}
	return cast(s.rows[at.stream].value(), at.as)
}

// shownValues fills the point's other columns; the slice is used again.
func (s *source) shownValues() []any {
	for i, at := range s.aux {
		s.buffer[i] = s.read(at)
	}
	return s.buffer
}

// rowTags are the tags of a row whose dimensions differ; equal ones are shared.
func (s *source) rowTags() query.Tags {
	var key strings.Builder
	for _, name := range s.varying {
		key.WriteString(s.tag(name))
		key.WriteByte(0)
	}
	if tags, ok := s.known[key.String()]; ok {
		return tags
	}
	values := maps.Clone(s.tags.KeyValues())
	for _, name := range s.varying {
		values[name] = s.tag(name)
	}
	if s.known == nil {
		s.known = map[string]query.Tags{}
	}
	tags := query.NewTags(values)
	s.known[key.String()] = tags
	return tags
}

func cast(v any, as influxql.DataType) any {
	switch v := v.(type) {
	case float64:
		switch as {
		case influxql.Integer:
			return int64(v)
		case influxql.String, influxql.Boolean:
			return nil
		}
	case int64:
		switch as {
		case influxql.Float:
			return float64(v)
		case influxql.String, influxql.Boolean:
			return nil
		}
	case string:
		if as != influxql.String && as != influxql.Unknown {
			return nil
		}
	}
	return v
}

func finite(v any) bool {
	f, ok := v.(float64)
	return !ok || !math.IsNaN(f) && !math.IsInf(f, 0)
}

// Stats and Close are of the engine's Iterator.
func (s *source) Stats() query.IteratorStats { return query.IteratorStats{} }

// Close has nothing to give back: pages belong to the statement's share.
func (s *source) Close() error { return nil }
