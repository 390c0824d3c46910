package points

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse/curve"
	"github.com/kymogram/kymogram/server/internal/store/local"
	"github.com/kymogram/kymogram/server/internal/store/local/record"
)

// back is a copy into a folder.
type back struct {
	from *clickhouse.Engine
	to   *local.Engine
	done func(points int64)
}

// Back copies a store, which nobody writes to, into the engine of a folder. Several runs are
// copied at once: they share syncs of the log.
func Back(ctx context.Context, from *clickhouse.Engine, to *local.Engine, done func(points int64)) (c Copied, err error) {
	b := &back{from: from, to: to, done: done}
	var after model.RunID
	for {
		page, err := from.Ledger().IDs(ctx, after, pageRuns)
		if err != nil || len(page) == 0 {
			return c, err
		}
		after = page[len(page)-1]
		points := make([]uint64, len(page))
		group, working := errgroup.WithContext(ctx)
		group.SetLimit(opened)
		for i, id := range page {
			group.Go(func() (err error) {
				points[i], err = b.run(working, id)
				return err
			})
		}
		if err := group.Wait(); err != nil {
			return c, err
		}
		c.Runs += len(page)
		for _, n := range points {
			if c.Points += n; n > 0 {
				c.Changed++
			}
		}
	}
}

// run takes what the folder does not have of a run.
func (b *back) run(ctx context.Context, id model.RunID) (points uint64, err error) {
	is, err := b.from.Ledger().Whole(ctx, id)
	if err != nil {
		return 0, err
	}
	has, _ := b.to.Head(id)
	if is.Deleted {
		if has.Deleted {
			return 0, nil
		}
		if err := b.writers(ctx, is, &has); err != nil {
			return 0, err
		}
		return 0, b.to.DeleteRun(ctx, id)
	}
	for _, a := range is.Attempts {
		if err := b.to.PutAttempt(ctx, id, a); err != nil {
			return 0, err
		}
	}
	for i := range is.Writers {
		w := &is.Writers[i]
		if err := b.to.PutWriter(ctx, id, w.ID, w.Attempt, w.Logger); err != nil {
			return 0, err
		}
	}
	if len(is.Writers) == 0 {
		return 0, nil
	}
	if err := b.define(ctx, is); err != nil {
		return 0, err
	}
	b.done(int64(is.Points))
	w := &rows{take: func(rec *record.Batch) error { _, err := b.to.Take(ctx, rec); return err }, run: id}
	if is.Arrivals > has.Arrivals {
		if err := b.from.Rows(ctx, id, uint64(has.Arrivals), w.add); err != nil {
			return 0, err
		}
		if err := w.end(); err != nil {
			return 0, err
		}
	}
	return w.points, b.writers(ctx, is, &has)
}

// define makes the series and the starts of a run known, in one record.
func (b *back) define(ctx context.Context, is *record.Run) error {
	rec := &record.Batch{Run: is.ID, Writer: is.Writers[0].ID, Attempt: is.Writers[0].Attempt, Series: is.Series[min(len(is.Series), b.to.SeriesMade(is.ID)):], Starts: is.Starts}
	if len(rec.Series) == 0 {
		return nil
	}
	_, err := b.to.Take(ctx, rec)
	return err
}

// writers takes marks and losses, and the arrivals of the run, which may be past its last point.
func (b *back) writers(ctx context.Context, is, has *record.Run) error {
	old := map[model.WriterID]record.Writer{}
	for _, w := range has.Writers {
		old[w.ID] = w
	}
	var last uint64
	for i := range is.Writers {
		w := &is.Writers[i]
		was := old[w.ID]
		if was.Mark == w.Mark && was.Refused == w.Refused && len(was.Skipped) == len(w.Skipped) && is.Arrivals == has.Arrivals {
			continue
		}
		lsn, err := b.to.Take(ctx, &record.Batch{
			Run: is.ID, Writer: w.ID, Attempt: w.Attempt, Last: w.Mark, Refused: w.Refused - was.Refused, Skipped: w.Skipped[len(was.Skipped):], NextOrd: is.Arrivals,
		})
		if err != nil {
			return err
		}
		last = lsn
	}
	return b.to.Settle(ctx, last)
}

// Compare adds up all points of a folder and of a store, by series, and names the first that
// differs.
func Compare(ctx context.Context, folder *local.Moment, with *clickhouse.Engine, done func(points int64)) error {
	for _, id := range folder.Runs() {
		run, err := folder.Run(id)
		if err != nil {
			return err
		}
		if run.Deleted {
			continue
		}
		if err := compareRun(ctx, folder, with, run); err != nil {
			return err
		}
		done(int64(run.Points))
	}
	return nil
}

func compareRun(ctx context.Context, folder *local.Moment, with *clickhouse.Engine, run *record.Run) error {
	here := map[store.SeriesID]curve.Sum{}
	err := folder.Points(ctx, run.ID, 0, func(p *record.Piece) error {
		shared := clickhouse.SharedOf(run.Writers[p.Writer].ID, p.Attempt, &p.Rows)
		for j := range p.Columns {
			s := here[store.SeriesID(p.Series[j])]
			clickhouse.AddTo(&s, shared, &p.Columns[j])
			here[store.SeriesID(p.Series[j])] = s
		}
		return nil
	})
	if err != nil {
		return err
	}
	there, err := with.Sums(ctx, run.ID)
	if err != nil {
		return err
	}
	for i := range run.Series {
		id := store.SeriesID(i)
		if here[id] != there[id] {
			return clickhouse.ErrDiffers(run.ID, run.Series[i].Text, there[id], here[id])
		}
		delete(there, id)
	}
	if len(there) > 0 {
		return fmt.Errorf("the store has %d series of run %s that the folder does not have", len(there), run.ID)
	}
	return nil
}
