package summary_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/summary"
)

// points is a store of plain slices: its buckets are computed point by point.
type points struct {
	mu     sync.Mutex
	series map[string][]float64
	kind   map[string]model.Kind
	names  []string
	asked  int
	lists  int
	takes  time.Duration // a list
	fails  error
	// extents: a list has them, of series with a finite value.
	extents bool
}

func (p *points) add(name string, kind model.Kind, values ...float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.series[name]; !ok {
		p.names = append(p.names, name)
	}
	p.series[name], p.kind[name] = append(p.series[name], values...), kind
}

func (p *points) ListSeries(context.Context, model.RunID, store.SeriesFilter) (page []store.Series, more bool, err error) {
	time.Sleep(p.takes)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lists++
	for i, name := range p.names {
		v := p.series[name]
		last := v[len(v)-1]
		page = append(page, store.Series{
			ID: store.SeriesID(i), Key: model.NewSeriesKey(name, "", nil), Kind: p.kind[name], Count: uint64(len(v)),
			Last: &store.Point{Value: store.Number{Float: last, Int: int64(last)}},
		})
		for _, x := range v {
			if s := &page[i]; p.extents && x-x == 0 {
				if s.Extent == nil {
					s.Extent = &store.Extent{Min: store.Number{Float: x, Int: int64(x)}, Max: store.Number{Float: x, Int: int64(x)}}
				}
				if x < s.Extent.Min.Float {
					s.Extent.Min = store.Number{Float: x, Int: int64(x)}
				}
				if x > s.Extent.Max.Float {
					s.Extent.Max = store.Number{Float: x, Int: int64(x)}
				}
			}
		}
	}
	return page, false, p.fails
}

func (p *points) Buckets(_ context.Context, r store.BucketsRequest) ([]store.Bucket, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked++
	b := store.Bucket{Min: math.Inf(1), Max: math.Inf(-1)}
	for _, v := range p.series[p.names[r.Series]] {
		if v-v == 0 {
			b.Count++
			b.Min, b.Max = min(b.Min, v), max(b.Max, v)
		}
	}
	b.MinInt, b.MaxInt = int64(b.Min), int64(b.Max)
	return []store.Bucket{b}, nil
}

// rows is a catalog that only keeps.
type rows struct {
	mu    sync.Mutex
	kept  map[model.RunID][]catalog.Summary
	puts  int
	older []model.RunID
}

func (r *rows) Summaries(_ context.Context, run model.RunID) ([]catalog.Summary, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.kept[run], nil
}

func (r *rows) PutSummaries(_ context.Context, run model.RunID, all []catalog.Summary, _ time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.puts++
	r.kept[run] = all
	return nil
}

func (r *rows) Unsummarised(context.Context, int) ([]model.RunID, error) {
	older := r.older
	r.older = nil
	return older, nil
}

func keep(t *testing.T, work func(p *points, r *rows, k *summary.Keeper)) {
	synctest.Test(t, func(t *testing.T) {
		p := &points{series: map[string][]float64{}, kind: map[string]model.Kind{}}
		r := &rows{kept: map[model.RunID][]catalog.Summary{}, older: []model.RunID{{9}}}
		k := summary.NewKeeper(p, r, time.Now, slog.New(slog.DiscardHandler))
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- k.Run(ctx) }()
		synctest.Wait() // it has read the runs of before the start
		work(p, r, k)
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

var news = model.RunChange{Run: model.RunID{1}}

// A second after its news a run has the last, least and greatest of its points.
func TestAKeeperFollows(t *testing.T) {
	keep(t, func(p *points, r *rows, k *summary.Keeper) {
		rng := rand.New(rand.NewPCG(1, 2))
		for round := range 50 {
			for s := range 3 {
				v := []float64{math.NaN(), math.Inf(1), rng.NormFloat64(), rng.NormFloat64()}[rng.IntN(4)]
				p.add(fmt.Sprint("m", s), model.KindFloat, v)
			}
			p.add("n", model.KindInt, float64(rng.IntN(100)))
			k.Publish(news)
			time.Sleep(1300 * time.Millisecond)
			synctest.Wait()
			if diff := cmp.Diff(p.naive(), r.kept[news.Run], cmpopts.EquateNaNs()); diff != "" {
				t.Fatalf("round %d (-want +got):\n%s", round, diff)
			}
		}
		if r.kept[model.RunID{9}] == nil {
			t.Error("a run of before the start has no summaries")
		}
	})
}

// Where a list has the least and the greatest values, no points are asked for.
func TestAKeeperTakesExtents(t *testing.T) {
	keep(t, func(p *points, r *rows, k *summary.Keeper) {
		p.extents = true
		p.add("loss", model.KindFloat, 3, math.NaN(), -1, 2)
		p.add("n", model.KindInt, 7, 9)
		p.add("nan", model.KindFloat, math.NaN())
		k.Publish(news)
		time.Sleep(time.Second)
		synctest.Wait()
		if diff := cmp.Diff(p.naive(), r.kept[news.Run], cmpopts.EquateNaNs()); diff != "" || p.asked != 1 {
			t.Errorf("%d series asked for, want 1 (-want +got):\n%s", p.asked, diff)
		}
	})
}

// The runs of another server that ended are read some minutes later.
func TestAKeeperTakesOver(t *testing.T) {
	for _, shared := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			p := &points{series: map[string][]float64{}, kind: map[string]model.Kind{}}
			r := &rows{kept: map[model.RunID][]catalog.Summary{}}
			k := summary.NewKeeper(p, r, time.Now, slog.New(slog.DiscardHandler))
			if shared {
				k.Shared()
			}
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan error)
			go func() { done <- k.Run(ctx) }()
			synctest.Wait()
			p.add("loss", model.KindFloat, 1)
			r.older = []model.RunID{{7}}
			time.Sleep(time.Hour)
			stop()
			if err := <-done; err != nil {
				t.Error(err)
			}
			if got := len(r.kept[model.RunID{7}]) == 1; got != shared {
				t.Errorf("shared %v: read %v", shared, got)
			}
		})
	}
}

