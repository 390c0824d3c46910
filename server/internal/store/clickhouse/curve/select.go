package curve

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
)

// Select answers [store.Selector.Select].
func (r *Reader) Select(ctx context.Context, q store.SelectRequest) iter.Seq2[store.Selected, error] {
	return func(yield func(store.Selected, error) bool) {
		for _, run := range q.Runs {
			for piece, err := range r.selectRun(ctx, run, &q) {
				if err != nil && model.CodeOf(err) == model.CodeNotFound {
					break // deleted, or unknown
				}
				if !yield(piece, err) || err != nil {
					return
				}
			}
		}
	}
}

// selectList is how many series of a run are described at once.
const selectList = 100

func (r *Reader) selectRun(ctx context.Context, run model.RunID, q *store.SelectRequest) iter.Seq2[store.Selected, error] {
	return func(yield func(store.Selected, error) bool) {
		filter := store.SeriesFilter{Match: q.Match, Metric: q.Metric, Limit: selectList}
		if q.Numeric {
			filter.Kinds = []model.Kind{model.KindFloat, model.KindInt}
		}
		for more := true; more; {
			var list []store.Series
			var err error
			if list, more, err = r.ListSeries(ctx, run, filter); err != nil {
				yield(store.Selected{}, err)
				return
			}
			for i := range list {
				s := &list[i]
				if s.Last == nil || s.MaxTimeNs < q.From || s.MinTimeNs > q.To {
					continue
				}
				for rows, err := range r.selectSeries(ctx, run, s, q) {
					if !yield(store.Selected{Run: run, Series: s, Rows: rows}, err) || err != nil {
						return
					}
				}
			}
			if more = more && len(list) > 0; more {
				filter.After = list[len(list)-1].Key.String()
			}
		}
	}
}

func (r *Reader) selectSeries(ctx context.Context, run model.RunID, s *store.Series, q *store.SelectRequest) iter.Seq2[*store.Rows, error] {
	return func(yield func(*store.Rows, error) bool) {
		// The last by step is the latest as a rule; then nothing has to be read.
		if q.Last && numeric(s.Kind) && s.Last.TimeNs == s.MaxTimeNs && s.MaxTimeNs <= q.To {
			yield(lastRow(s), nil)
			return
		}
		of, err := r.line(ctx, store.CurveRequest{Run: run, Series: s.ID}, store.Attempts{})
		if err != nil {
			yield(nil, err)
			return
		}
		part := &scan{along: stretch{axis: -1, from: q.From, to: q.To}, limit: store.SelectRows}
		if q.Last {
			part.limit, part.last = 1, true
		}
		for rows, err := range r.pages(ctx, of, part) {
			if !yield(rows, err) || q.Last {
				return
			}
		}
	}
}

// lastRow is the last point of a series as rows.
func lastRow(s *store.Series) *store.Rows {
	rows := &store.Rows{TimeNs: []int64{s.Last.TimeNs}, Values: model.Column{Series: s.Key, Kind: s.Kind}}
	if s.Last.Step != nil {
		rows.Axes = []model.AxisColumn{{Axis: model.AxisStep, Values: []int64{*s.Last.Step}}}
		rows.Has = [][]bool{nil}
	}
	if s.Kind == model.KindInt {
		rows.Values.Ints = []int64{s.Last.Value.Int}
	} else {
		rows.Values.Floats = []float64{s.Last.Value.Float}
	}
	return rows
}

// pages are the pages of a scan that have rows.
func (r *Reader) pages(ctx context.Context, of *line, s *scan) iter.Seq2[*store.Rows, error] {
	return func(yield func(*store.Rows, error) bool) {
		next := *s
		for {
			rows, err := r.scan(ctx, of, &next)
			if err != nil {
				yield(nil, err)
				return
			}
			if len(rows.TimeNs) > 0 && !yield(rows, nil) || rows.Next == nil {
				return
			}
			next.after, next.along.from = rows.Next, max(s.along.from, rows.Next.Axis)
		}
	}
}

