package points

import (
	"context"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse/ledger"
	"github.com/kymogram/kymogram/server/internal/store/local"
	"github.com/kymogram/kymogram/server/internal/store/local/record"
)

const (
	// pageRuns is how many runs are compared at once.
	pageRuns = 1000
	// A batch of runs is copied, compared and committed together.
	batchRuns, batchPoints = 500, 2_000_000
	// opened is how many runs are opened at once.
	opened = 8
	// tries is how often a batch is copied that a server did not take.
	tries, pause = 5, 2 * time.Second
)

// Copied is what a copy came to.
type Copied struct {
	Runs    int    `json:"runs"`    // that the source has
	Changed int    `json:"changed"` // of these, the ones that were copied, or had something new
	Points  uint64 `json:"points"`  // that were copied
	Updates int    `json:"updates"` // on their way into the catalog
}

// out is a copy into a store.
type out struct {
	from *local.Moment
	to   *clickhouse.Engine
	done func(points int64)

	copied Copied
	batch  []model.RunID
	points uint64
	had    map[model.RunID]uint64 // points that the store had of the batch
}

// Out copies what is new of a folder into a store. Done hears of points.
func Out(ctx context.Context, from *local.Moment, to *clickhouse.Engine, done func(points int64)) (Copied, error) {
	o := &out{from: from, to: to, done: done, had: map[model.RunID]uint64{}}
	for page := range slices.Chunk(from.Runs(), pageRuns) {
		heads, err := to.Ledger().Heads(ctx, page)
		if err != nil {
			return o.copied, err
		}
		for _, id := range page {
			if err := o.run(ctx, id, heads[id]); err != nil {
				return o.copied, err
			}
		}
	}
	return o.copied, o.flush(ctx)
}

// run puts a run with something new into the batch.
func (o *out) run(ctx context.Context, id model.RunID, has *ledger.Head) error {
	is := o.from.Head(id)
	if !is.Deleted && len(is.Attempts)+len(is.Writers) == 0 && is.Points == 0 {
		return nil // nothing made it known
	}
	o.copied.Runs++
	had := uint64(0)
	if has != nil {
		had = has.Points
	}
	o.done(int64(had))
	if has != nil && same(&is, has) {
		return nil
	}
	o.batch, o.had[id] = append(o.batch, id), had
	o.points += is.Points - min(is.Points, had)
	if len(o.batch) < batchRuns && o.points < batchPoints {
		return nil
	}
	return o.flush(ctx)
}

// same reports whether a store has all of a run.
func same(is *record.Run, has *ledger.Head) bool {
	if is.Deleted != has.Deleted || !is.Deleted && (is.Arrivals != has.Arrivals || !slices.EqualFunc(is.Attempts, has.Attempts, sameAttempt)) {
		return false
	}
	skipped := 0
	writers := slices.DeleteFunc(slices.Clone(is.Writers), func(w record.Writer) bool { return w.ID.IsZero() })
	for i := range writers {
		skipped += len(writers[i].Skipped)
	}
	return skipped == has.Skipped && slices.EqualFunc(writers, has.Writers, sameWriter)
}

func sameAttempt(a, b model.Attempt) bool {
	return a.Number == b.Number && a.Precedence == b.Precedence && a.OpenedNs == b.OpenedNs && equal(a.ResumeFrom, b.ResumeFrom)
}

func sameWriter(a, b record.Writer) bool {
	return a.ID == b.ID && a.Attempt == b.Attempt && a.Refused == b.Refused && a.Mark == b.Mark && equal(a.Logger, b.Logger)
}

func equal[T comparable](a, b *T) bool {
	return a == nil && b == nil || a != nil && b != nil && *a == *b
}

// flush copies the batch. What a server did not take is copied again, as a whole: nothing of it
// counts.
func (o *out) flush(ctx context.Context) (err error) {
	if len(o.batch) == 0 {
		return nil
	}
	for try := range tries {
		var points uint64
		if points, err = o.copy(ctx); err == nil {
			o.copied.Changed, o.copied.Points = o.copied.Changed+len(o.batch), o.copied.Points+points
			break
		}
		o.done(-int64(points))
		if model.CodeOf(err) != model.CodeUnavailable || try == tries-1 {
			break
		}
		again := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			again.Stop()
			return ctx.Err()
		case <-again.C:
		}
	}
	o.batch, o.points = o.batch[:0], 0
	clear(o.had)
	return err
}

func (o *out) copy(ctx context.Context) (points uint64, err error) {
	in := o.to.Intake()
	runs, arriving := make([]*record.Run, len(o.batch)), make([]*clickhouse.Arriving, len(o.batch))
	group, opening := errgroup.WithContext(ctx)
	group.SetLimit(opened)
	for i, id := range o.batch {
		group.Go(func() (err error) {
			if runs[i], err = o.from.Run(id); err == nil {
				arriving[i], err = in.Open(opening, runs[i])
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return 0, err
	}
	for i, a := range arriving {
		before := in.Points
		if !runs[i].Deleted {
			err = o.from.Points(ctx, runs[i].ID, a.From, func(p *record.Piece) error {
				o.done(int64(p.Points()))
				return a.Add(ctx, p)
			})
		}
		if err == nil {
			err = complete(runs[i], a.From, o.had[runs[i].ID], in.Points-before)
		}
		if err != nil {
			return in.Points, err
		}
	}
	return in.Points, in.Commit(ctx)
}

// complete compares what was read with what the engine counts. A merge may have dropped points
// that were copied before: repeats, see package store.
func complete(of *record.Run, from int64, had, read uint64) error {
	if of.Deleted || had+read == of.Points || from > 0 && had+read > of.Points {
		return nil
	}
	return model.Errorf(model.CodeDamaged, "the data folder counts %d points of run %s, and %d were found", of.Points, of.ID, had+read).
		WithHint("`kymogram data verify --data DIR` names all damage.")
}
