package clickhouse

import (
	"context"
	"iter"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
)

// ListSeries implements [store.Reader].
func (e *Engine) ListSeries(ctx context.Context, run model.RunID, f store.SeriesFilter) ([]store.Series, bool, error) {
	return e.reader.ListSeries(ctx, run, f)
}

// Curve implements [store.Reader].
func (e *Engine) Curve(ctx context.Context, r store.CurveRequest) (store.Series, error) {
	return e.reader.Curve(ctx, r)
}

// Scan implements [store.Reader].
func (e *Engine) Scan(ctx context.Context, r store.ScanRequest) (*store.Rows, error) {
	return e.reader.Scan(ctx, r)
}

// Buckets implements [store.Reader].
func (e *Engine) Buckets(ctx context.Context, r store.BucketsRequest) ([]store.Bucket, error) {
	return e.reader.Buckets(ctx, r)
}

// Select implements [store.Selector].
func (e *Engine) Select(ctx context.Context, r store.SelectRequest) iter.Seq2[store.Selected, error] {
	return e.reader.Select(ctx, r)
}

// Across implements [store.Selector].
func (e *Engine) Across(ctx context.Context, r store.AcrossRequest) iter.Seq2[*store.Rows, error] {
	return e.reader.Across(ctx, r)
}

// Ends implements [store.Starts].
func (e *Engine) Ends(ctx context.Context, run model.RunID, limit int) ([]model.Start, []model.EnvEnd, bool, error) {
	return e.reader.Ends(ctx, run, limit)
}

// RunStats implements [store.Reader]: the points are counted by ClickHouse, what was lost or
// refused is in the ledger.
func (e *Engine) RunStats(ctx context.Context, run model.RunID) (store.RunStats, error) {
	out, err := e.reader.RunStats(ctx, run)
	if err != nil {
		return out, err
	}
	losses, err := e.ledger.Losses(ctx, run)
	out.Series, out.Refused, out.Skipped = losses.Series, losses.Refused, losses.Skipped
	return out, err
}
