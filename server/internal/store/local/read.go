package local

import (
	"context"

	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/local/curve"
)

// Scan implements [store.Reader].
func (e *Engine) Scan(ctx context.Context, q store.ScanRequest) (*store.Rows, error) {
	return curve.Scan(ctx, e, q)
}

// Buckets implements [store.Reader].
func (e *Engine) Buckets(ctx context.Context, q store.BucketsRequest) ([]store.Bucket, error) {
	return curve.Buckets(ctx, e, q)
}

// Curve implements [store.Reader].
func (e *Engine) Curve(ctx context.Context, q store.CurveRequest) (store.Series, error) {
	return curve.Describe(ctx, e, q)
}
