package curve

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
)

// line is what a read of one series is about: the series with what it inherits.
type line struct {
	series Series // the run's own, or the nearest ancestor's
	parts  []part // nearest first
	fork   bool
	survey survey // of all parts
}

// part is one run's part of a line.
type part struct {
	selection
	depth uint32 // 0: the run itself
	upTo  int64  // of an ancestor
}

// line looks up what a request names.
func (r *Reader) line(ctx context.Context, q store.CurveRequest, attempts store.Attempts) (*line, error) {
	out := &line{fork: len(q.Ancestors) > 0}
	if out.fork && attempts != (store.Attempts{}) {
		return nil, model.Errorf(model.CodeInvalid, "only a curve inherits, not an attempt")
	}
	if !q.Run.IsZero() {
		if err := r.addPart(ctx, out, store.Ancestor{Run: q.Run, Series: q.Series}, 0, attempts); err != nil {
			return nil, err
		}
	}
	for i, a := range q.Ancestors {
		if err := r.addPart(ctx, out, a, uint32(i+1), attempts); err != nil {
			return nil, err
		}
	}
	if len(out.parts) == 0 {
		return nil, model.Errorf(model.CodeInvalid, "the curve is of no run")
	}
	return out, nil
}

func (r *Reader) addPart(ctx context.Context, to *line, a store.Ancestor, depth uint32, attempts store.Attempts) error {
	facts, err := r.source.Facts(ctx, a.Run)
	if err != nil {
		return fmt.Errorf("read what run %s has: %w", a.Run, err)
	}
	series, err := r.one(ctx, a.Run, a.Series)
	if err != nil {
		return err
	}
	if len(to.parts) == 0 {
		to.series = series
	} else if first := to.series; series.Kind != first.Kind || series.Text != first.Text {
		return model.Errorf(model.CodeInvalid, "series %s of run %s is not the one that it inherits", first.Key.Metric, to.parts[0].facts.Run)
	}
	list := []Series{series}
	surveys, err := r.surveyed(ctx, &facts, list)
	if err != nil {
		return err
	}
	p := part{selection: *r.selection(&facts, list, attempts), depth: depth, upTo: a.UpTo}
	p.survey = surveys[series.ID]
	to.survey.join(p.survey)
	to.parts = append(to.parts, p)
	return nil
}

// query is the points of the line, those in a stretch and maybe others.
func (l *line) query(along stretch, columns ...string) stage {
	at := stage{where: every} // of stored rows
	if l.narrowable(along.axis) {
		at.where = along.within("")
	}
	if !l.fork {
		l.parts[0].narrow = at.where
		return l.parts[0].query(columns...)
	}
	where := l.disputed()
	if where != none && !l.narrowable(step) {
		where = every
	}
	columns = distinct(slices.Concat(columns, []string{"has", string(model.Axes()[step]), string(model.Axes()[rlStep])}, placeColumns(&l.survey, false)))
	joint := slices.Concat(columns, []string{"depth"})
	rank := fmt.Sprintf("toUInt32(%d - f_depth)", math.MaxUint32)
	outside := func(at stage) stage { return l.union(at.where, columns) }
	return split(at, where, joint, outside, func(at stage) stage {
		return best(outside(at), "n_", place("f_", &l.survey, false), joint, rank, rank)
	})
}

// union has the points of all parts, the same one of several maybe. The condition is for stored
// rows.
func (l *line) union(narrow string, columns []string) stage {
	list := joinedWith(l.parts, " UNION ALL ", func(p part) string {
		p.narrow = narrow
		at, inherited := p.query(columns...), every
		if p.depth > 0 {
			inherited = all(at.on(1<<step), at.cut()+" <= "+integer(p.upTo))
		}
		return fmt.Sprintf("SELECT %s, %s AS f_depth FROM %s",
			joined(columns, func(c string) string { return at.of(c) + " AS " + names("f_").of(c) }), number32(p.depth), at.source(inherited))
	})
	return stage{"f_", "(" + list + ")", every}
}

// disputed is a condition for the steps that several runs have.
func (l *line) disputed() string {
	var lanes []lane
	for i := range l.parts {
		p := &l.parts[i]
		if !p.series[0].Known {
			return every
		}
		for _, n := range p.series[0].lanes(p.line, 0, false) {
			if p.depth > 0 && p.upTo < math.MaxInt64 {
				n.shorten(p.upTo + 1)
			}
			if n.part = p.depth; axes(n.Some).has(step) {
				lanes = append(lanes, n)
			}
		}
	}
	list := merged(across(lanes, func(n *lane) uint32 { return n.part }))
	if len(list) == 0 {
		return none
	}
	return joinedWith(list, " OR ", func(i Interval) string { return i.holds(names("").axis(step)) })
}

// narrowable: no point that is off a stretch of the axis replaces one in it.
func (l *line) narrowable(axis int) bool {
	return !slices.ContainsFunc(l.parts, func(p part) bool { return !p.narrowable(axis, l.fork) })
}

func (p *part) narrowable(axis int, fork bool) bool {
	v := &p.survey
	switch {
	case p.attempts.All:
		return true
	case axis < 0:
		return !fork && (p.clean() || v.sole(model.UniqueTime) && v.firstAttempt == v.lastAttempt)
	case v.rules>>model.UniqueTime&1 == 1:
		return false
	case axis == step:
		return true
	}
	return ofRL.has(axis) && v.rules>>model.UniqueStep&1 == 0
}
