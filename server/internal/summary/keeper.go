package summary

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/store"
)

const (
	// tick is how often the keeper looks whether a run is due.
	tick = 250 * time.Millisecond
	// pause is the least time between two summaries of a run that is written to.
	pause = time.Second
	// share is the part of the time that a run's summaries may take: one in so many.
	share = 20
	// whole is the same for the summaries of all runs together: on a server with very many
	// live runs they come later, and writers lose no more than a tenth of a processor.
	whole = 10
	// backlog is how many runs of before the start are read at once.
	backlog = 10_000
	// again is how often runs are looked for that another server wrote to, which ended before it
	// had read them.
	again = 5 * time.Minute
)

// Store is the part of a store that the keeper reads.
type Store interface {
	Lister
	Buckets(ctx context.Context, r store.BucketsRequest) ([]store.Bucket, error)
}

// Keeper keeps the summaries of runs in the catalog. It is a Publisher of ingest.
type Keeper struct {
	store   Store
	catalog catalog.Summaries
	now     func() time.Time
	log     *slog.Logger
	shared  bool

	mu  sync.Mutex
	due map[model.RunID]time.Time // runs with news, and when they may be read
	// rest is when a run that was read may be read again. Those that are past are forgotten.
	rest map[model.RunID]time.Time
}

// NewKeeper makes a keeper; [Keeper.Run] does its work.
func NewKeeper(s Store, c catalog.Summaries, now func() time.Time, log *slog.Logger) *Keeper {
	return &Keeper{store: s, catalog: c, now: now, log: log, due: map[model.RunID]time.Time{}, rest: map[model.RunID]time.Time{}}
}

// Shared says that other servers write to the store, too. Call it before Run.
func (k *Keeper) Shared() { k.shared = true }

// Publish notes that a run has news.
func (k *Keeper) Publish(c model.RunChange) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, ok := k.due[c.Run]; !ok {
		k.due[c.Run] = k.rest[c.Run]
	}
}

// Run reads the runs of before the start, then those with news, until ctx ends. Where the store
// is shared it looks again for runs that nobody has read.
func (k *Keeper) Run(ctx context.Context) error {
	timer := time.NewTimer(tick)
	defer timer.Stop()
	for older, looked := true, k.now(); ; {
		if k.shared && k.now().Sub(looked) >= again {
			older, looked = true, k.now()
		}
		if older {
			older = k.catchUp(ctx)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
			began := k.now()
			k.work(ctx)
			timer.Reset(max(tick, (whole-1)*k.now().Sub(began)))
		}
	}
}

// catchUp reads runs whose summaries are older than their last activity; true while
// there may be more.
func (k *Keeper) catchUp(ctx context.Context) (more bool) {
	runs, err := k.catalog.Unsummarised(ctx, backlog)
	if err != nil {
		k.warn(err)
		return false
	}
	done := 0
	for i, run := range runs {
		if ctx.Err() != nil {
			return false
		}
		if err := k.summarise(ctx, run); err == nil {
			done++
		} else {
			k.warn(err)
		}
		if i%100 == 99 {
			k.work(ctx) // what is written to does not wait
		}
	}
	return len(runs) == backlog && done > 0
}

// work reads the runs that are due. One that fails is due again.
func (k *Keeper) work(ctx context.Context) {
	for _, run := range k.take() {
		if ctx.Err() != nil {
			return
		}
		began := k.now()
		err := k.summarise(ctx, run)
		k.mu.Lock()
		k.rest[run] = k.now().Add(max(pause, share*k.now().Sub(began)))
		if err != nil {
			k.due[run] = k.rest[run]
		}
		k.mu.Unlock()
		k.warn(err)
	}
}

func (k *Keeper) take() (runs []model.RunID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.now()
	for run, at := range k.due {
		if !at.After(now) {
			runs = append(runs, run)
			delete(k.due, run)
		}
	}
	for run, at := range k.rest {
		if _, waits := k.due[run]; !waits && !at.After(now) {
			delete(k.rest, run)
		}
	}
	return runs
}

func (k *Keeper) warn(err error) {
	if err != nil {
		k.log.Warn("cannot keep the summaries of a run; tried again later", "err", err)
	}
}

// summarise reads a run and stores its summaries. The ends of a series without a new point
// are not read again.
func (k *Keeper) summarise(ctx context.Context, run model.RunID) error {
	at := k.now()
	metrics, _, err := Of(ctx, k.store, run, catalog.MaxSummaries)
	if err != nil {
		return err
	}
	known, err := k.catalog.Summaries(ctx, run)
	if err != nil {
		return fmt.Errorf("read the summaries of run %s: %w", run, err)
	}
	before := make(map[string]*catalog.Summary, len(known))
	for i := range known {
		before[known[i].Metric] = &known[i]
	}
	all := make([]catalog.Summary, 0, len(metrics))
	for _, m := range metrics {
		s, err := k.one(ctx, run, m, before[m.Name])
		if err != nil {
			return err
		}
		all = append(all, s)
	}
	return k.catalog.PutSummaries(ctx, run, all, at)
}

func (k *Keeper) one(ctx context.Context, run model.RunID, m Metric, known *catalog.Summary) (catalog.Summary, error) {
	s := catalog.Summary{Metric: m.Name, Points: m.Series.Count, Last: value(m.Series.Kind, m.Series.Last.Value.Float, m.Series.Last.Value.Int)}
	if known != nil && known.Points == s.Points && same(known.Last, s.Last) {
		s.Min, s.Max = known.Min, known.Max
		return s, nil
	}
	if e := m.Series.Extent; e != nil {
		s.Min, s.Max = value(m.Series.Kind, e.Min.Float, e.Min.Int), value(m.Series.Kind, e.Max.Float, e.Max.Int)
		return s, nil
	}
	buckets, err := k.store.Buckets(ctx, store.BucketsRequest{Run: run, Series: m.Series.ID, Axis: model.AxisTime, From: math.MinInt64, To: math.MaxInt64, N: 1})
	if err != nil {
		return s, fmt.Errorf("read %s of run %s: %w", m.Name, run, err)
	}
	for _, b := range buckets {
		if b.Count > 0 {
			s.Min, s.Max = value(m.Series.Kind, b.Min, b.MinInt), value(m.Series.Kind, b.Max, b.MaxInt)
		}
	}
	return s, nil
}

func same(a, b model.Value) bool {
	return a.Type == b.Type && a.Int == b.Int && (a.Float == b.Float || a.Float != a.Float && b.Float != b.Float)
}

func value(kind model.Kind, float float64, integer int64) model.Value {
	if kind == model.KindInt {
		return *model.IntValue(integer)
	}
	return *model.FloatValue(float)
}
