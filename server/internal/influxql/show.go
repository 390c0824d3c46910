package influxql

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/influxdata/influxdb/models"
	"github.com/influxdata/influxql"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/query"
	"github.com/kymogram/kymogram/server/internal/store"
)

// mostNames bounds the lines of a SHOW.
const mostNames = 100_000

// show answers what is no SELECT.
func (h *Handler) show(s *session, at place, statement influxql.Statement, out *answer) ([]*models.Row, error) {
	switch st := statement.(type) {
	case *influxql.ShowDatabasesStatement:
		return h.databases(s.ctx, at.workspace)
	case *influxql.CreateDatabaseStatement:
		if err := h.service.AllowWrite(s.ctx, at.workspace, st.Name); err != nil {
			return nil, err
		}
		out.warn("a database is a project: its first point makes it")
		return nil, nil
	case *influxql.ShowRetentionPoliciesStatement:
		if err := h.project(s.ctx, at.or(st.Database)); err != nil {
			return nil, err
		}
		return list("", []string{"name", "duration", "shardGroupDuration", "replicaN", "default"}, [][]any{{"autogen", "0s", "168h0m0s", 1, true}}), nil
	case *influxql.ShowMeasurementsStatement:
		var only influxql.Sources
		if st.Source != nil {
			only = influxql.Sources{st.Source}
		}
		return h.explore(s, at.or(st.Database), only, st.Condition, tagFilter{names: namesOf(st.Condition), lean: true}, func(e *explored) []*models.Row {
			names := e.tables(func(*table, []life) bool { return true })
			return list("measurements", []string{"name"}, window(lines(names), st.Limit, st.Offset))
		})
	case *influxql.ShowFieldKeysStatement:
		return h.explore(s, at.or(st.Database), st.Sources, nil, tagFilter{names: namesOf(nil), lean: true}, func(e *explored) []*models.Row { return e.fieldKeys(st) })
	case *influxql.ShowTagKeysStatement:
		return h.explore(s, at.or(st.Database), st.Sources, st.Condition, tagFilter{names: namesOf(st.Condition), keys: true, lean: true}, func(e *explored) []*models.Row { return e.tagKeys(st) })
	case *influxql.ShowSeriesStatement:
		return h.explore(s, at.or(st.Database), st.Sources, st.Condition, tagFilter{lean: true}, func(e *explored) []*models.Row {
			return list("", []string{"key"}, window(lines(e.series()), st.Limit, st.Offset))
		})
	case *influxql.ShowTagValuesStatement:
		var failed error
		rows, err := h.explore(s, at.or(st.Database), st.Sources, st.Condition, tagFilter{names: valueNames(st), lean: !slices.ContainsFunc(namedKeys(st), isAxisName)}, func(e *explored) (rows []*models.Row) {
			rows, failed = e.tagValues(st)
			return rows
		})
		return rows, errors.Join(err, failed)
	}
	return nil, refused(statement.String(), "see SHOW in docs/influx.md")
}

// namesOf are the tags that a condition names.
func namesOf(condition influxql.Expr, more ...string) map[string]bool {
	out := map[string]bool{}
	for _, ref := range influxql.ExprNames(condition) {
		out[ref.Val] = true
	}
	for _, name := range more {
		out[name] = true
	}
	return out
}

// valueNames are those that SHOW TAG VALUES needs, nil for all.
func valueNames(st *influxql.ShowTagValuesStatement) map[string]bool {
	named := namedKeys(st)
	if len(named) == 0 {
		return nil
	}
	return namesOf(st.Condition, named...)
}

func (p place) or(project string) place {
	if project != "" {
		p.project = project
	}
	return p
}

// list is one row of lines, none where there are no lines.
func list(name string, columns []string, values [][]any) []*models.Row {
	if len(values) == 0 {
		return nil
	}
	return []*models.Row{{Name: name, Columns: columns, Values: values}}
}

func lines(names []string) (out [][]any) {
	for _, name := range names {
		out = append(out, []any{name})
	}
	return out
}

// window is LIMIT and OFFSET.
func window[T any](list []T, limit, offset int) []T {
	list = list[min(max(offset, 0), len(list)):]
	if limit > 0 {
		list = list[:min(limit, len(list))]
	}
	return list
}

