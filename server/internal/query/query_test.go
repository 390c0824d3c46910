package query_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/query"
	"github.com/kymogram/kymogram/server/internal/store"
)

// fake is a store, a catalog and an authorizer that answer what a test set.
type fake struct {
	store.Reader
	store.Selector
	store.Starts
	catalog.Runs
	catalog.Names
	catalog.Details
	catalog.Shared
	catalog.Tables
	run     catalog.Run
	series  []store.Series
	rows    *store.Rows
	lookups atomic.Int32
	reads   atomic.Int32 // of buckets
	scanned store.ScanRequest
	stuck   bool // reads hang until their context ends
	fails   error
}

func (f *fake) Allow(context.Context, catalog.Scope, string, string) error { return nil }

func (f *fake) Reach(context.Context) (workspace, project string) { return "", "" }

func (f *fake) Spooled(model.WriterID) (uint64, bool) { return 0, false }

func (f *fake) Summaries(context.Context, model.RunID) ([]catalog.Summary, error) { return nil, nil }

func (f *fake) Lookup(context.Context, model.RunID) (*catalog.Run, error) {
	f.lookups.Add(1)
	run := f.run
	return &run, nil
}

func (f *fake) ListSeries(_ context.Context, _ model.RunID, filter store.SeriesFilter) (page []store.Series, more bool, err error) {
	for _, s := range f.series {
		if (filter.Metric == "" || filter.Metric == s.Key.Metric) && (filter.Match == nil || filter.Match(s.Key)) {
			page = append(page, s)
		}
	}
	return page, false, nil
}

