package ingest

import (
	"context"
	"time"

	"github.com/kymogram/kymogram/internal/model"
)

// SweepBlobs is the sweep of a tick at a time.
func (s *Service) SweepBlobs(ctx context.Context, now time.Time) error { return s.sweep(ctx, now) }

// Claims is what every batch of a writer goes through for its environments.
func Claims() func(*model.Batch) {
	var o owners
	me := &owner{writer: model.WriterID{1}}
	return func(b *model.Batch) { o.claim(me, b) }
}