// databases are the projects of a workspace that the caller may read.
func (h *Handler) databases(ctx context.Context, workspace string) ([]*models.Row, error) {
	names, cursor, seen := []string{}, "", 0
	for more := true; more && seen < mostNames; more = cursor != "" {
		page, err := h.service.Projects(ctx, query.Page{Limit: query.MaxRuns, Cursor: cursor})
		if err != nil {
			return nil, err
		}
		for _, p := range page.Projects {
			if p.Workspace == workspace {
				names = append(names, p.Name)
			}
		}
		cursor, seen = page.Next, seen+query.MaxRuns
	}
	slices.Sort(names)
	return []*models.Row{{Name: "databases", Columns: []string{"name"}, Values: lines(names)}}, nil
}

// explored is what a SHOW looks at: the tables, and of each its series that meet the
// condition.
type explored struct {
	session   *session
	at        place
	catalogue catalogue
	condition influxql.Expr
	from, to  int64
}

// life is an attempt of a group.
type life struct {
	*group
	attempt uint32
}

// perGroup gives each group of lives its attempts, which follow one another: what is of the
// group is found once, whatever the number of its restarts.
func perGroup(lives []life, yield func(g *group, lives []life)) {
	for len(lives) > 0 {
		n := 1
		for n < len(lives) && lives[n].group == lives[0].group {
			n++
		}
		yield(lives[0].group, lives[:n])
		lives = lives[n:]
	}
}

func (h *Handler) explore(s *session, at place, sources influxql.Sources, condition influxql.Expr, tags tagFilter, show func(*explored) []*models.Row) ([]*models.Row, error) {
	for _, source := range sources {
		if m, ok := source.(*influxql.Measurement); ok && m.Database != "" {
			at.project = m.Database
		}
	}
	if err := h.project(s.ctx, at); err != nil {
		return nil, err
	}
	e := &explored{session: s, at: at, from: math.MinInt64, to: math.MaxInt64}
	rest, times, err := influxql.ConditionExpr(condition, &influxql.NowValuer{Now: h.options.Now()})
	if err != nil {
		return nil, err
	}
	e.condition = rest
	if !times.Min.IsZero() {
		e.from = times.MinTimeNano()
	}
	if !times.Max.IsZero() {
		e.to = times.MaxTimeNano()
	}
	e.catalogue, err = s.load(s.ctx, at, tags, nil, func(name, _ string) bool {
		return len(sources) == 0 || slices.ContainsFunc(sources, func(source influxql.Source) bool {
			m, ok := source.(*influxql.Measurement)
			return ok && takes(m, name)
		})
	})
	if err != nil {
		return nil, err
	}
	return show(e), nil
}

// tables are the names of those with series that meet the condition and that do takes.
func (e *explored) tables(do func(*table, []life) bool) (names []string) {
	for _, name := range e.catalogue.names() {
		t := e.catalogue[name]
		if found := e.lives(t); len(found) > 0 && do(t, found) {
			names = append(names, name)
		}
	}
	return names
}

// lives are the attempts of a table's groups that meet the condition. Axes differ from row
// to row, so that they may.
func (e *explored) lives(t *table) (out []life) {
	condition := withAxes(e.condition, t)
	for _, g := range t.groups {
		if g.maxNs < e.from || g.minNs > e.to {
			continue
		}
		for _, attempt := range g.run.lives() {
			fixed := func(name string) (string, bool) {
				if g.isAxis(name) {
					return "", false
				}
				value, _ := g.tag(name, attempt)
				return value, true
			}
			if g.may(condition, t, fixed) {
				out = append(out, life{g, attempt})
			}
		}
	}
	return out
}

func (e *explored) fieldKeys(st *influxql.ShowFieldKeysStatement) (rows []*models.Row) {
	e.tables(func(t *table, _ []life) bool {
		var values [][]any
		for _, name := range slices.Sorted(maps.Keys(t.fields)) {
			values = append(values, []any{name, t.fields[name].String()})
		}
		rows = append(rows, list(t.name, []string{"fieldKey", "fieldType"}, window(values, st.Limit, st.Offset))...)
		return true
	})
	return rows
}

func (e *explored) tagKeys(st *influxql.ShowTagKeysStatement) (rows []*models.Row) {
	e.tables(func(t *table, found []life) bool {
		names := map[string]struct{}{}
		perGroup(found, func(g *group, _ []life) { maps.Copy(names, g.tags(true)) })
		values := window(lines(slices.Sorted(maps.Keys(names))), st.Limit, st.Offset)
		rows = append(rows, list(t.name, []string{"tagKey"}, values)...)
		return true
	})
	return window(rows, st.SLimit, st.SOffset)
}

