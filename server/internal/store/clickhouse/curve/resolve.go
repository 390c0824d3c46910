package curve

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
)

// selection is a set of points of one run: those that a read is about, before the range and the
// order that it asks for. Its query goes in stages, each around the one before:
//
//	stored   the committed rows
//	unique   the latest of each point
//	hidden   less those that later attempts hide
//
// The two last are for the disputed rows alone, see [shape].
type selection struct {
	table    string
	facts    *Facts
	line     lineage
	series   []Series
	shapes   []shape // of the series; they have one form
	attempts store.Attempts
	survey   survey
	narrow   string // of stored rows; only where no row outside replaces one inside
}

// stage is what a query can read from: its columns have a prefix. A query inside a query costs
// ClickHouse 18.16 twice the time to understand it, so that a stage is no query of its own where
// it can be a part of the next one.
type stage struct {
	names
	from  string
	where string
}

// source is the text behind SELECT … FROM, for rows with some more conditions.
func (s *stage) source(conditions ...string) string {
	return s.from + " WHERE " + all(append([]string{s.where}, conditions...)...)
}

// selection is the curves of some series, or what attempts wrote of them.
func (r *Reader) selection(f *Facts, list []Series, attempts store.Attempts) *selection {
	out := &selection{table: r.place(f), facts: f, line: lineageOf(f.Attempts), series: list, attempts: attempts}
	for i := range list {
		out.shapes = append(out.shapes, shapeOf(&list[i], out.line, attempts.Number))
	}
	return out
}

// selections are the curves of some series, of one form each. Series without a point are left out.
func (r *Reader) selections(f *Facts, list []Series, surveys map[store.SeriesID]survey) (out []*selection) {
	if len(f.Spans) == 0 {
		return nil
	}
	whole := r.selection(f, list, store.Attempts{})
	for _, of := range []form{byRules, byStep, byTime} {
		part := *whole
		part.series, part.shapes = nil, nil
		for i, s := range list {
			if v, has := surveys[s.ID]; has && whole.shapes[i].form == of {
				part.series, part.shapes = append(part.series, s), append(part.shapes, whole.shapes[i])
				part.survey.join(v)
			}
		}
		if len(part.series) > 0 {
			out = append(out, &part)
		}
	}
	return out
}

// query gives the columns that are asked for, and maybe more.
func (s *selection) query(columns ...string) stage {
	condition := []string{s.facts.stored(s.series), s.narrow}
	if s.attempts.Number != 0 && !s.attempts.All {
		condition = append(condition, fmt.Sprintf("attempt = %d", s.attempts.Number))
	}
	at := stage{from: s.table, where: all(condition...)}
	if s.attempts.All {
		return at
	}
	resumed := func(at stage) stage { return at }
	if s.cut() {
		resumed = func(at stage) stage { at.where = all(at.where, s.line.resumed(at.names, &s.survey)); return at }
		columns = append(columns, "has", "attempt", string(model.Axes()[step]), string(model.Axes()[rlStep]))
	}
	where := s.disputed()
	if where != none && s.hide() {
		columns = append(columns, "has", "attempt")
		columns = append(columns, placeColumns(&s.survey, len(s.series) > 1)...)
	}
	columns = distinct(columns)
	return split(at, where, columns, resumed, func(at stage) stage {
		if keys := s.identity(); len(keys) > 0 {
			at = s.unique(at, keys, columns)
		}
		if at = resumed(at); s.hide() {
			at = best(at, "b_", place(at.names, &s.survey, len(s.series) > 1), columns, s.line.rank(at.names), s.line.hidingRank(at.names))
		}
		return at
	})
}

// Conditions that all rows meet, or none.
const (
	every = "1"
	none  = "0"
)

// split does one thing with the rows of a table where a condition holds, and another with the others.
func split(at stage, where string, columns []string, outside, inside func(stage) stage) stage {
	switch where {
	case none:
		return outside(at)
	case every:
		return inside(at)
	}
	out, in := at, at
	out.where, in.where = all(at.where, "NOT ("+where+")"), all(at.where, where)
	return union("s_", columns, outside(out), inside(in))
}

// union has the rows of all parts.
func union(prefix names, columns []string, parts ...stage) stage {
	list := joinedWith(parts, " UNION ALL ", func(at stage) string {
		return "SELECT " + joined(columns, func(c string) string { return at.of(c) + " AS " + prefix.of(c) }) + " FROM " + at.source()
	})
	return stage{prefix, "(" + list + ")", "1"}
}

