package local

import (
	"context"
	"iter"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/local/curve"
)

// selectList is how many series of a run are looked up at once.
const selectList = 1_000

// Select implements [store.Selector].
func (e *Engine) Select(ctx context.Context, q store.SelectRequest) iter.Seq2[store.Selected, error] {
	return func(yield func(store.Selected, error) bool) {
		for _, run := range q.Runs {
			for piece, err := range e.selectRun(ctx, run, &q) {
				if err != nil && model.CodeOf(err) == model.CodeNotFound {
					break // deleted, or without a point yet
				}
				if !yield(piece, err) || err != nil {
					return
				}
			}
		}
	}
}

func (e *Engine) selectRun(ctx context.Context, run model.RunID, q *store.SelectRequest) iter.Seq2[store.Selected, error] {
	return func(yield func(store.Selected, error) bool) {
		filter := store.SeriesFilter{Match: q.Match, Metric: q.Metric, Limit: selectList}
		for more := true; more; {
			var list []store.Series
			var err error
			list, more, err = e.table.List(ctx, run, filter)
			if err != nil {
				yield(store.Selected{}, err)
				return
			}
			for i := range list {
				s := &list[i]
				if s.MaxTimeNs < q.From || s.MinTimeNs > q.To || s.Last == nil || q.Numeric && !numeric(s.Kind) {
					continue
				}
				for rows, err := range e.selectSeries(ctx, run, s, q) {
					if !yield(store.Selected{Run: run, Series: s, Rows: rows}, err) || err != nil {
						return
					}
				}
			}
			if more {
				filter.After = list[len(list)-1].Key.String()
			}
		}
	}
}

func numeric(kind model.Kind) bool { return kind == model.KindFloat || kind == model.KindInt }

func (e *Engine) selectSeries(ctx context.Context, run model.RunID, s *store.Series, q *store.SelectRequest) iter.Seq2[*store.Rows, error] {
	return func(yield func(*store.Rows, error) bool) {
		// The last by step is the latest as a rule; then nothing has to be read.
		if q.Last && numeric(s.Kind) && s.Last.TimeNs == s.MaxTimeNs && s.MaxTimeNs <= q.To {
			yield(end(s), nil)
			return
		}
		scan := store.ScanRequest{Run: run, Series: s.ID, Axis: model.AxisTime, From: q.From, To: q.To, Limit: store.SelectRows}
		var last *store.Rows
		for more := true; more; more = scan.After != nil {
			rows, err := curve.Scan(ctx, e.table, scan)
			if err != nil {
				yield(nil, err)
				return
			}
			scan.After = rows.Next
			if len(rows.TimeNs) == 0 {
				continue
			}
			if q.Last {
				last = rows
			} else if !yield(rows, nil) {
				return
			}
		}
		if last != nil {
			yield(lastOf(last), nil)
		}
	}
}

// end is the last point of a series as rows.
func end(s *store.Series) *store.Rows {
	rows := &store.Rows{TimeNs: []int64{s.Last.TimeNs}, Values: model.Column{Series: s.Key, Kind: s.Kind}}
	if s.Last.Step != nil {
		rows.Axes = []model.AxisColumn{{Axis: model.AxisStep, Values: []int64{*s.Last.Step}}}
	}
	if s.Kind == model.KindInt {
		rows.Values.Ints = []int64{s.Last.Value.Int}
	} else {
		rows.Values.Floats = []float64{s.Last.Value.Float}
	}
	return rows
}

// lastOf is the last of rows alone.
func lastOf(r *store.Rows) *store.Rows {
	n := len(r.TimeNs)
	out := &store.Rows{TimeNs: r.TimeNs[n-1:], Values: model.Column{Series: r.Values.Series, Kind: r.Values.Kind}}
	for i, a := range r.Axes {
		if i < len(r.Has) && r.Has[i] != nil && !r.Has[i][n-1] {
			continue
		}
		out.Axes = append(out.Axes, model.AxisColumn{Axis: a.Axis, Values: a.Values[n-1:]})
	}
	v := &r.Values
	switch v.Kind {
	case model.KindFloat:
		out.Values.Floats = v.Floats[n-1:]
	case model.KindInt:
		out.Values.Ints = v.Ints[n-1:]
	case model.KindText:
		out.Values.Texts = v.Texts[n-1:]
	default:
		out.Values.Docs = v.Docs[n-1:]
	}
	return out
}
