package local

import (
	"context"
	"iter"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
)

// ListSeries implements [store.Reader].
func (e *Engine) ListSeries(ctx context.Context, run model.RunID, f store.SeriesFilter) ([]store.Series, bool, error) {
	return e.table.List(ctx, run, f)
}

// Ends implements [store.Reader].
func (e *Engine) Ends(ctx context.Context, run model.RunID, limit int) ([]model.Start, []model.EnvEnd, bool, error) {
	return e.table.Ends(ctx, run, limit)
}

// RunStats implements [store.Reader].
func (e *Engine) RunStats(ctx context.Context, run model.RunID) (store.RunStats, error) {
	return e.table.Stats(ctx, run)
}

// Runs implements [store.Roster].
func (e *Engine) Runs(ctx context.Context) iter.Seq[model.KeptRun] {
	return func(yield func(model.KeptRun) bool) {
		for _, r := range e.table.All() {
			kept, ok := r.Kept()
			if ctx.Err() != nil || ok && !yield(kept) {
				return
			}
		}
	}
}

// LiveBytes is what the flushed points of all runs that are not deleted take.
// Bytes of deleted ones are freed by the next merge of their segment.
func (e *Engine) LiveBytes() (n int64) {
	for _, s := range e.files.Live() {
		n += s.Size
		for i := range s.Runs {
			if e.table.IsDeleted(s.Runs[i].Run) {
				n -= s.Runs[i].Bytes
			}
		}
	}
	return n
}

// Stats implements [store.Engine].
func (e *Engine) Stats() store.Stats {
	log := e.log.State()
	out := e.table.Count()
	out.WALBytes, out.DiskBytes, out.DiskFull = log.Bytes, log.Bytes, log.DiskFull
	out.Quarantined, out.LostRecords = e.damage.Count(), e.lostRecords
	out.MemoryBytes, out.MemoryRefused = uint64(max(0, e.table.Held())), e.keeper.Refused()
	out.Poisoned = log.Poisoned || e.files.Stuck() != nil
	for _, s := range e.files.Live() {
		out.DiskBytes += s.Size
		out.KeptBytes += s.Size
	}
	life := e.files.Life()
	out.WrittenBytes, out.KeptBytes = life.Written, out.KeptBytes+life.Freed
	return out
}