// naive reduces every point again.
func (p *points) naive() (out []catalog.Summary) {
	for _, name := range p.names {
		one := model.FloatValue
		if p.kind[name] == model.KindInt {
			one = func(v float64) *model.Value { return model.IntValue(int64(v)) }
		}
		values := p.series[name]
		s := catalog.Summary{Metric: name, Points: uint64(len(values)), Last: *one(values[len(values)-1])}
		for _, v := range values {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				continue
			}
			if s.Min.Type == "" || v < s.Min.Float+float64(s.Min.Int) {
				s.Min = *one(v)
			}
			if s.Max.Type == "" || v > s.Max.Float+float64(s.Max.Int) {
				s.Max = *one(v)
			}
		}
		out = append(out, s)
	}
	return out
}

// A run that is written to all the time is read once a second, and a series without a new
// point not at all.
func TestAKeeperRests(t *testing.T) {
	keep(t, func(p *points, r *rows, k *summary.Keeper) {
		p.add("still", model.KindFloat, 1, 2)
		for range 1000 {
			p.add("loss", model.KindFloat, 0.5)
			k.Publish(news)
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if r.puts > 13 || p.asked > 14 || r.kept[news.Run][1].Points != 1000 {
			t.Errorf("%d reads, %d of series, in 12 s; it has %v", r.puts, p.asked, r.kept[news.Run])
		}
	})
}

// Many runs that are written to all the time take a tenth of the time together, and each
// has its turn.
func TestAKeeperTakesATenthOfTheTime(t *testing.T) {
	keep(t, func(p *points, r *rows, k *summary.Keeper) {
		p.add("loss", model.KindFloat, 1)
		p.takes = 20 * time.Millisecond
		for range 600 {
			for run := range 50 {
				k.Publish(model.RunChange{Run: model.RunID{1, byte(run)}})
			}
			time.Sleep(100 * time.Millisecond)
		}
		synctest.Wait()
		p.mu.Lock()
		defer p.mu.Unlock()
		if busy := time.Duration(p.lists) * p.takes; busy > 7*time.Second || busy < 3*time.Second {
			t.Errorf("in a minute it worked %s", busy)
		}
		if len(r.kept) != 51 { // with the one of before the start
			t.Errorf("%d of 50 runs have summaries", len(r.kept)-1)
		}
	})
}

// What fails is tried again, at most once a second.
func TestAKeeperTriesAgain(t *testing.T) {
	keep(t, func(p *points, r *rows, k *summary.Keeper) {
		p.add("loss", model.KindFloat, 1)
		p.mu.Lock()
		p.fails = errors.New("the disk is gone")
		p.mu.Unlock()
		k.Publish(news)
		time.Sleep(5 * time.Second)
		p.mu.Lock()
		tries := p.lists
		p.fails = nil
		p.mu.Unlock()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if tries < 3 || tries > 8 || len(r.kept[news.Run]) != 1 {
			t.Errorf("%d tries in 5 s; it has %v", tries, r.kept[news.Run])
		}
	})
}
