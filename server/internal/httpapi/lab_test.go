package httpapi_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/catalog/sqlite"
	"github.com/kymogram/kymogram/server/internal/httpapi"
	"github.com/kymogram/kymogram/server/internal/ingest"
	"github.com/kymogram/kymogram/server/internal/live"
	"github.com/kymogram/kymogram/server/internal/query"
	"github.com/kymogram/kymogram/server/internal/share"
	"github.com/kymogram/kymogram/server/internal/store/local"
)

// lab is the whole read path over a real engine and catalog, without the
// server's policy.
type lab struct {
	t       testing.TB
	engine  *local.Engine
	catalog *sqlite.DB
	ingest  *ingest.Service
	api     *httpapi.API
	http    *httptest.Server
	denied  atomic.Pointer[catalog.Scope] // what the caller lacks
	writers byte
	drain   context.CancelFunc
}

// Allow is the lab's authorizer.
func (l *lab) Allow(_ context.Context, scope catalog.Scope, workspace, project string) error {
	if lacks := l.denied.Load(); lacks != nil && *lacks == scope {
		return model.Errorf(model.CodePermission, "no %s in %s/%s", scope, workspace, project)
	}
	return nil
}

// Reach is everywhere.
func (l *lab) Reach(context.Context) (workspace, project string) { return "", "" }

// Totals is what live events say of a run.
func (l *lab) Totals(ctx context.Context, run model.RunID) (live.Summary, error) {
	stats, err := l.engine.RunStats(ctx, run)
	return live.Summary{Points: stats.Stored, Series: stats.Series, LastNs: stats.MaxTimeNs, Status: model.StatusRunning}, err
}

func newLab(t testing.TB, options httpapi.Options) *lab {
	t.Helper()
	l := &lab{t: t}
	dir := t.TempDir()
	var err error
	if l.engine, err = local.Open(t.Context(), local.Config{Dir: filepath.Join(dir, "store")}); err != nil {
		t.Fatal(err)
	}
	if l.catalog, err = sqlite.Open(t.Context(), filepath.Join(dir, "catalog.db")); err != nil {
		t.Fatal(err)
	}
	hub := live.New(l, live.Options{Beat: time.Millisecond, Kept: 8})
	l.ingest = ingest.New(ingest.Config{}, ingest.Deps{
		Points: l.engine, Updates: l.engine, Starts: l.engine, Catalog: l.catalog, Views: l.catalog, Artifacts: l.catalog, Names: l.catalog, Auth: l, Live: hub, Now: time.Now,
	})
	l.api = httpapi.New(query.New(l.engine, l.catalog, l, l.ingest, query.Limits{}), l.ingest, hub, options)
	mux := http.NewServeMux()
	for _, r := range l.api.Routes() {
		mux.Handle(r.Method+" "+r.Pattern, asCaller(r.Handler))
	}
	l.http = httptest.NewServer(mux)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- hub.Run(ctx) }()
	l.drain = func() { cancel(); <-done }
	t.Cleanup(func() {
		cancel()
		l.http.Close()
		if err := cmp.Or(l.engine.Close(), l.catalog.Close()); err != nil {
			t.Error(err)
		}
	})
	return l
}

// asCaller takes the caller's name from a header, as the server does from a key.
func asCaller(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(share.WithCaller(r.Context(), r.Header.Get("X-Caller"))))
	})
}

// writer opens a run's next writer.
func (l *lab) writer(run string, change func(*model.OpenRequest)) *writer {
	l.t.Helper()
	l.writers++
	r := model.OpenRequest{
		Writer: model.WriterID{l.writers, 7: 1}, Workspace: "lab", Project: "digits", RunName: run, OrchestrationID: "job-" + run,
		ResumeStrategy: model.ResumeAllow, Host: "box", PID: 7, OpenedNs: time.Now().UnixNano(), SDK: "test/1",
	}
	if change != nil {
		change(&r)
	}
	s, err := l.ingest.Join(l.t.Context(), r)
	if err != nil {
		l.t.Fatalf("open %s: %v", run, err)
	}
	l.t.Cleanup(s.Close)
	return &writer{l: l, session: s, id: r.Writer, run: s.Opened.Run, attempt: s.Opened.Attempt}
}

// writer appends points and remembers them: the oracle.
type writer struct {
	l       *lab
	session *ingest.Session
	id      model.WriterID
	run     model.RunID
	attempt uint32
	seq     uint64
	logged  []point
}

// point is one value as the test logged it. The value is a float64, int64,
// string or []byte.
type point struct {
	series  string
	axes    map[model.Axis]int64
	timeNs  int64
	value   any
	writer  model.WriterID
	attempt uint32
	seq     uint64
}

