package clickhouse

import (
	"context"
	"iter"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse/curve"
)

// read asks a server of ClickHouse, and another one when it does not answer.
func read[T any](ctx context.Context, e *Engine, run model.RunID, ask func(*curve.Reader) (T, error)) (out T, err error) {
	for range e.points.Tries() {
		out, err = ask(e.points.Reader(ctx, run, settled{e.ledger}))
		if model.CodeOf(err) != model.CodeUnavailable || ctx.Err() != nil {
			break
		}
	}
	return out, err
}

// stream is read for answers in pieces. Once there was one, it ends with the first failure.
func stream[T any](ctx context.Context, e *Engine, run model.RunID, ask func(*curve.Reader) iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for left, began := e.points.Tries(), false; left > 0; left-- {
			again := false
			for piece, err := range ask(e.points.Reader(ctx, run, settled{e.ledger})) {
				if again = err != nil && !began && left > 1 && model.CodeOf(err) == model.CodeUnavailable && ctx.Err() == nil; again {
					break
				}
				began = true
				if !yield(piece, err) {
					return
				}
			}
			if !again {
				return
			}
		}
	}
}

// page is a page of a list, and whether there are more.
type page struct {
	list []store.Series
	more bool
}

// ListSeries implements [store.Reader].
func (e *Engine) ListSeries(ctx context.Context, run model.RunID, f store.SeriesFilter) ([]store.Series, bool, error) {
	out, err := read(ctx, e, run, func(r *curve.Reader) (p page, err error) {
		p.list, p.more, err = r.ListSeries(ctx, run, f)
		return p, err
	})
	return out.list, out.more, err
}

// nearest is the run of a request, or the first that it inherits from.
func nearest(run model.RunID, ancestors []store.Ancestor) model.RunID {
	if run.IsZero() && len(ancestors) > 0 {
		return ancestors[0].Run
	}
	return run
}

// Curve implements [store.Reader].
func (e *Engine) Curve(ctx context.Context, q store.CurveRequest) (store.Series, error) {
	return read(ctx, e, nearest(q.Run, q.Ancestors), func(r *curve.Reader) (store.Series, error) { return r.Curve(ctx, q) })
}

// Scan implements [store.Reader].
func (e *Engine) Scan(ctx context.Context, q store.ScanRequest) (*store.Rows, error) {
	return read(ctx, e, nearest(q.Run, q.Ancestors), func(r *curve.Reader) (*store.Rows, error) { return r.Scan(ctx, q) })
}

// Buckets implements [store.Reader].
func (e *Engine) Buckets(ctx context.Context, q store.BucketsRequest) ([]store.Bucket, error) {
	return read(ctx, e, nearest(q.Run, q.Ancestors), func(r *curve.Reader) ([]store.Bucket, error) { return r.Buckets(ctx, q) })
}

// Select implements [store.Selector]. Each run is read by a server of its own.
func (e *Engine) Select(ctx context.Context, q store.SelectRequest) iter.Seq2[store.Selected, error] {
	return func(yield func(store.Selected, error) bool) {
		for _, run := range q.Runs {
			one := q
			one.Runs = []model.RunID{run}
			for piece, err := range stream(ctx, e, run, func(r *curve.Reader) iter.Seq2[store.Selected, error] { return r.Select(ctx, one) }) {
				if !yield(piece, err) || err != nil {
					return
				}
			}
		}
	}
}

// Across implements [store.Selector].
func (e *Engine) Across(ctx context.Context, q store.AcrossRequest) iter.Seq2[*store.Rows, error] {
	return stream(ctx, e, q.Run, func(r *curve.Reader) iter.Seq2[*store.Rows, error] { return r.Across(ctx, q) })
}

// ends is where series of a run end.
type ends struct {
	starts   []model.Start
	envs     []model.EnvEnd
	complete bool
}

// Ends implements [store.Starts].
func (e *Engine) Ends(ctx context.Context, run model.RunID, limit int) ([]model.Start, []model.EnvEnd, bool, error) {
	out, err := read(ctx, e, run, func(r *curve.Reader) (at ends, err error) {
		at.starts, at.envs, at.complete, err = r.Ends(ctx, run, limit)
		return at, err
	})
	return out.starts, out.envs, out.complete, err
}

// RunStats implements [store.Reader]: the points are counted by ClickHouse, what was lost or
// refused is in the ledger.
func (e *Engine) RunStats(ctx context.Context, run model.RunID) (store.RunStats, error) {
	out, err := read(ctx, e, run, func(r *curve.Reader) (store.RunStats, error) { return r.RunStats(ctx, run) })
	if err != nil {
		return out, err
	}
	losses, err := e.ledger.Losses(ctx, run)
	out.Series, out.Refused, out.Skipped = losses.Series, losses.Refused, losses.Skipped
	return out, err
}