func distinct(columns []string) []string {
	out := slices.Clone(columns)
	slices.Sort(out)
	return slices.Compact(out)
}

func (s *selection) curve() bool { return !s.attempts.All && s.attempts.Number == 0 }

func (s *selection) clean() bool {
	return !slices.ContainsFunc(s.shapes, func(h shape) bool { return !h.clean() })
}

// cut: later attempts may cut off some rows.
func (s *selection) cut() bool {
	return s.curve() && len(s.line.cuts()) > 0 && slices.ContainsFunc(s.shapes, func(h shape) bool { return h.cut })
}

// whole: every stored row counts.
func (s *selection) whole() bool {
	return s.attempts.All || s.clean() && !s.cut() && (s.curve() || s.survey.firstAttempt == s.survey.lastAttempt)
}

// resolved is about how many points of a series are disputed.
func (s *selection) resolved() (n uint64) {
	switch {
	case s.attempts.All || s.clean():
		return 0
	case s.shapes[0].form == byRules:
		return s.survey.count
	}
	for _, i := range s.shapes[0].disputed {
		n += min(uint64(i.To-i.From), s.survey.count)
	}
	return min(n*uint64(len(s.series[0].Streams)), s.survey.count)
}

// hide: later attempts may hide rows at their own steps.
func (s *selection) hide() bool {
	return s.curve() && s.line.hides() && s.survey.firstAttempt != s.survey.lastAttempt
}

// disputed is a condition for stored rows that may be superseded by others like them.
func (s *selection) disputed() string {
	switch x := s.x(); {
	case s.clean():
		return none
	case s.shapes[0].form == byRules:
		return every
	case len(s.series) == 1:
		return joinedWith(s.shapes[0].disputed, " OR ", func(i Interval) string { return i.holds(x) })
	default:
		return s.disputedHulls(x)
	}
}

// x is what disputed rows are found by.
func (s *selection) x() string {
	if s.shapes[0].form == byTime {
		return names("").x(-1)
	}
	return names("").axis(step)
}

// disputedHulls is for many series: one interval of each.
func (s *selection) disputedHulls(x string) string {
	ids, from, to := []uint32{}, []int64{}, []int64{}
	for i, h := range s.shapes {
		if n := len(h.disputed); n > 0 {
			ids, from, to = append(ids, uint32(s.series[i].ID)), append(from, h.disputed[0].From), append(to, h.disputed[n-1].To)
		}
	}
	of := func(places []int64, otherwise int64) string {
		return fmt.Sprintf("transform(series, %s, %s, %s)", array("UInt32", ids), array("Int64", places), integer(otherwise))
	}
	return fmt.Sprintf("%s BETWEEN %s AND %s", x, of(from, math.MaxInt64), of(to, math.MinInt64))
}

// holds is true for an expression inside.
func (i Interval) holds(x string) string {
	return fmt.Sprintf("%s BETWEEN %s AND %s", x, integer(i.From), integer(i.To))
}

// unique keeps the latest row of each key.
func (s *selection) unique(at stage, keys, columns []string) stage {
	const prefix names = "u_"
	list := joined(columns, func(c string) string {
		switch {
		case c == "arrival":
			return "max(arrival) AS " + prefix.of(c)
		case slices.Contains(keys, quote(c)):
			return quote(c) + " AS " + prefix.of(c)
		}
		return "argMax(" + quote(c) + ", arrival) AS " + prefix.of(c)
	})
	return stage{prefix, "(SELECT " + list + " FROM " + at.source() + " GROUP BY " + strings.Join(keys, ", ") + ")", "1"}
}

// best keeps, of the rows of each place, those whose rank is not below the highest bar.
func best(at stage, prefix names, place, columns []string, rank, bar string) stage {
	gathered := "g" + prefix
	arrays := joined(columns, func(c string) string { return "groupArray(" + at.of(c) + ") AS " + gathered.of(c) })
	parts := joined(columns, func(c string) string { return gathered.of(c) + " AS " + prefix.of(c) })
	return stage{
		prefix,
		fmt.Sprintf("(SELECT %s, groupArray(%s) AS %s, max(%s) AS %s FROM %s GROUP BY %s) ARRAY JOIN %s, %s AS %s",
			arrays, rank, gathered.of("rank"), bar, gathered.of("bar"), at.source(), strings.Join(place, ", "), parts, gathered.of("rank"), prefix.of("rank")),
		prefix.of("rank") + " >= " + gathered.of("bar"),
	}
}

