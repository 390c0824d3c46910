package curve_test

import (
	"bytes"
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse/curve"
)

// point is a committed point.
type point struct {
	axes    map[model.Axis]int64
	time    int64
	writer  model.WriterID
	attempt uint32
	seq     uint64
	arrival uint64
	rule    model.Uniqueness
	value   store.Number
	depth   uint32
}

// history is a run as the ledger has it, with the points that are committed: the rules of package
// store, looked at for all pairs of points.
type history struct {
	facts   curve.Facts
	series  []curve.Series
	points  map[store.SeriesID][]point
	loggers map[model.WriterID]*uint64
}

// ledger is the source of some histories.
type ledger map[model.RunID]*history

func (l ledger) Facts(_ context.Context, run model.RunID) (curve.Facts, error) {
	if l[run] == nil {
		return curve.Facts{}, model.Errorf(model.CodeNotFound, "no run %s", run)
	}
	return l[run].facts, nil
}

func (l ledger) SeriesPage(_ context.Context, run model.RunID, f store.SeriesFilter) (out []curve.Series, more bool, err error) {
	if l[run] == nil {
		return nil, false, model.Errorf(model.CodeNotFound, "no run %s", run)
	}
	list := slices.SortedFunc(slices.Values(l[run].series), func(a, b curve.Series) int { return cmp.Compare(a.Text, b.Text) })
	for _, s := range list {
		if s.Text <= f.After || f.Match != nil && !f.Match(s.Key) || f.Metric != "" && s.Key.Metric != f.Metric || len(f.Kinds) > 0 && !slices.Contains(f.Kinds, s.Kind) {
			continue
		}
		if len(out) == f.Limit {
			return out, true, nil
		}
		out = append(out, s)
	}
	return out, false, nil
}

func (l ledger) Series(_ context.Context, run model.RunID, ids []store.SeriesID) (out []curve.Series, err error) {
	if l[run] == nil {
		return nil, model.Errorf(model.CodeNotFound, "no run %s", run)
	}
	for _, s := range l[run].series {
		if slices.Contains(ids, s.ID) {
			out = append(out, s)
		}
	}
	return out, nil
}

// streams are what a ledger would tell of a series, from all pairs of points.
func (h *history) streams(id store.SeriesID) (out []curve.Stream) {
	for _, p := range h.points[id] {
		at := slices.IndexFunc(out, func(s curve.Stream) bool { return s.Writer == p.writer && s.Attempt == p.attempt })
		if at >= 0 {
			continue
		}
		points := slices.DeleteFunc(slices.Clone(h.points[id]), func(q point) bool { return q.writer != p.writer || q.attempt != p.attempt })
		out = append(out, curve.Stream{Writer: p.writer, Attempt: p.attempt, Logger: h.loggers[p.writer], Tally: tally(points)})
	}
	return out
}

func tally(points []point) (t curve.Tally) {
	t.Every, t.MinTime, t.MaxTime = math.MaxUint16, points[0].time, points[0].time
	var last *point
	for i := range points {
		p, has := &points[i], uint16(0)
		for k, a := range model.Axes() {
			if _, ok := p.axes[a]; ok {
				has |= 1 << k
			}
		}
		if x := p.axes[model.AxisStep]; p.stepped() && t.Some&1 == 0 {
			t.Low, t.High = x, x
		} else if p.stepped() {
			t.Low, t.High = min(t.Low, x), max(t.High, x)
		}
		t.Count++
		t.Rules |= 1 << p.rule
		t.Some, t.Every = t.Some|has, t.Every&has
		t.MinTime, t.MaxTime = min(t.MinTime, p.time), max(t.MaxTime, p.time)
		if last == nil || last.before(p) {
			last = p
		}
	}
	for i := range points {
		x := points[i].of(t.Rules)
		for k := range i {
			switch y := points[k].of(t.Rules); {
			case y < x:
			case t.Again == nil:
				t.Again = &curve.Interval{From: x, To: x}
			default:
				*t.Again = curve.Interval{From: min(t.Again.From, x), To: max(t.Again.To, x)}
			}
		}
	}
	t.End = curve.End{Step: last.axes[model.AxisStep], Time: last.time, Seq: last.seq, Arrival: last.arrival, Value: math.Float64bits(last.value.Float) | uint64(last.value.Int)}
	return t
}

// of is what points are told apart by.
func (p *point) of(rules uint8) int64 {
	if x, ok := p.axes[model.AxisStep]; ok && rules>>model.UniqueTime&1 == 0 {
		return x
	}
	return p.time
}

// before: of one writer, q is behind p.
func (p *point) before(q *point) bool {
	if p.stepped() != q.stepped() {
		return q.stepped()
	}
	return cmp.Or(cmp.Compare(p.axes[model.AxisStep], q.axes[model.AxisStep]), cmp.Compare(p.time, q.time), cmp.Compare(p.seq, q.seq), cmp.Compare(p.arrival, q.arrival)) < 0
}

