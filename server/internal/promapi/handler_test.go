package promapi

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/query"
	"github.com/kymogram/kymogram/server/internal/store"
)

// endless is a read path with as many runs, series and points as somebody reads.
type endless struct {
	runs, series int
	points       int64 // of a series
	read         atomic.Int64
	ended        atomic.Bool
}

func (e *endless) HasProject(context.Context, string, string) (bool, error) { return true, nil }

func (e *endless) PlacedRuns(ctx context.Context, _ query.RunsFilter) iter.Seq2[query.PlacedRun, error] {
	return func(yield func(query.PlacedRun, error) bool) {
		for i := range e.runs {
			if !yield(query.PlacedRun{ID: model.RunID{byte(i >> 8), byte(i)}, Workspace: "w", Project: "p", Name: fmt.Sprint("run ", i)}, nil) {
				return
			}
		}
	}
}

func (e *endless) SelectSeries(ctx context.Context, q query.Selection) iter.Seq2[query.Selected, error] {
	return func(yield func(query.Selected, error) bool) {
		for i := range q.Runs {
			for k := range e.series {
				key := model.NewSeriesKey("m", "", map[string]string{"k": fmt.Sprint(k)})
				if q.Match(key) && !yield(query.Selected{Run: &q.Runs[i], Series: &store.Series{Key: key, Kind: model.KindFloat}}, nil) {
					return
				}
			}
		}
	}
}

func (e *endless) Select(ctx context.Context, q query.Selection) iter.Seq2[query.Selected, error] {
	return func(yield func(query.Selected, error) bool) {
		for found := range e.SelectSeries(ctx, q) {
			for left, at := e.points, q.From; left > 0; left -= store.SelectRows {
				if ctx.Err() != nil {
					e.ended.Store(true)
					yield(query.Selected{}, model.Errorf(model.CodeTimeout, "the scan was stopped: %v", ctx.Err()))
					return
				}
				n := min(left, store.SelectRows)
				rows := &store.Rows{Values: model.Column{Kind: model.KindFloat, Floats: make([]float64, n)}}
				for range n {
					at += int64(time.Millisecond)
					rows.TimeNs = append(rows.TimeNs, at)
				}
				e.read.Add(n)
				found.Rows = rows
				if !yield(found, nil) {
					return
				}
			}
		}
	}
}

type answer struct {
	Status, ErrorType, Error string
	Data                     any
	code                     int
}

func ask(t *testing.T, h *Handler, ctx context.Context, path string, form url.Values) (out answer) { //nolint:revive // t comes first
	t.Helper()
	mux := http.NewServeMux()
	for pattern, route := range h.Handlers() {
		mux.Handle(pattern, route)
	}
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/prometheus"+path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, r)
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil {
		t.Fatalf("%s %v: %d %v %.200s", path, form, w.Code, err, w.Body)
	}
	out.code = w.Code
	return out
}

func span(query, step string) url.Values {
	return url.Values{"query": {query}, "start": {"1700000000"}, "end": {"1700010000"}, "step": {step}}
}

// What would read or make more than the memory of a request ends early, with an error that
// names the limit.
func TestALargeQueryNamesItsLimit(t *testing.T) {
	const memory = 8 << 20
	most := int64(memory / readPart * 2 / sampleBytes)
	for _, c := range []struct {
		what string
		*endless
		path string
		form url.Values
	}{
		{"10⁹ points", &endless{runs: 1, series: 1, points: 1e9}, "/api/v1/query", url.Values{"query": {"sum_over_time(m[1y])"}}},
		{"10⁹ points of many series", &endless{runs: 1000, series: 1000, points: 1000}, "/api/v1/query_range", span("m", "10")},
		{"10⁶ series", &endless{runs: 1000, series: 1000, points: 1}, "/api/v1/query", url.Values{"query": {"count(m)"}}},
		{"10⁶ series without points", &endless{runs: 1000, series: 1000}, "/api/v1/series", url.Values{"match[]": {"m"}}},
		{"10⁶ names", &endless{runs: 1, series: 1e6}, "/api/v1/label/k/values", nil},
		{"10⁶ runs", &endless{runs: 1e6}, "/api/v1/query", url.Values{"query": {"m"}}},
		{"what the engine makes", &endless{runs: 1, series: 1, points: 2}, "/api/v1/query", url.Values{"query": {"sum_over_time(vector(1)[30d:1s])"}}},
	} {
		h := New(c.endless, Options{Memory: memory})
		got := ask(t, h, t.Context(), c.path, c.form)
		if got.code != http.StatusUnprocessableEntity || got.ErrorType != "execution" || !strings.Contains(got.Error, fmt.Sprint(most)) {
			t.Errorf("%s: %d %+v", c.what, got.code, got)
		}
		if read := c.read.Load(); read > most+3*store.SelectRows+small {
			t.Errorf("%s: %d points were read", c.what, read)
		}
	}
}

