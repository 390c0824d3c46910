package httpapi_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/state"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/httpapi"
	"github.com/kymogram/kymogram/server/internal/query"
	"github.com/kymogram/kymogram/server/internal/share"
	"github.com/kymogram/kymogram/server/internal/statelog"
	"github.com/kymogram/kymogram/server/internal/store"
)

// An answer that its client does not read holds no more memory than its caller was
// counted for, in every format and on every route; and it was not counted for much more.
func TestWhatAnAnswerHoldsIsCounted(t *testing.T) {
	states, err := statelog.Open(t.Context(), filepath.Join(t.TempDir(), "state.db"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = states.Close() })
	l := newLab(t, httpapi.Options{States: states, Memory: 1 << 40, Stall: time.Hour})
	run := l.fullRun()
	l.fullProject(60)
	l.fullViews()
	one := `{"run":"` + run.run.String() + `","metric":"narrow","n":1000}`
	many := `{"queries":[` + one + strings.Repeat(","+one, 39) + `]}`
	measured := map[string]bool{}
	for _, read := range []struct{ route, path, body string }{
		{"GET /api/v1/runs/{id}/points", run.path("points?metric=narrow&limit=40000"), ""},
		{"GET /api/v1/runs/{id}/points", run.path("points?metric=narrow&limit=40000&format=csv"), ""},
		{"GET /api/v1/runs/{id}/points", run.path("points?metric=narrow&limit=40000&format=arrow"), ""},
		{"GET /api/v1/runs/{id}/points", run.path("points?metric=narrow&limit=40000&format=parquet"), ""},
		{"GET /api/v1/runs/{id}/points", run.path("points?metric=wide&limit=20000"), ""},
		{"GET /api/v1/runs/{id}/points", run.path("points?metric=wide&limit=20000&include_inherited=1"), ""},
		{"GET /api/v1/runs/{id}/points", run.path("points?metric=wide&limit=20000&format=arrow"), ""},
		{"GET /api/v1/runs/{id}/points", run.path("points?metric=text&limit=1000"), ""},
		{"GET /api/v1/runs/{id}/buckets", run.path("buckets?metric=narrow&n=20000"), ""},
		{"POST /api/v1/buckets", "/api/v1/buckets", many},
		{"POST /api/v1/overviews", "/api/v1/overviews", `{"runs":["` + run.run.String() + `"],"limit":999,"preview":64}`},
		{"GET /api/v1/runs/{id}/series", run.path("series?q=%5Es/&limit=999"), ""},
		{"GET /api/v1/runs/{id}/series", run.path("series?q=%5Es/&limit=999&preview=64"), ""},
		{"GET /api/v1/projects/{workspace}/{project}/runs", "/api/v1/projects/lab/sums/runs?limit=60", ""},
		{"GET /api/v1/runs/{id}", "/api/v1/runs/" + run.run.String(), ""},
		{"GET /api/v1/projects/{workspace}/{project}/state", "/api/v1/projects/lab/digits/state", ""},
		{"GET /api/v1/projects/{workspace}/{project}/views", "/api/v1/projects/lab/digits/views", ""},
		{"GET /api/v1/projects/{workspace}/{project}/views/{name}", "/api/v1/projects/lab/digits/views/v0", ""},
	} {
		measured[read.route] = true
		held, counted := l.unreadHolds(strings.Fields(read.route)[0], read.path, read.body)
		if held > counted || counted > 4*held {
			t.Errorf("%s: an answer holds %d bytes and is counted as %d", read.path, held, counted)
		}
	}
	l.pictureHolds(t, run)
	measured["POST /api/v1/kymograph"] = true
	for _, r := range l.api.Routes() {
		route := r.Method + " " + r.Pattern
		if r.Scope == "read" && !measured[route] && withoutShare()[route] == "" && notMeasured()[route] == "" {
			t.Errorf("%s: measure what its answer holds", route)
		}
	}
}

// notMeasured are the routes whose answers are counted and not measured above.
func notMeasured() map[string]string {
	const log = "/api/v1/projects/{workspace}/{project}/log/"
	return map[string]string{
		"GET /api/v1/projects/{workspace}/{project}/groups": "most is held before the answer leaves: the columns of all runs",
		"GET /api/v1/runs/{id}/renderings":                  "a page of videos ends at 1 MiB in the catalog",
		"GET /api/v1/runs/{id}/files":                       "a page of files ends at 1 MiB in the catalog",
		"GET /api/v1/runs/{id}/state":                       "two records of a list of records",
		"GET /api/v1/runs/{id}/state/history":               "as the list of records",
		"GET " + log + "leaves":                             "as the list of records",
		"GET " + log + "head":                               "some kilobytes",
		"GET " + log + "proof":                              "some kilobytes",
		"GET " + log + "consistency":                        "some kilobytes",
	}
}

// lastRead stops the last of some reads of buckets until it is told to go on.
type lastRead struct {
	query.Store
	reads         atomic.Int64
	stopped, goOn chan struct{}
}

func (r *lastRead) Buckets(ctx context.Context, q store.BucketsRequest) ([]store.Bucket, error) {
	if r.reads.Add(-1) == 0 {
		close(r.stopped)
		<-r.goOn
	}
	return r.Store.Buckets(ctx, q)
}

// pictureHolds measures a kymograph when its last row is read: most of it is the values
// of the cells, which are gone when the answer leaves.
func (l *lab) pictureHolds(t *testing.T, run *writer) {
	t.Helper()
	const rows = 999
	list := make([]string, rows)
	for i := range list {
		list[i] = fmt.Sprintf(`{"metric":"s/%d","labels":{"rank":"0"}}`, i)
	}
	body := `{"run":"` + run.run.String() + `","columns":1200,"from":0,"to":63,"rows":[` + strings.Join(list, ",") + `]}`
	read := &lastRead{Store: l.engine, stopped: make(chan struct{}), goOn: make(chan struct{})}
	read.reads.Store(rows)
	api := httpapi.New(query.New(read, l.catalog, l, l.ingest, query.Limits{}), l.ingest, nil, httpapi.Options{Memory: 1 << 40})
	mux := http.NewServeMux()
	for _, r := range api.Routes() {
		mux.Handle(r.Method+" "+r.Pattern, r.Handler)
	}
	before := liveHeap()
	answer := httptest.NewRecorder()
	var asked sync.WaitGroup
	asked.Go(func() {
		mux.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), "POST", "/api/v1/kymograph", strings.NewReader(body)))
	})
	<-read.stopped
	held, counted := liveHeap()-before, api.Stats().Bytes
	close(read.goOn)
	asked.Wait()
	if answer.Code != http.StatusOK || held > counted || counted > 4*held {
		t.Errorf("a kymograph holds %d bytes and is counted as %d: %d %.200s", held, counted, answer.Code, answer.Body)
	}
	t.Logf("a kymograph of %d × 1200 holds %d bytes, counted are %d", rows, held, counted)
}

// fullRun has long series, many series, and long lists.
func (l *lab) fullRun() *writer {
	l.t.Helper()
	w := l.writer("full", func(r *model.OpenRequest) {
		for i := range 4_000 {
			r.Initial = append(r.Initial, model.Update{Op: model.OpSetAttribute, Path: fmt.Sprintf("config/%04d", i), Value: model.StringValue(strings.Repeat("v", 40))},
				model.Update{Op: model.OpLog, Path: "event", Text: strings.Repeat("t", 100)})
		}
	})
	w.logMany(model.NewSeriesKey("narrow", "", nil), 40_000)
	wide := model.RowGroup{Columns: []model.Column{{Series: model.NewSeriesKey("wide", "", nil), Kind: model.KindFloat}}}
	for _, axis := range model.Axes() {
		wide.Axes = append(wide.Axes, model.AxisColumn{Axis: axis})
	}
	for i := range 20_000 {
		wide.TimeNs, wide.Columns[0].Floats = append(wide.TimeNs, int64(i)), append(wide.Columns[0].Floats, float64(i))
		for a := range wide.Axes {
			wide.Axes[a].Values = append(wide.Axes[a].Values, int64(i))
		}
	}
	w.append(wide)
	for i := range 8 {
		w.log(model.NewSeriesKey("text", "", nil), steps(i, 1, func(int) any { return strings.Repeat("<\x01", 500_000) })...)
	}
	var each []model.RowGroup
	for i := range 64 {
		g := model.RowGroup{TimeNs: []int64{int64(i)}, Axes: []model.AxisColumn{{Axis: model.AxisStep, Values: []int64{int64(i)}}}}
		for s := range 999 {
			g.Columns = append(g.Columns, model.Column{Series: model.NewSeriesKey(fmt.Sprintf("s/%d", s), "", map[string]string{"rank": "0"}), Kind: model.KindFloat, Floats: []float64{1.5}})
		}
		each = append(each, g)
	}
	w.append(each...)
	payload := fmt.Sprintf(`{"a":"%s"}`, strings.Repeat("x", state.MaxPayload-100))
	for i := range 5 {
		name := fmt.Sprintf("r%d", i)
		path := "/api/v1/runs/" + l.writer(name, nil).run.String() + "/state"
		if a := l.do("POST", path, nil, asJSON(l.t, stateRecord(l.t, name, 5, state.Hash{}, payload))); a.status != http.StatusCreated {
			l.t.Fatalf("%d %s", a.status, a.body)
		}
	}
	return w
}