func (h *history) same(p, q *point) bool {
	if p.rule != q.rule {
		return false
	}
	switch p.rule {
	case model.UniqueTime:
		return p.time == q.time
	case model.UniqueStep:
		return p.stepped() && q.stepped() && p.axes[model.AxisStep] == q.axes[model.AxisStep]
	}
	a, b := h.loggers[p.writer], h.loggers[q.writer]
	sameWriter := p.writer == q.writer || a != nil && b != nil && *a == *b
	return len(p.axes) > 0 && p.attempt == q.attempt && sameWriter && equalAxes(p, q)
}

func (p *point) stepped() bool { _, ok := p.axes[model.AxisStep]; return ok }

func equalAxes(p, q *point) bool {
	for _, a := range model.Axes() {
		x, has := p.axes[a]
		y, also := q.axes[a]
		if has != also || x != y {
			return false
		}
	}
	return true
}

func (h *history) unique(points []point) (out []point) {
	for i := range points {
		if !slices.ContainsFunc(points, func(q point) bool { return q.arrival > points[i].arrival && h.same(&points[i], &q) }) {
			out = append(out, points[i])
		}
	}
	return out
}

func (h *history) attempt(number uint32) model.Attempt {
	at := slices.IndexFunc(h.facts.Attempts, func(a model.Attempt) bool { return a.Number == number })
	return h.facts.Attempts[at]
}

func (h *history) later(a, b uint32) bool {
	x, y := h.attempt(a), h.attempt(b)
	return x.Precedence > y.Precedence || x.Precedence == y.Precedence && x.Number > y.Number
}

func (p *point) rl() bool {
	return slices.ContainsFunc([]model.Axis{model.AxisRLStep, model.AxisEpisode, model.AxisEnvStep}, func(a model.Axis) bool { _, ok := p.axes[a]; return ok })
}

// cut is the axis of ResumeFrom and of forks.
func (p *point) cut() int64 {
	if at, ok := p.axes[model.AxisRLStep]; ok {
		return at
	}
	return p.axes[model.AxisStep]
}

// meets: the points are at one place, as attempts and forks see it.
func (p *point) meets(q *point) bool {
	switch {
	case !p.stepped() || !q.stepped() || p.rl() != q.rl():
		return false
	case p.rl():
		return equalAxes(p, q)
	}
	return p.axes[model.AxisStep] == q.axes[model.AxisStep]
}

func (h *history) hidden(p *point, points []point) bool {
	for _, a := range h.facts.Attempts {
		if a.ResumeFrom != nil && h.later(a.Number, p.attempt) && p.stepped() && p.cut() >= *a.ResumeFrom {
			return true
		}
	}
	return slices.ContainsFunc(points, func(q point) bool {
		return h.later(q.attempt, p.attempt) && h.attempt(q.attempt).ResumeFrom == nil && p.meets(&q)
	})
}

func (h *history) curve(id store.SeriesID) (out []point) {
	points := h.unique(h.points[id])
	for i := range points {
		if !h.hidden(&points[i], points) {
			out = append(out, points[i])
		}
	}
	return out
}

func (h *history) selected(id store.SeriesID, sel store.Attempts) []point {
	switch {
	case sel.All:
		return slices.Clone(h.points[id])
	case sel.Number == 0:
		return h.curve(id)
	}
	return h.unique(slices.DeleteFunc(slices.Clone(h.points[id]), func(p point) bool { return p.attempt != sel.Number }))
}

// line is the curve of a series with what it inherits.
func (l ledger) line(q store.CurveRequest) (out []point) {
	if !q.Run.IsZero() {
		out = l[q.Run].curve(q.Series)
	}
	for i, a := range q.Ancestors {
		var mine []point
		for _, p := range l[a.Run].curve(a.Series) {
			p.depth = uint32(i + 1)
			if p.stepped() && p.cut() <= a.UpTo && !slices.ContainsFunc(out, func(q point) bool { return p.meets(&q) }) {
				mine = append(mine, p)
			}
		}
		out = append(out, mine...)
	}
	return out
}

func (p *point) x(axis model.Axis, gaps bool) (int64, bool) {
	if axis == model.AxisTime {
		return p.time, true
	}
	x, ok := p.axes[axis]
	if !ok && gaps {
		return math.MinInt64, true
	}
	return x, ok
}

// along are the points on an axis, in the order of a scan.
func along(points []point, axis model.Axis, gaps bool) (out []point) {
	for _, p := range points {
		if _, ok := p.x(axis, gaps); ok {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(p, q point) int {
		px, _ := p.x(axis, gaps)
		qx, _ := q.x(axis, gaps)
		order := cmp.Compare(px, qx)
		if axis == model.AxisEpisode {
			ps, _ := p.x(model.AxisStep, true)
			qs, _ := q.x(model.AxisStep, true)
			order = cmp.Or(order, cmp.Compare(ps, qs))
		}
		return cmp.Or(order, cmp.Compare(p.time, q.time), bytes.Compare(p.writer[:], q.writer[:]), cmp.Compare(p.seq, q.seq), cmp.Compare(p.arrival, q.arrival), cmp.Compare(p.depth, q.depth))
	})
	return out
}
