package migration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/transfer"
)

// parallel is how many runs are copied at a time.
const parallel = 4

// ErrInterrupted is a copy that its context ended; what was copied is kept.
var ErrInterrupted = model.Errorf(model.CodeUnavailable, "interrupted").WithHint("run the import again; it goes on")

// Pair is a project of the source and where its runs go.
type Pair struct{ From, To Place }

// Work is an import from a W&B server.
type Work struct {
	Source *Source
	Target *Target
	// Origin is the source's address as keys of runs have it.
	Origin string
	// Names, where there are any, are the runs to copy; else Filter is W&B's filter of them.
	Names  []string
	Filter string
	Files  bool  // copy the runs' files too
	DryRun bool  // copy nothing
	Left   []Run // projects that cannot be copied
	Report Report

	progress *Progress
	offered  int
	mu       sync.Mutex // guards Report
}

// All copies the runs of all pairs. What concerns one run only is in the report.
func (w *Work) All(ctx context.Context, pairs []Pair, progress *Progress) error {
	w.progress = progress
	w.Report = Report{Source: "wandb", Server: w.Origin, DryRun: w.DryRun, Runs: append([]Run{}, w.Left...)}
	lists := make([][]listed, len(pairs))
	for i, pair := range pairs {
		list, err := w.list(ctx, pair)
		if err != nil {
			return err
		}
		lists[i] = list
		for _, one := range list {
			progress.expect(1, int64(one.Rows))
		}
	}
	defer progress.End()
	defer func() {
		slices.SortStableFunc(w.Report.Runs, func(a, b Run) int { return a.number - b.number })
	}()
	for i, pair := range pairs {
		if err := w.project(ctx, pair, lists[i]); err != nil {
			return err
		}
	}
	return nil
}

// list names the runs of a pair. Runs that were asked for by name are looked for later.
func (w *Work) list(ctx context.Context, pair Pair) (list []listed, err error) {
	if len(w.Names) == 0 {
		return w.Source.list(ctx, pair.From, w.Filter)
	}
	for _, name := range w.Names {
		list = append(list, listed{Name: name})
	}
	return list, nil
}

// project copies the runs of a list, some at a time. What the destination has unchanged is
// known from two requests for many runs.
func (w *Work) project(ctx context.Context, pair Pair, list []listed) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	err := w.offer(inner, pair, list, group)
	if err != nil {
		cancel()
	}
	ran := group.Wait()
	if err == nil || errors.Is(err, ErrInterrupted) && ran != nil { // a run ended the offers
		return ran
	}
	return err
}

func (w *Work) offer(ctx context.Context, pair Pair, list []listed, group *errgroup.Group) error {
	for len(list) > 0 {
		part := list[:min(pageOfRuns, len(list))]
		list = list[len(part):]
		names := make([]string, len(part))
		for i := range part {
			names[i] = part[i].Name
		}
		foreign, err := w.Source.runs(ctx, pair.From, names)
		if err != nil {
			return err
		}
		own, err := w.Target.runs(ctx, pair.To, names)
		if err != nil {
			return err
		}
		for _, one := range part {
			w.offered++
			c := &copying{Work: w, pair: pair, foreign: foreign[one.Name], own: own[one.Name], line: Run{number: w.offered}}
			group.Go(func() error { return w.run(ctx, c, one) })
			if ctx.Err() != nil {
				return ErrInterrupted
			}
		}
	}
	return nil
}

// run copies one run and reports it. Only what would stop every other run is an error.
func (w *Work) run(ctx context.Context, c *copying, one listed) error {
	c.line.Run, c.line.Key = c.pair.To.String()+"/"+one.Name, w.Origin+"/"+c.pair.From.String()+"/"+one.Name
	c.line.State = transfer.Failed
	err := c.copy(ctx)
	switch code := model.CodeOf(err); {
	case ctx.Err() != nil:
		return ErrInterrupted
	case code == model.CodeUnavailable || code == model.CodeUnauthenticated || code == model.CodePermission:
		return err
	case err != nil:
		c.line.State, c.line.Error = transfer.Failed, withHint(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.Report.add(c.line)
	w.progress.ran(int64(one.Rows) - c.counted)
	return nil
}

func withHint(err error) string {
	var e *model.Error
	if errors.As(err, &e) && e.Hint != "" {
		return e.Message + ": " + e.Hint
	}
	return fmt.Sprint(err)
}