// What would compute for long ends at once, though nothing of it takes memory: steps without a
// point, and points that functions read again at each step. The answer names the limit.
func TestLongWorkNamesItsLimit(t *testing.T) {
	few, none := &endless{runs: 100, series: 1, points: 1}, &endless{}
	for _, c := range []struct {
		*endless
		path string
		form url.Values
	}{
		{few, "/api/v1/query", url.Values{"query": {"sum_over_time(m[1y:1s])"}}},
		{few, "/api/v1/query", url.Values{"query": {"max(m) + count(max_over_time((m > 1)[30d:1s]))"}}},
		{few, "/api/v1/query", url.Values{"query": {"sum_over_time(m[100y:])"}}},
		{few, "/api/v1/query", url.Values{"query": {"quantile_over_time(0.5, m[1d:1s])[1d:1s]"}}},
		{none, "/api/v1/query", url.Values{"query": {"sum_over_time(sum(nothing)[100y:1ms])"}}},
		{none, "/api/v1/query", url.Values{"query": {"count_over_time((a and b)[100y:1ms])"}}},
		{none, "/api/v1/query", url.Values{"query": {strings.Repeat("sum_over_time(", 60) + "a" + strings.Repeat("[290y:1h])", 60)}}},
		{few, "/api/v1/query_range", span("quantile_over_time(0.5, m[1d:1s])", "1")},
		{&endless{runs: 1, series: 1, points: 100_000}, "/api/v1/query_range", span("quantile_over_time(0.5, m[1d])", "1")},
	} {
		began := time.Now()
		got := ask(t, New(c.endless, Options{Memory: 64 << 20}), t.Context(), c.path, c.form)
		if got.code != http.StatusUnprocessableEntity || got.ErrorType != "execution" || !strings.Contains(got.Error, "200000000") {
			t.Errorf("%.200v: %d %+v", c.form, got.code, got)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("%.200v took %s", c.form, took)
		}
	}
	for _, query := range []string{"avg_over_time(m[1d:1m])", "sum_over_time(m[1y:1m])", "quantile_over_time(0.9, m[1h:10s] @ end())", "max_over_time(m[30d:1s] @ 1700000000)"} {
		if got := ask(t, New(&endless{runs: 1, series: 1, points: 1}, Options{Memory: 64 << 20}), t.Context(), "/api/v1/query_range", span(query, "60")); got.code != http.StatusOK {
			t.Errorf("%s: %d %+v", query, got.code, got)
		}
	}
}

// doubled is an expression whose label k has 2^n times its length.
func doubled(e string, n int) string {
	return strings.Repeat("label_replace(", n) + e + strings.Repeat(`, "k", "$1$1", "k", "(.*)")`, n)
}