// series are the keys of all series, without axes.
func (e *explored) series() []string {
	keys := map[string]struct{}{}
	e.tables(func(t *table, found []life) bool {
		perGroup(found, func(g *group, lives []life) {
			names := g.tags(false)
			for _, one := range lives {
				tags := map[string]string{}
				for name := range names {
					if value, ok := g.tag(name, one.attempt); ok && value != "" {
						tags[name] = value
					}
				}
				keys[string(models.MakeKey([]byte(t.name), models.NewTags(tags)))] = struct{}{}
			}
		})
		return true
	})
	return slices.Sorted(maps.Keys(keys))
}

func (e *explored) tagValues(st *influxql.ShowTagValuesStatement) (rows []*models.Row, err error) {
	wanted, err := keysOf(st)
	if err != nil {
		return nil, err
	}
	e.tables(func(t *table, found []life) bool {
		pairs := map[[2]string]struct{}{}
		perGroup(found, func(g *group, lives []life) {
			for name := range g.names(st) {
				if !wanted(name) {
					continue
				}
				of := lives
				if g.isAxis(name) {
					of = lives[:1] // all attempts have their axes there
				}
				for _, one := range of {
					if err == nil {
						err = e.valuesOf(one, name, pairs)
					}
				}
			}
		})
		var values [][]any
		for _, p := range slices.SortedFunc(maps.Keys(pairs), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
			values = append(values, []any{p[0], p[1]})
		}
		rows = append(rows, list(t.name, []string{"key", "value"}, window(values, st.Limit, st.Offset))...)
		return true
	})
	return rows, err
}

// names are the tags that a statement may mean: all, or the one that it names.
func (g *group) names(st *influxql.ShowTagValuesStatement) map[string]struct{} {
	out := g.tags(true)
	for _, name := range namedKeys(st) {
		if g.hasTag(name) {
			out[name] = struct{}{}
		}
	}
	return out
}

func namedKeys(st *influxql.ShowTagValuesStatement) []string {
	switch keys := st.TagKeyExpr.(type) {
	case *influxql.ListLiteral:
		return keys.Vals
	case *influxql.StringLiteral:
		if st.Op == influxql.EQ {
			return []string{keys.Val}
		}
	}
	return nil
}

func keysOf(st *influxql.ShowTagValuesStatement) (func(string) bool, error) {
	switch keys := st.TagKeyExpr.(type) {
	case *influxql.ListLiteral:
		return func(name string) bool { return slices.Contains(keys.Vals, name) }, nil
	case *influxql.StringLiteral:
		return func(name string) bool { return (name == keys.Val) == (st.Op == influxql.EQ) }, nil
	case *influxql.RegexLiteral:
		return func(name string) bool { return keys.Val.MatchString(name) == (st.Op == influxql.EQREGEX) }, nil
	}
	return nil, fmt.Errorf("WITH KEY %s cannot be read", st.TagKeyExpr)
}

// valuesOf adds a tag's values: one of an attempt, or those of all rows for an axis.
func (e *explored) valuesOf(one life, name string, into map[[2]string]struct{}) error {
	add := func(value string) error {
		if into[[2]string{name, value}] = struct{}{}; len(into) > mostNames {
			return e.session.tooMuch("tag values", mostNames, "narrow WHERE")
		}
		return nil
	}
	if !one.isAxis(name) {
		if value, ok := one.tag(name, one.attempt); ok && value != "" {
			return add(value)
		}
		return nil
	}
	for _, f := range one.fields {
		if !f.within(e.from, e.to) {
			continue
		}
		if err := e.axisValues(one, f.series, model.Axis(name), add); err != nil {
			return err
		}
	}
	return nil
}

// axisValues reads a page, and goes on after its last value: a value costs a page at most,
// however many rows have it.
func (e *explored) axisValues(one life, series store.SeriesID, axis model.Axis, add func(string) error) error {
	for from, limit := int64(math.MinInt64), e.session.pageRows(); ; {
		rows, err := e.session.rows(store.ScanRequest{Run: one.run.id, Series: series, Axis: axis, From: from, To: math.MaxInt64, Limit: limit})
		if err != nil {
			return err
		}
		last := from
		for i := range rows.TimeNs {
			if v, ok := (row{rows, i}).axis(axis); ok && (i == 0 || v != last) {
				if last = v; add(strconv.FormatInt(v, 10)) != nil {
					return e.session.failure(nil)
				}
			}
		}
		if rows.Next == nil || last == math.MaxInt64 {
			return nil
		}
		from = last + 1
	}
}
