package curve

import (
	"fmt"
	"maps"
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
type selection struct {
	table    string
	facts    *Facts
	series   []Series
	attempts store.Attempts
	survey   survey
	plain    bool
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

// query gives the columns that are asked for, and maybe more.
func (s *selection) query(columns ...string) stage {
	need := map[string]bool{}
	for _, c := range columns {
		need[c] = true
	}
	curve := !s.attempts.All && s.attempts.Number == 0
	line := lineageOf(s.facts.Attempts)
	var hide, resumed bool
	if curve && !s.plain {
		resumed = line.resumed("") != ""
		hide = line.hides() && s.survey.firstAttempt != s.survey.lastAttempt
	}
	if resumed || hide {
		for _, c := range []string{"has", "attempt", string(model.Axes()[step]), string(model.Axes()[rlStep])} {
			need[c] = true
		}
	}
	if hide {
		s.needPlace(need)
	}
	condition := []string{s.facts.stored(s.series), s.narrow}
	if s.attempts.Number != 0 && !s.attempts.All {
		condition = append(condition, fmt.Sprintf("attempt = %d", s.attempts.Number))
	}
	at := stage{from: s.table, where: all(condition...)}
	if keys := s.identity(); len(keys) > 0 && !s.attempts.All {
		at = s.unique(at, keys, slices.Sorted(maps.Keys(need)))
	}
	if resumed {
		at.where = all(at.where, line.resumed(at.names))
	}
	if hide {
		at = best(at, "b_", s.place(at.names), slices.Sorted(maps.Keys(need)), line.rank(at.names), line.hidingRank(at.names))
	}
	return at
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
	case s.plain || v.sole(model.UniqueAxes) && v.some == 0:
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

// needPlace adds the columns of [selection.place].
func (s *selection) needPlace(need map[string]bool) { needPlace(need, &s.survey, len(s.series) > 1) }

func (s *selection) place(n names) []string { return place(n, &s.survey, len(s.series) > 1) }

func needPlace(need map[string]bool, v *survey, many bool) {
	need["has"], need["arrival"] = true, true
	for _, a := range (v.some | 1<<step).names() {
		need[string(a)] = true
	}
	if many {
		need["series"] = true
	}
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