// Texts that functions make of labels count as memory, before they are made.
func TestLongLabelsNameTheLimit(t *testing.T) {
	const memory = 16 << 20
	name := strings.Repeat("n", 20_000)
	e := &endless{runs: 10, series: 100, points: 1}
	for _, query := range []string{
		doubled("m", 18),
		doubled(`label_replace(vector(1), "k", "xx", "", "")`, 40),
		doubled(`absent(m{k="abcdefghijkl"})`, 28),
		fmt.Sprintf(`label_replace(m, "a", %q, "k", "(.*)")`, name),
		fmt.Sprintf(`label_replace(m, %q, "$1", "k", "(.*)")`, name),
		fmt.Sprintf(`label_join(m, "a", (%q), "k", "run")`, name),
		`label_join(m, "k", "", "k"` + strings.Repeat(`, "k"`, 4000) + `)`,
		fmt.Sprintf("count_values(%q, m)", name),
		fmt.Sprintf(`m * on () group_left (a) label_replace(vector(1), "a", %q, "", "")`, name),
		fmt.Sprintf(`m * on () group_left (%s) vector(1)`, name),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got := ask(t, New(e, Options{Memory: memory}), t.Context(), "/api/v1/query", url.Values{"query": {query}})
		runtime.ReadMemStats(&after)
		if got.code != http.StatusUnprocessableEntity || got.ErrorType != "execution" || !strings.Contains(got.Error, "16384 KiB") {
			t.Errorf("%.100s: %d %.300v", query, got.code, got)
		}
		if made := after.TotalAlloc - before.TotalAlloc; made > 2*memory {
			t.Errorf("%.100s made %d bytes", query, made)
		}
	}
	for query, series := range map[string]int{
		doubled("m", 6): 1000,
		`label_replace(m, "a", "$1-$2", "k", "(.)(.*)")`:                    1000,
		`label_join(m, "a", "-", "run", "k")`:                               1000,
		`m * on (workspace, project, run) group_left (a) kymogram_run_info`: 1000,
		`count_values("v", m)`:                                              1,
		`count by (a) (label_replace(m, "a", "$1", "run", "run (.).*"))`:    10,
	} {
		got := ask(t, New(e, Options{Memory: memory}), t.Context(), "/api/v1/query", url.Values{"query": {query}})
		data, _ := got.Data.(map[string]any)
		if list, _ := data["result"].([]any); len(list) != series {
			t.Errorf("%.100s: %d, %d series, want %d: %.300v", query, got.code, len(list), series, got)
		}
	}
}

// Nothing of memory is kept, whatever a request ends with, and never more than its share.
func TestMemoryIsGivenBack(t *testing.T) {
	held, most := int64(0), int64(0)
	h := New(&endless{runs: 3, series: 100, points: 1000}, Options{Memory: 4 << 20, Reserve: func(_ context.Context, n int64) (func(), error) {
		held += n
		most = max(most, held)
		return func() { held -= n }, nil
	}})
	for _, form := range []url.Values{{"query": {"1"}}, {"query": {"m"}}, {"query": {"sum_over_time(m[1y])"}}, {"query": {"("}}, {"query": {"m"}, "time": {"x"}}} {
		ask(t, h, t.Context(), "/api/v1/query", form)
		if held != 0 {
			t.Fatalf("%v: %d bytes are held", form, held)
		}
	}
	if most != 4<<20 {
		t.Errorf("at most %d bytes were held", most)
	}
}