// fullProject has runs with all the last values that a list shows.
func (l *lab) fullProject(runs int) {
	l.t.Helper()
	for i := range runs {
		w := l.writer(fmt.Sprint("sum ", i), func(r *model.OpenRequest) { r.Project, r.Writer[6] = "sums", byte(i+1) })
		g := model.RowGroup{TimeNs: []int64{1}, Axes: []model.AxisColumn{{Axis: model.AxisStep, Values: []int64{1}}}}
		for m := range 100 {
			g.Columns = append(g.Columns, model.Column{Series: model.NewSeriesKey(fmt.Sprintf("metric/%d", m), "", nil), Kind: model.KindFloat, Floats: []float64{1.5}})
		}
		w.append(g)
		var all []catalog.Summary
		for m := range 100 {
			all = append(all, catalog.Summary{Metric: fmt.Sprintf("metric/%d", m), Points: 1, Last: *model.FloatValue(1.5), Min: *model.FloatValue(1.5), Max: *model.FloatValue(1.5)})
		}
		if err := l.catalog.PutSummaries(l.t.Context(), w.run, all, time.Now()); err != nil {
			l.t.Fatal(err)
		}
	}
}

// append sends row groups as one batch.
func (w *writer) append(groups ...model.RowGroup) {
	w.l.t.Helper()
	b := &model.Batch{First: w.seq + 1, Groups: groups}
	for i := range groups {
		for range groups[i].TimeNs {
			w.seq++
			groups[i].Seq = append(groups[i].Seq, w.seq)
		}
	}
	b.Last = w.seq
	if ack, err := w.session.Append(w.l.t.Context(), b); err != nil || len(ack.Refused) > 0 {
		w.l.t.Fatalf("append: %+v, %v", ack, err)
	}
}

// unreadHolds is what an answer holds while its client reads nothing, and what its caller
// is counted for.
func (l *lab) unreadHolds(method, path, body string) (held, counted int64) {
	l.t.Helper()
	const readers = 2
	if first := l.do(method, path, nil, body); first.status != http.StatusOK {
		l.t.Fatalf("%s: %d %.200s", path, first.status, first.body)
	}
	mux := http.NewServeMux()
	for _, r := range l.api.Routes() {
		mux.Handle(r.Method+" "+r.Pattern, r.Handler)
	}
	before := liveHeap()
	read := make(chan struct{})
	var stuck, ended sync.WaitGroup
	stuck.Add(readers)
	for i := range readers {
		ended.Go(func() {
			r := httptest.NewRequestWithContext(share.WithCaller(l.t.Context(), fmt.Sprint(i)), method, path, strings.NewReader(body))
			r.Header.Set("Accept-Encoding", "gzip, zstd") // as browsers do
			mux.ServeHTTP(&stuckWriter{header: http.Header{}, stuck: sync.OnceFunc(stuck.Done), read: read}, r)
		})
	}
	stuck.Wait()
	held, counted = liveHeap()-before, l.api.Stats().Bytes
	close(read)
	ended.Wait()
	return held / readers, counted / readers
}

func liveHeap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what pools kept
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// stuckWriter is a client that takes the head of an answer, and nothing until it is told to.
type stuckWriter struct {
	header http.Header
	taken  int
	stuck  func()
	read   chan struct{}
}

func (s *stuckWriter) Header() http.Header { return s.header }
func (s *stuckWriter) WriteHeader(int)     {}

func (s *stuckWriter) Write(p []byte) (int, error) {
	const head = 16 // a compressor starts behind it
	if s.taken += len(p); s.taken > head {
		s.stuck()
		<-s.read
	}
	return len(p), nil
}
