package curve

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

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

// line looks up what a request names. The survey's ends are along the axis.
func (r *Reader) line(ctx context.Context, q store.CurveRequest, attempts store.Attempts, along stretch) (*line, error) {
	out := &line{fork: len(q.Ancestors) > 0}
	if out.fork && attempts != (store.Attempts{}) {
		return nil, model.Errorf(model.CodeInvalid, "only a curve inherits, not an attempt")
	}
	if !q.Run.IsZero() {
		if err := r.addPart(ctx, out, store.Ancestor{Run: q.Run, Series: q.Series}, 0, attempts, along); err != nil {
			return nil, err
		}
	}
	for i, a := range q.Ancestors {
		if err := r.addPart(ctx, out, a, uint32(i+1), attempts, along); err != nil {
			return nil, err
		}
	}
	if len(out.parts) == 0 {
		return nil, model.Errorf(model.CodeInvalid, "the curve is of no run")
	}
	return out, nil
}

func (r *Reader) addPart(ctx context.Context, to *line, a store.Ancestor, depth uint32, attempts store.Attempts, along stretch) error {
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
	p := part{selection: selection{table: r.place(&facts), facts: &facts, series: []Series{series}, attempts: attempts, plain: series.Plain, survey: plainSurvey()}, depth: depth, upTo: a.UpTo}
	if !p.plain {
		found, err := r.surveys(ctx, &facts, p.series, along)
		if err != nil {
			return err
		}
		p.survey = found[series.ID]
	}
	to.survey.join(p.survey)
	to.parts = append(to.parts, p)
	return nil
}

// query is the points of the line, those in a stretch and maybe others.
func (l *line) query(along stretch, columns ...string) stage {
	for i := range l.parts {
		p := &l.parts[i]
		if p.narrow = ""; p.narrowable(along.axis, l.fork) {
			p.narrow = along.within("")
		}
	}
	if !l.fork {
		return l.parts[0].query(columns...)
	}
	need := map[string]bool{string(model.Axes()[step]): true, string(model.Axes()[rlStep]): true}
	for _, c := range columns {
		need[c] = true
	}
	needPlace(need, &l.survey, false)
	list := slices.Sorted(maps.Keys(need))
	const prefix names = "f_"
	var union []string
	for i := range l.parts {
		p := &l.parts[i]
		at := p.query(list...)
		inherited := "1"
		if p.depth > 0 {
			inherited = all(at.on(1<<step), at.cut()+" <= "+integer(p.upTo))
		}
		union = append(union, fmt.Sprintf("SELECT %s, %s AS f_depth FROM %s",
			joined(list, func(c string) string { return at.of(c) + " AS " + prefix.of(c) }), number32(p.depth), at.source(inherited)))
	}
	at := stage{prefix, "(" + strings.Join(union, " UNION ALL ") + ")", "1"}
	rank := fmt.Sprintf("toUInt32(%d - f_depth)", math.MaxUint32)
	return best(at, "n_", place(prefix, &l.survey, false), append(list, "depth"), rank, rank)
}

// narrowable: no point that is off a stretch of the axis replaces one in it.
func (p *part) narrowable(axis int, fork bool) bool {
	v := &p.survey
	switch {
	case p.attempts.All:
		return true
	case axis < 0:
		return !fork && (p.plain || v.sole(model.UniqueTime) && v.firstAttempt == v.lastAttempt)
	case v.rules>>model.UniqueTime&1 == 1:
		return false
	case axis == step:
		return true
	}
	return ofRL.has(axis) && v.rules>>model.UniqueStep&1 == 0
}