// A request ends with its client, with its time and with a timeout of its own.
func TestARequestEnds(t *testing.T) {
	slow := &endless{runs: 1, series: 1, points: math.MaxInt64}
	h := New(slow, Options{Memory: 1 << 50, Time: 50 * time.Millisecond})
	began := time.Now()
	got := ask(t, h, t.Context(), "/api/v1/query", url.Values{"query": {"count_over_time(m{__axis_window__=\"1\"}[1y])"}})
	if got.code != http.StatusServiceUnavailable || got.ErrorType != "timeout" || !slow.ended.Load() || time.Since(began) > 5*time.Second {
		t.Errorf("after its time: %d %+v, %s", got.code, got, time.Since(began))
	}
	h = New(slow, Options{Memory: 1 << 50})
	got = ask(t, h, t.Context(), "/api/v1/query", url.Values{"query": {"count_over_time(m{__axis_window__=\"1\"}[1y])"}, "timeout": {"30ms"}})
	if got.code != http.StatusServiceUnavailable || got.ErrorType != "timeout" {
		t.Errorf("after the timeout asked for: %d %+v", got.code, got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(30*time.Millisecond, cancel)
	got = ask(t, h, ctx, "/api/v1/query", url.Values{"query": {"count_over_time(m{__axis_window__=\"1\"}[1y])"}})
	if got.code != statusGone || got.ErrorType != "canceled" {
		t.Errorf("canceled: %d %+v", got.code, got)
	}
}

// Bad input is a 400 that says what is wrong, and nothing takes long.
func TestHostileForms(t *testing.T) {
	h := New(&endless{runs: 2, series: 2, points: 2}, Options{Memory: 4 << 20})
	long := strings.Repeat("1+", 300) + "1"
	for _, c := range []struct {
		path string
		form url.Values
	}{
		{"/api/v1/query", nil},
		{"/api/v1/query", url.Values{"query": {strings.Repeat("(", 30_000)}}},
		{"/api/v1/query", url.Values{"query": {long}}},
		{"/api/v1/query", url.Values{"query": {strings.Repeat("abs(", 300) + "m" + strings.Repeat(")", 300)}}},
		{"/api/v1/query", url.Values{"query": {strings.Repeat("m", 40_000)}}},
		{"/api/v1/query", url.Values{"query": {`m{a=~"(x{1000}){1000}"}`}}},
		{"/api/v1/query", url.Values{"query": {`m{a=~"["}`}}},
		{"/api/v1/query", url.Values{"query": {"m\x00"}}},
		{"/api/v1/query", url.Values{"query": {"{}"}}},
		{"/api/v1/query", url.Values{"query": {`{__axis_window__=~".*"}`}}},
		{"/api/v1/query", url.Values{"query": {"m"}, "time": {"NaN"}}},
		{"/api/v1/query", url.Values{"query": {"m"}, "lookback_delta": {"-5m"}}},
		{"/api/v1/query", url.Values{"query": {"m"}, "lookback_delta": {"1e300"}}},
		{"/api/v1/query", url.Values{"query": {"m"}, "timeout": {"-1"}}},
		{"/api/v1/query", url.Values{"query": {"m"}, "limit": {"-1"}}},
		{"/api/v1/query", url.Values{"query": {"m"}, "x": {strings.Repeat("y", maxBody)}}},
		{"/api/v1/query_range", span("m", "")},
		{"/api/v1/query_range", span("m", "0")},
		{"/api/v1/query_range", span("m", "-1")},
		{"/api/v1/query_range", span("m", "1ns")},
		{"/api/v1/query_range", span("m", "1e-9")},
		{"/api/v1/query_range", span("m", "0.1")},
		{"/api/v1/query_range", span("m", "NaN")},
		{"/api/v1/query_range", url.Values{"query": {"m"}, "start": {"5"}, "end": {"4"}, "step": {"1"}}},
		{"/api/v1/query_range", url.Values{"query": {"m"}, "start": {"-1e300"}, "end": {"1e300"}, "step": {"1"}}},
		{"/api/v1/query_range", url.Values{"query": {"m[5m]"}, "start": {"1"}, "end": {"4"}, "step": {"1"}}},
		{"/api/v1/series", nil},
		{"/api/v1/series", url.Values{"match[]": {"{}"}}},
		{"/api/v1/series", url.Values{"match[]": {`{a=~".*"}`}}},
		{"/api/v1/series", url.Values{"match[]": make([]string, 200)}},
		{"/api/v1/label/%ff/values", nil},
	} {
		began := time.Now()
		got := ask(t, h, t.Context(), c.path, c.form)
		if got.code != http.StatusBadRequest || got.ErrorType != "bad_data" || got.Error == "" || len(got.Error) > 2000 {
			t.Errorf("%s %.100v: %d %.300v", c.path, c.form, got.code, got)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("%s %.100v took %s", c.path, c.form, took)
		}
	}
	for _, form := range []url.Values{ // odd, and answered
		{"query": {"m"}, "time": {"-1e300"}},
		{"query": {"m"}, "time": {"1e300"}},
		{"query": {"m offset 290y"}},
		{"query": {"m offset -290y"}},
		{"query": {"m @ 1e15"}},
		{"query": {"m @ -1e15"}},
		{"query": {"sum_over_time(m[290y])"}, "time": {"1700000000"}},
		{"query": {"m[1ms]"}},
		{"query": {"m"}, "lookback_delta": {"100y"}},
		{"query": {"kymogram_run_info[1ms]"}, "lookback_delta": {"1ms"}},
		{"query": {"count_over_time(kymogram_run_info[100y])"}},
		{"query": {"count_over_time(kymogram_run_info[290y])"}, "lookback_delta": {"1ms"}},
		{"query": {`m{k=~"` + strings.Repeat("a|", 5000) + `b"}`}},
	} {
		began := time.Now()
		if got := ask(t, h, t.Context(), "/api/v1/query", form); got.code != http.StatusOK && got.code != http.StatusUnprocessableEntity {
			t.Errorf("%.100v: %d %.300v", form, got.code, got)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("%.100v took %s", form, took)
		}
	}
	got := ask(t, h, t.Context(), "/api/v1/query_range", url.Values{"query": {"m"}, "start": {"-1e300"}, "end": {"1e300"}, "step": {"1e9"}})
	if got.code != http.StatusOK {
		t.Errorf("the longest range: %d %.300v", got.code, got)
	}
}
