package storetest

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
)

// kept is the history without the points that the engine has dropped, which it may where
// a later one says the same of the same point, see [store.Reader].
func (n *naive) kept(ctx context.Context, e store.Engine) (*naive, error) {
	out := n.clone()
	for id, r := range out.runs {
		if r.deleted || len(r.series) == 0 {
			continue
		}
		list, err := listAll(ctx, e, id, 1000)
		if err != nil {
			return nil, fmt.Errorf("run %s: list: %w", id, err)
		}
		for _, listed := range list {
			s := r.series[listed.Key.String()]
			if s == nil || !r.repeats(s) {
				continue
			}
			rows, err := e.Scan(ctx, store.ScanRequest{Run: id, Series: listed.ID, Axis: model.AxisTime, From: math.MinInt64, To: math.MaxInt64, Attempts: store.Attempts{All: true}, Limit: math.MaxInt32})
			if err != nil {
				return nil, fmt.Errorf("run %s: series %q: %w", id, listed.Key, err)
			}
			if err := r.drop(s, rows); err != nil {
				return nil, fmt.Errorf("run %s: series %q: %w", id, listed.Key, err)
			}
		}
	}
	return out, nil
}

// drop takes the points out of a series that a scan of all by time lacks. It goes
// backwards: the last one to say something has to be there.
func (r *naiveRun) drop(s *naiveSeries, rows *store.Rows) error {
	want := on(s.points, way{axis: model.AxisTime})
	at := len(rows.TimeNs)
	for i := len(want) - 1; i >= 0; i-- {
		p := &want[i]
		if at > 0 && compareRows(rowOf(rows, at-1), s, want[i:i+1]) == nil {
			at--
			continue
		}
		if !slices.ContainsFunc(s.points, func(q point) bool { return r.repeated(p, &q) }) {
			return fmt.Errorf("a point at time %d is missing", p.time)
		}
		s.points = slices.DeleteFunc(s.points, func(q point) bool { return q.arrival == p.arrival })
	}
	if at > 0 {
		return fmt.Errorf("%d points too many", at)
	}
	return nil
}

// repeats: an engine may have dropped points of the series.
func (r *naiveRun) repeats(s *naiveSeries) bool {
	return slices.ContainsFunc(s.points, func(p point) bool {
		return slices.ContainsFunc(s.points, func(q point) bool { return r.repeated(&p, &q) })
	})
}

// repeated: q came later, and says what p does of the same point.
func (r *naiveRun) repeated(p, q *point) bool {
	return q.arrival > p.arrival && r.same(p, q) && p.writer == q.writer && p.attempt == q.attempt &&
		p.seq == q.seq && p.time == q.time && equalAxes(p, q) && sameNumber(p.value, q.value)
}

// rowOf is one row of a scan.
func rowOf(rows *store.Rows, i int) *store.Rows {
	out := &store.Rows{
		TimeNs: rows.TimeNs[i : i+1], Attempt: rows.Attempt[i : i+1], Writer: rows.Writer[i : i+1], Seq: rows.Seq[i : i+1],
		Values: model.Column{Series: rows.Values.Series, Kind: rows.Values.Kind},
	}
	for k, a := range rows.Axes {
		out.Axes = append(out.Axes, model.AxisColumn{Axis: a.Axis, Values: a.Values[i : i+1]})
		var has []bool
		if rows.Has[k] != nil {
			has = rows.Has[k][i : i+1]
		}
		out.Has = append(out.Has, has)
	}
	switch v := &rows.Values; v.Kind {
	case model.KindFloat:
		out.Values.Floats = v.Floats[i : i+1]
	case model.KindInt:
		out.Values.Ints = v.Ints[i : i+1]
	case model.KindText:
		out.Values.Texts = v.Texts[i : i+1]
	default:
		out.Values.Docs = v.Docs[i : i+1]
	}
	return out
}