func (f *fake) Scan(ctx context.Context, r store.ScanRequest) (*store.Rows, error) {
	f.scanned = r
	if f.stuck {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return f.rows, f.fails
}

func (f *fake) Buckets(ctx context.Context, _ store.BucketsRequest) ([]store.Bucket, error) {
	f.reads.Add(1)
	if f.stuck {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return []store.Bucket{{Lo: 1, Hi: 2, Min: 1, Max: 2, Sum: 6, Count: 4}}, f.fails
}

func newFake() *fake {
	return &fake{
		run:    catalog.Run{ID: model.RunID{1}, Workspace: "w", Project: "p"},
		series: []store.Series{{ID: 7, Key: model.NewSeriesKey("loss", "", nil), Kind: model.KindFloat, Axes: []model.Axis{model.AxisStep}}},
		rows:   &store.Rows{},
	}
}

func (f *fake) service(limit time.Duration) *query.Service {
	return query.New(f, f, f, f, query.Limits{Time: limit, Parallel: 2})
}

var loss = query.Selector{Run: model.RunID{1}, Metric: "loss"}

func TestASlowReadEndsWithAHint(t *testing.T) {
	f := newFake()
	f.stuck = true
	s := f.service(time.Millisecond)
	_, err := s.Points(t.Context(), query.PointsRequest{Selector: loss})
	_, err2 := s.Buckets(t.Context(), query.BucketsRequest{Selector: loss})
	out, err3 := s.BucketsMany(t.Context(), []query.BucketsRequest{{Selector: loss}})
	for _, err := range []error{err, err2, out[0].Err} {
		var e *model.Error
		if !errors.As(err, &e) || e.Code != model.CodeTimeout || e.Hint == "" {
			t.Errorf("got %v", err)
		}
	}
	if err3 != nil {
		t.Error(err3)
	}
}

// When the time of many requests is up, those that have not begun are not read.
func TestManyBucketsEndTogether(t *testing.T) {
	f := newFake()
	f.stuck = true
	requests := make([]query.BucketsRequest, 100)
	for i := range requests {
		requests[i].Selector = loss
	}
	out, err := f.service(time.Millisecond).BucketsMany(t.Context(), requests)
	if err != nil || f.reads.Load() > 2 {
		t.Errorf("%d reads, %v", f.reads.Load(), err)
	}
	for i := range out {
		if model.CodeOf(out[i].Err) != model.CodeTimeout {
			t.Fatalf("%d: %v", i, out[i].Err)
		}
	}
}

func TestALeavingCallerIsNoTimeout(t *testing.T) {
	f := newFake()
	f.stuck = true
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.service(time.Hour).Points(ctx, query.PointsRequest{Selector: loss}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestManyBucketsLookEachRunUpOnce(t *testing.T) {
	f := newFake()
	requests := make([]query.BucketsRequest, 100)
	for i := range requests {
		requests[i].Selector = loss
	}
	out, err := f.service(time.Hour).BucketsMany(t.Context(), requests)
	if err != nil || f.lookups.Load() != 1 {
		t.Fatalf("%d look-ups, %v", f.lookups.Load(), err)
	}
	for _, o := range out {
		if mean, ok := query.Mean(o.Result.Buckets[0]); o.Err != nil || !ok || mean != 1.5 {
			t.Fatalf("got %+v", o)
		}
	}
}

// Whatever position the store gives comes back to it, and no cursor fits another
// request.
func TestCursorsCarryPositions(t *testing.T) {
	f := newFake()
	f.series = append(f.series, store.Series{ID: 8, Key: model.NewSeriesKey("other", "", nil), Kind: model.KindFloat})
	s := f.service(time.Hour)
	rapid.Check(t, func(t *rapid.T) {
		p := store.Position{
			Axis: rapid.Int64().Draw(t, "axis"), TimeNs: rapid.Int64().Draw(t, "time"),
			Seq: rapid.Uint64().Draw(t, "seq"), Row: rapid.Uint32().Draw(t, "row"),
		}
		copy(p.Writer[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "writer"))
		f.rows = &store.Rows{Next: &p}
		r := query.PointsRequest{Selector: loss}
		page, err := s.Points(context.Background(), r)
		if err != nil {
			t.Fatal(err)
		}
		r.Cursor = page.Next
		if _, err := s.Points(context.Background(), r); err != nil || *f.scanned.After != p {
			t.Fatalf("%+v came back as %+v, %v", p, f.scanned.After, err)
		}
		for _, wrong := range []query.PointsRequest{
			{Page: r.Page, Selector: query.Selector{Run: loss.Run, Metric: "other"}},
			{Page: r.Page, Selector: loss, Axis: model.AxisTime},
			{Page: r.Page, Selector: loss, Attempts: query.Attempts{All: true}},
		} {
			if _, err := s.Points(context.Background(), wrong); model.CodeOf(err) != model.CodeInvalid {
				t.Fatalf("%+v takes the cursor of another request: %v", wrong, err)
			}
		}
	})
}

func FuzzCursor(f *testing.F) {
	for _, seed := range []string{"", "AAAA", "AQAAAAA", strings.Repeat("A", 80), "!"} {
		f.Add(seed)
	}
	s := newFake().service(time.Hour)
	f.Fuzz(func(t *testing.T, cursor string) {
		_, err := s.Points(context.Background(), query.PointsRequest{Page: query.Page{Cursor: cursor}, Selector: loss})
		if err != nil && model.CodeOf(err) != model.CodeInvalid {
			t.Fatal(err)
		}
		if _, err := s.Series(context.Background(), query.SeriesRequest{Page: query.Page{Cursor: cursor}, Run: loss.Run}); err != nil && model.CodeOf(err) != model.CodeInvalid {
			t.Fatal(err)
		}
	})
}

func TestAFaultOfTheStoreKeepsItsName(t *testing.T) {
	f := newFake()
	f.fails = errors.New("segment 7 is damaged")
	if _, err := f.service(time.Hour).Points(t.Context(), query.PointsRequest{Selector: loss}); model.CodeOf(err) != model.CodeInternal || !strings.Contains(err.Error(), "segment 7") {
		t.Errorf("got %v", err)
	}
}

func TestATrashedRunIsNotRead(t *testing.T) {
	f := newFake()
	f.run.DeletedNs = 5
	s := f.service(time.Hour)
	if _, err := s.Points(t.Context(), query.PointsRequest{Selector: loss}); model.CodeOf(err) != model.CodeRunDeleted {
		t.Errorf("got %v", err)
	}
	if run, err := s.Locate(t.Context(), model.RunID{1}); err != nil || run.DeletedNs != 5 {
		t.Errorf("got %+v, %v", run, err)
	}
}

// A page has at most the points that the server has memory for, whatever is asked for.
func TestAPageOfPointsIsBounded(t *testing.T) {
	f := newFake()
	s := query.New(f, f, f, f, query.Limits{Points: 100})
	for _, c := range []struct{ asked, read int }{{1_000_000, 100}, {100, 100}, {7, 7}, {0, 100}} {
		if _, err := s.Points(t.Context(), query.PointsRequest{Page: query.Page{Limit: c.asked}, Selector: loss}); err != nil || f.scanned.Limit != c.read {
			t.Errorf("of %d points that were asked for %d were read, want %d: %v", c.asked, f.scanned.Limit, c.read, err)
		}
	}
}

func TestAllPointsEndsWithTheSeries(t *testing.T) {
	f := newFake()
	last := &store.Rows{}
	f.rows = &store.Rows{Next: &store.Position{Axis: 4, Row: 2}}
	pages := 0
	for page, err := range f.service(time.Hour).AllPoints(t.Context(), query.PointsRequest{Selector: loss}) {
		if err != nil {
			t.Fatal(err)
		}
		if pages++; page.Rows == last && *f.scanned.After != (store.Position{Axis: 4, Row: 2}) {
			t.Errorf("the second page begins behind %+v", f.scanned.After)
		}
		f.rows = last
	}
	if pages != 2 {
		t.Errorf("%d pages", pages)
	}
}

func (f *fake) ListRuns(context.Context, catalog.RunFilter) ([]catalog.Run, string, error) {
	return []catalog.Run{f.run}, "", nil
}

func (f *fake) Config(context.Context, model.RunID, int64) ([]catalog.Attribute, error) {
	return nil, nil
}

func TestARunsLineCarriesWhatStandsForItsMetrics(t *testing.T) {
	f := newFake()
	f.series = nil
	evaluation := map[string]string{"evaluation": "true"}
	for i, key := range []model.SeriesKey{
		model.NewSeriesKey("accuracy", "", evaluation),
		model.NewSeriesKey("loss", "", nil),
		model.NewSeriesKey("loss", "", evaluation),
		model.NewSeriesKey("reward", "", map[string]string{"env_id": "default"}),
		model.NewSeriesKey("reward", "", map[string]string{"env_id": "3"}),
		model.NewSeriesKey("time", model.ScaleEpisode, nil),
		model.NewSeriesKey("time", model.ScaleStep, nil),
	} {
		f.series = append(f.series, store.Series{Key: key, Kind: model.KindFloat, Last: &store.Point{Value: store.Number{Float: float64(i)}}})
	}
	page, err := f.service(time.Hour).Runs(t.Context(), query.RunsRequest{Workspace: "w", Project: "p"})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, s := range page.Runs[0].Summary {
		got[s.Metric] = s.Last.Value.Float
	}
	want := map[string]float64{"accuracy": 0, "loss": 1, "loss (evaluation)": 2, "reward": 3, "time": 6}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// long is a run whose writers come in pages.
type long struct {
	*fake
	pages int
}

func (l *long) GetRun(context.Context, model.RunID) (*catalog.Detail, error) {
	return &catalog.Detail{Run: l.run, Writers: []catalog.WriterInfo{{ID: model.WriterID{1}}}, Next: catalog.Rest{Writers: "2"}}, nil
}

func (l *long) Writers(_ context.Context, _ model.RunID, cursor string) ([]catalog.WriterInfo, string, error) {
	n, err := strconv.Atoi(cursor)
	if next := strconv.Itoa(n + 1); n < l.pages {
		return []catalog.WriterInfo{{ID: model.WriterID{byte(n)}}}, next, err
	}
	return []catalog.WriterInfo{{ID: model.WriterID{byte(n)}}}, "", err
}

func (l *long) RunStats(context.Context, model.RunID) (store.RunStats, error) {
	return store.RunStats{}, nil
}

// Spooled is one point of each.
func (l *long) Spooled(model.WriterID) (uint64, bool) { return 1, true }

// restarted is a run with very many attempts.
type restarted struct{ *long }

func (r restarted) GetRun(context.Context, model.RunID) (*catalog.Detail, error) {
	d := &catalog.Detail{Run: r.run}
	for i := range 50_000 {
		d.Attempts = append(d.Attempts, model.Attempt{Number: uint32(i + 1), Precedence: int64(-i)})
	}
	return d, nil
}

func (restarted) Config(context.Context, model.RunID, int64) ([]catalog.Attribute, error) {
	return nil, nil
}

// Its document waits for the memory that its attempts take.
func TestManyAttemptsWaitForMemory(t *testing.T) {
	f := restarted{&long{newFake(), 1}}
	f.series = nil
	admitted := 0
	d, err := query.New(f, f, f, f, query.Limits{}).Run(t.Context(), f.run.ID, func(context.Context) error { admitted++; return nil })
	if err != nil || admitted != 1 || len(d.Order) != 50_000 || d.Order[0] != 50_000 {
		t.Errorf("admitted %d times, %v", admitted, err)
	}
}

// All of a long list is counted, and read again by whoever shows it.
func TestALongListOfWritersIsWhole(t *testing.T) {
	const pages = 9
	l := &long{newFake(), pages}
	l.series = nil
	d, err := query.New(l, l, l, l, query.Limits{}).Run(t.Context(), l.run.ID, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		n := 0
		for w, err := range d.Writers {
			if n++; err != nil || w.ID[0] != byte(n) {
				t.Errorf("writer %d is %v, %v", n, w.ID, err)
			}
		}
		if n != pages || d.Ledger.Spooled == nil || *d.Ledger.Spooled != pages {
			t.Errorf("%d writers of %d, %+v", n, pages, d.Ledger)
		}
	}
}