// Across answers [store.Selector.Across].
func (r *Reader) Across(ctx context.Context, q store.AcrossRequest) iter.Seq2[*store.Rows, error] {
	return func(yield func(*store.Rows, error) bool) {
		axis, err := axisOf(q.Axis)
		if err != nil {
			yield(nil, err)
			return
		}
		if q.Limit < 1 || q.Limit > store.SelectRows {
			q.Limit = store.SelectRows
		}
		s := &scan{along: stretch{axis: axis, from: q.From, to: q.To}, at: q.At, limit: q.Limit}
		err = r.eachTouched(ctx, &q, s, func(series Series) (bool, error) {
			of, err := r.line(ctx, store.CurveRequest{Run: q.Run, Series: series.ID}, q.Attempts)
			if err != nil {
				return false, err
			}
			for rows, err := range r.pagesAt(ctx, of, s) {
				if err != nil {
					return false, err
				}
				if !yield(rows, nil) {
					return false, nil
				}
			}
			return true, nil
		})
		if err != nil {
			yield(nil, err)
		}
	}
}

// eachTouched calls take for the series that have stored points in the range, until it is false.
func (r *Reader) eachTouched(ctx context.Context, q *store.AcrossRequest, s *scan, take func(Series) (bool, error)) error {
	facts, err := r.source.Facts(ctx, q.Run)
	if err != nil {
		return fmt.Errorf("read what run %s has: %w", q.Run, err)
	}
	filter := store.SeriesFilter{After: q.After, Match: q.Match}
	if len(q.Metrics) > 0 {
		filter.Match = func(key model.SeriesKey) bool {
			_, named := slices.BinarySearch(q.Metrics, key.Metric)
			return named && (q.Match == nil || q.Match(key))
		}
	}
	if len(q.Metrics) == 1 {
		filter.Metric = q.Metrics[0]
	}
	ended := false
	return r.eachPage(ctx, q.Run, filter, func(list []Series) error {
		if ended {
			return nil
		}
		touched, err := r.touched(ctx, &facts, list, s.along)
		if err != nil {
			return err
		}
		for _, one := range list {
			if !touched[one.ID] || ended {
				continue
			}
			goes, err := take(one)
			if err != nil {
				return err
			}
			ended = !goes
		}
		return nil
	})
}

// touched are the series with stored points in a stretch.
func (r *Reader) touched(ctx context.Context, f *Facts, list []Series, along stretch) (map[store.SeriesID]bool, error) {
	out := map[store.SeriesID]bool{}
	if len(list) == 0 || len(f.Spans) == 0 {
		return out, nil
	}
	list = slices.DeleteFunc(slices.Clone(list), func(s Series) bool {
		lo, hi, known := s.bounds(along.axis)
		return known && (lo > hi || lo > along.to || hi < along.from)
	})
	if len(list) == 0 {
		return out, nil
	}
	statement := fmt.Sprintf("SELECT DISTINCT series FROM %s WHERE %s", r.place(f), all(f.stored(list), along.within("")))
	err := r.each(ctx, statement, func(rows driver.Rows) error {
		var id uint32
		if err := rows.Scan(&id); err != nil {
			return fmt.Errorf("read a series: %w", err)
		}
		out[store.SeriesID(id)] = true
		return nil
	})
	return out, err
}

// placesAtOnce bounds the length of a query.
const placesAtOnce = 2_000

// pagesAt are the pages of a scan that may be about some places alone. What follows the last
// page of all is found by asking for it: a page with Next is held back until then.
func (r *Reader) pagesAt(ctx context.Context, of *line, s *scan) iter.Seq2[*store.Rows, error] {
	if len(s.at) <= placesAtOnce {
		if s.at != nil && len(s.at) == 0 {
			return func(func(*store.Rows, error) bool) {}
		}
		return r.pages(ctx, of, s)
	}
	return func(yield func(*store.Rows, error) bool) {
		var held *store.Rows
		for at := range slices.Chunk(s.at, placesAtOnce) {
			part := *s
			part.at, part.along = at, stretch{axis: s.along.axis, from: max(s.along.from, at[0]), to: min(s.along.to, at[len(at)-1])}
			for rows, err := range r.pages(ctx, of, &part) {
				if err != nil {
					yield(nil, err)
					return
				}
				if held != nil && !yield(follow(held), nil) {
					return
				}
				held = rows
			}
		}
		if held != nil {
			yield(held, nil)
		}
	}
}

// follow says that a page is not the last.
func follow(rows *store.Rows) *store.Rows {
	if rows.Next == nil {
		rows.Next = &store.Position{}
	}
	return rows
}