// identity are expressions that are equal for rows which are the same point; none when no two
// rows are.
func (s *selection) identity() []string {
	v := &s.survey
	var keys []string
	if len(s.series) > 1 {
		keys = []string{quote("series")}
	}
	switch {
	case v.sole(model.UniqueAxes) && v.some == 0:
		return nil
	case v.sole(model.UniqueTime):
		return append(keys, quote("time"))
	case v.sole(model.UniqueStep) && v.every.has(step):
		return append(keys, names("").axis(step))
	case v.sole(model.UniqueAxes) && v.some == v.every:
		for _, a := range v.some.names() {
			keys = append(keys, quote(string(a)))
		}
		return append(keys, s.origin("1")...)
	}
	return append(keys, s.anyIdentity()...)
}

// anyIdentity is for points of all rules and axes.
func (s *selection) anyIdentity() []string {
	var n names
	byAxes := fmt.Sprintf("rule = %d AND has != 0", model.UniqueAxes)
	alone := fmt.Sprintf("rule = %d AND has = 0 OR rule = %d AND bitAnd(has, 1) = 0", model.UniqueAxes, model.UniqueStep)
	keys := []string{
		"rule",
		fmt.Sprintf("if(%s, arrival, toUInt64(0))", alone),
		fmt.Sprintf("if(rule = %d, time, toInt64(0))", model.UniqueTime),
		fmt.Sprintf("if(%s, has, toUInt16(bitAnd(has, 1) * (rule = %d)))", byAxes, model.UniqueStep),
	}
	for i := range model.Axes() {
		if !s.survey.some.has(i) {
			continue
		}
		counts := byAxes
		if i == step {
			counts += fmt.Sprintf(" OR rule = %d", model.UniqueStep)
		}
		keys = append(keys, fmt.Sprintf("if(%s, %s, toInt64(0))", counts, n.axis(i)))
	}
	return append(keys, s.origin(byAxes)...)
}

// origin are expressions that are equal for rows of one writer, or inside an attempt of writers
// with one logger id, where the condition holds. The attempt counts, because points of two are
// not the same.
func (s *selection) origin(where string) (out []string) {
	if s.survey.firstAttempt != s.survey.lastAttempt {
		out = append(out, fmt.Sprintf("if(%s, attempt, toUInt32(0))", where))
	}
	if !s.survey.writers {
		return out
	}
	logged, logger := "logged", "logger"
	for _, p := range s.facts.Pinned {
		is, id, pinned := "writer = "+bytes16(p.Writer), uint64(0), 0
		if p.Logger != nil {
			id, pinned = *p.Logger, 1
		}
		logged = fmt.Sprintf("if(%s, toUInt8(%d), %s)", is, pinned, logged)
		logger = fmt.Sprintf("if(%s, toUInt64(%d), %s)", is, id, logger)
	}
	none := bytes16([16]byte{})
	return append(out,
		fmt.Sprintf("if(%s, %s, toUInt8(0))", where, logged),
		fmt.Sprintf("if((%s) AND %s = 1, %s, toUInt64(0))", where, logged, logger),
		fmt.Sprintf("if((%s) AND %s = 0, writer, %s)", where, logged, none))
}

// placeColumns are those of [place].
func placeColumns(v *survey, many bool) []string {
	out := []string{"has", "arrival"}
	for _, a := range (v.some | 1<<step).names() {
		out = append(out, string(a))
	}
	if many {
		out = append(out, "series")
	}
	return out
}

// place are expressions that are equal for rows that meet as points of two attempts do: at one
// step, of RL at equal axes. A row without a step has a place of its own.
func place(n names, v *survey, many bool) (out []string) {
	if many {
		out = append(out, n.of("series"))
	}
	if v.some&ofRL == 0 && v.every.has(step) {
		return append(out, n.axis(step))
	}
	out = append(out,
		fmt.Sprintf("if(%s, toUInt64(0), %s)", n.on(1<<step), n.of("arrival")),
		fmt.Sprintf("if(%s, if(%s, %s, toUInt16(1)), toUInt16(0))", n.on(1<<step), n.on(ofRL), n.of("has")),
		fmt.Sprintf("if(%s, %s, toInt64(0))", n.on(1<<step), n.axis(step)))
	for i := range model.Axes() {
		if i != step && v.some.has(i) {
			out = append(out, fmt.Sprintf("if(%s AND %s, %s, toInt64(0))", n.on(1<<step), n.on(ofRL), n.axis(i)))
		}
	}
	return out
}