// log appends points one by one, each a record of its own, in one batch.
func (w *writer) log(key model.SeriesKey, points ...point) {
	w.l.t.Helper()
	b := &model.Batch{First: w.seq + 1, Last: w.seq + uint64(len(points))}
	for _, p := range points {
		w.seq++
		p.series, p.writer, p.attempt, p.seq = key.String(), w.id, w.attempt, w.seq
		w.logged = append(w.logged, p)
		b.Groups = append(b.Groups, rowGroup(key, p))
	}
	ack, err := w.session.Append(w.l.t.Context(), b)
	if err != nil || len(ack.Refused) > 0 || ack.Mark != w.seq {
		w.l.t.Fatalf("append: %+v, %v", ack, err)
	}
}

func rowGroup(key model.SeriesKey, p point) model.RowGroup {
	g := model.RowGroup{TimeNs: []int64{p.timeNs}, Seq: []uint64{p.seq}}
	for _, axis := range model.Axes() {
		if v, ok := p.axes[axis]; ok {
			g.Axes = append(g.Axes, model.AxisColumn{Axis: axis, Values: []int64{v}})
		}
	}
	c := model.Column{Series: key}
	switch v := p.value.(type) {
	case float64:
		c.Kind, c.Floats = model.KindFloat, []float64{v}
	case int64:
		c.Kind, c.Ints = model.KindInt, []int64{v}
	case string:
		c.Kind, c.Texts = model.KindText, []string{v}
	case []byte:
		c.Kind, c.Docs = model.KindHistogram, [][]byte{v}
	}
	g.Columns = []model.Column{c}
	return g
}

// sorted is what a scan by an axis must give: naive.
func sorted(points []point, axis model.Axis) []point {
	out := slices.DeleteFunc(slices.Clone(points), func(p point) bool { _, ok := x(p, axis); return !ok })
	slices.SortStableFunc(out, func(a, b point) int {
		ax, _ := x(a, axis)
		bx, _ := x(b, axis)
		return cmp.Or(cmp.Compare(ax, bx), cmp.Compare(a.timeNs, b.timeNs), strings.Compare(a.writer.String(), b.writer.String()), cmp.Compare(a.seq, b.seq))
	})
	return out
}

func x(p point, axis model.Axis) (int64, bool) {
	if axis == model.AxisTime {
		return p.timeNs, true
	}
	v, ok := p.axes[axis]
	return v, ok
}

func steps(from, n int, value func(i int) any) []point {
	out := make([]point, n)
	for i := range out {
		out[i] = point{axes: map[model.Axis]int64{model.AxisStep: int64(from + i)}, timeNs: 1_700_000_000_000_000_000 + int64(i)*1e6, value: value(i)}
	}
	return out
}

// answer is a response that was read to its end.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (l *lab) do(method, path string, query url.Values, body string) answer {
	l.t.Helper()
	address := l.http.URL + path
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	r, err := http.NewRequestWithContext(l.t.Context(), method, address, strings.NewReader(body))
	if err != nil {
		l.t.Fatal(err)
	}
	response, err := l.http.Client().Do(r)
	if err != nil {
		l.t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		l.t.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, data}
}

// get reads a JSON document; every number stays text.
func (l *lab) get(path string, query url.Values) map[string]any {
	l.t.Helper()
	a := l.do("GET", path, query, "")
	if a.status != http.StatusOK {
		l.t.Fatalf("GET %s?%s: %d %s", path, query.Encode(), a.status, a.body)
	}
	return decode(l.t, a.body)
}

func decode(t testing.TB, body []byte) map[string]any {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(string(body)))
	dec.UseNumber()
	var doc map[string]any
	if err := dec.Decode(&doc); err != nil {
		t.Fatalf("not JSON: %v\n%s", err, body)
	}
	return doc
}

// refused checks an answer's status, code and what its message or hint says.
func (l *lab) refused(a answer, status int, code model.Code, says string) {
	l.t.Helper()
	var doc struct{ Error model.Error }
	if err := json.Unmarshal(a.body, &doc); err != nil || a.status != status || doc.Error.Code != code ||
		!strings.Contains(doc.Error.Message+"\n"+doc.Error.Hint, says) {
		l.t.Errorf("got %d %s, want %d %s saying %q", a.status, a.body, status, code, says)
	}
}

func (w *writer) path(rest string) string { return "/api/v1/runs/" + w.run.String() + "/" + rest }

func values(pairs ...string) url.Values {
	v := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		v.Add(pairs[i], pairs[i+1])
	}
	return v
}

func text(v any) string { return fmt.Sprint(v) }

func textLog(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }
