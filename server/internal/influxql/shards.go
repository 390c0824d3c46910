package influxql

import (
	"bytes"
	"context"
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/influxdata/influxdb/query"
	"github.com/influxdata/influxql"
)

// place is a project.
type place struct{ workspace, project string }

// mapper gives the engine what storage gives it in InfluxDB.
type mapper struct {
	session  *session
	at       place           // for measurements that name no database
	fields   map[string]bool // and tags that the statement names; nil: any
	projects map[string]catalogue
	from, to int64 // the times that the engine lets be read

	mu    sync.Mutex
	found map[*influxql.Measurement][]*table
}

// MapShards implements the engine's ShardMapper: it reads which series there are.
func (m *mapper) MapShards(sources influxql.Sources, t influxql.TimeRange, _ query.SelectOptions) (query.ShardGroup, error) {
	m.from, m.to = t.MinTimeNano(), t.MaxTimeNano()
	return m, m.prepare(sources)
}

// prepare reads the catalogues of all measurements, once.
func (m *mapper) prepare(sources influxql.Sources) error {
	if m.projects != nil {
		return nil
	}
	m.projects, m.found = map[string]catalogue{}, map[*influxql.Measurement][]*table{}
	wanted := map[string][]*influxql.Measurement{}
	m.collect(sources, wanted)
	for project, list := range wanted {
		at := place{m.at.workspace, project}
		c, err := m.session.load(m.session.ctx, at, tagFilter{names: m.fields}, metricsOf(list, m.fields), func(name, field string) bool {
			return (m.fields == nil || m.fields[field]) && slices.ContainsFunc(list, func(one *influxql.Measurement) bool { return takes(one, name) })
		})
		if err != nil {
			return err
		}
		m.projects[project] = c
	}
	return nil
}

func takes(m *influxql.Measurement, name string) bool {
	if m.Regex != nil {
		return m.Regex.Val.MatchString(name)
	}
	return m.Name == name
}

func (m *mapper) collect(sources influxql.Sources, into map[string][]*influxql.Measurement) {
	for _, source := range sources {
		switch source := source.(type) {
		case *influxql.Measurement:
			project := m.projectOf(source)
			into[project] = append(into[project], source)
		case *influxql.SubQuery:
			m.collect(source.Statement.Sources, into)
		}
	}
}

func (m *mapper) projectOf(one *influxql.Measurement) string {
	if one.Database != "" {
		return one.Database
	}
	return m.at.project
}

// tables are the measurements that a source means.
func (m *mapper) tables(one *influxql.Measurement) (out []*table) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if out, ok := m.found[one]; ok {
		return out
	}
	defer func() { m.found[one] = out }()
	c := m.projects[m.projectOf(one)]
	for _, name := range c.names() {
		if takes(one, name) {
			out = append(out, c[name])
		}
	}
	return out
}

// FieldDimensions implements the parser's FieldMapper.
func (m *mapper) FieldDimensions(one *influxql.Measurement) (fields map[string]influxql.DataType, dimensions map[string]struct{}, err error) {
	fields, dimensions = map[string]influxql.DataType{}, map[string]struct{}{}
	for _, t := range m.tables(one) {
		for name, kind := range t.fields {
			if old, ok := fields[name]; !ok || old.LessThan(kind) {
				fields[name] = kind
			}
		}
		maps.Copy(dimensions, t.shown())
	}
	if len(fields) > mostFields {
		return nil, nil, m.session.tooMuch("fields", mostFields, "name the fields instead of *")
	}
	return fields, dimensions, nil
}

// mostFields bounds what a * stands for.
const mostFields = 2_000

// MapType implements the parser's TypeMapper.
func (m *mapper) MapType(one *influxql.Measurement, name string) (as influxql.DataType) {
	for _, t := range m.tables(one) {
		if kind, ok := t.fields[name]; ok && as.LessThan(kind) {
			as = kind
		}
	}
	if as != influxql.Unknown {
		return as
	}
	for _, t := range m.tables(one) {
		if t.hasTag(name) {
			return influxql.Tag
		}
	}
	return influxql.Unknown
}

// CreateIterator implements the engine's IteratorCreator.
func (m *mapper) CreateIterator(_ context.Context, one *influxql.Measurement, opt query.IteratorOptions) (itr query.Iterator, err error) {
	defer func() {
		if p := recover(); p != nil { // it may run where nobody else would
			itr, err = nil, m.session.fail(panicked{p})
		}
	}()
	opt.StartTime, opt.EndTime = max(opt.StartTime, m.from), min(opt.EndTime, m.to)
	var all []query.Iterator
	for _, t := range m.tables(one) {
		inputs, err := m.inputs(t, opt)
		if err != nil {
			query.Iterators(all).Close()
			return nil, err
		}
		all = append(all, inputs...)
	}
	if len(all) == 0 {
		return nil, nil //nolint:nilnil // the engine's way to say: nothing
	}
	if itr, err = query.Iterators(all).Merge(opt); err != nil {
		query.Iterators(all).Close()
	}
	return itr, err
}

// IteratorCost implements the engine's IteratorCreator, for EXPLAIN.
func (m *mapper) IteratorCost(*influxql.Measurement, query.IteratorOptions) (query.IteratorCost, error) {
	return query.IteratorCost{}, nil
}

// Close implements the engine's ShardGroup.
func (m *mapper) Close() error { return nil }

// inputs are the iterators of a measurement's groups, each through the function where there
// is one.
func (m *mapper) inputs(t *table, opt query.IteratorOptions) ([]query.Iterator, error) {
	read := opt
	call, isCall := opt.Expr.(*influxql.Call)
	// The first or last point of all time is at an end of each series.
	if isCall && opt.Interval.IsZero() && (call.Name == "first" || call.Name == "last") {
		read.Limit, read.Offset = 1, 0
		read.Ascending, read.Ordered, read.Expr = call.Name == "first", true, call.Args[0]
		isCall = false
	}
	sources, err := m.open(t, read, isCall)
	if err != nil || !isCall {
		return sources, err
	}
	for i, one := range sources {
		called, err := query.NewCallIterator(query.NewInterruptIterator(one, opt.InterruptCh), opt)
		if err != nil {
			query.Iterators(sources).Close()
			return nil, err
		}
		sources[i] = called
	}
	return sources, nil
}

// open makes the iterators of a measurement's groups that may meet the condition, of the
// tag sets that SLIMIT and SOFFSET let through.
func (m *mapper) open(t *table, opt query.IteratorOptions, isCall bool) ([]query.Iterator, error) {
	opt.Condition = withAxes(opt.Condition, t)
	as := influxql.Float
	if ref := refOf(opt.Expr); ref != nil {
		if as = ref.Type; as == influxql.Unknown || as == influxql.AnyField {
			as = t.fields[ref.Val]
		}
	}
	gauge, names := &meter{session: m.session}, influxql.ExprNames(opt.Condition)
	var inputs []input
	for _, g := range t.groups {
		if g.maxNs < opt.StartTime || g.minNs > opt.EndTime || !g.may(opt.Condition, t, g.fixed) {
			continue
		}
		source := newSource(m.session, t, g, opt, names, gauge)
		if source == nil {
			continue
		}
		if opt.Limit > 0 && opt.Limit < mostRows && opt.Offset < math.MaxInt32 && !isCall && !opt.Dedupe && len(source.varying) == 0 {
			source.limit = opt.Limit + opt.Offset
		}
		for _, one := range source.classes() {
			if err := m.session.takeScan(len(one.streams)); err != nil {
				return nil, err
			}
			made, err := one.iterators(as)
			if err != nil {
				return nil, err
			}
			inputs = append(inputs, made...)
		}
	}
	return limited(inputs, opt), nil
}

// limited are the iterators of the tag sets that are wanted.
func limited(inputs []input, opt query.IteratorOptions) []query.Iterator {
	out := make([]query.Iterator, 0, len(inputs))
	if opt.SLimit == 0 && opt.SOffset == 0 {
		for _, one := range inputs {
			out = append(out, one.Iterator)
		}
		return out
	}
	by := map[string][]query.Iterator{}
	var sets []*query.TagSet
	for _, one := range inputs {
		id := one.tags.ID()
		if by[id] == nil {
			sets = append(sets, &query.TagSet{Key: []byte(id)})
		}
		by[id] = append(by[id], one.Iterator)
	}
	sortSets(sets)
	for _, set := range query.LimitTagSets(sets, opt.SLimit, opt.SOffset) {
		out = append(out, by[string(set.Key)]...)
	}
	return out
}

func sortSets(sets []*query.TagSet) {
	slices.SortFunc(sets, func(a, b *query.TagSet) int { return bytes.Compare(a.Key, b.Key) })
}
