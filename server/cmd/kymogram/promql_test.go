package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/promql"
	promstorage "github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/testkit/prometheus"
	"github.com/kymogram/kymogram/server/internal/auth"
)

// promStart is where the points of a test begin, Unix ms. They are at half seconds: a range
// begins at none of them, since 2 takes in the sample at its very beginning and 3 does not.
var promStart = time.Now().Add(-2 * time.Hour).Truncate(time.Second).UnixMilli()

// randomSeries are counters, gauges and a histogram of a few runs and hosts, scraped at times
// of their own, with gaps, restarts, NaN, ±Inf and staleness markers.
func randomSeries(seed uint64) (out []prompb.TimeSeries) {
	r := rand.New(rand.NewPCG(seed, 17))
	add := func(next func(i int) float64, pairs ...string) {
		ts := prompb.TimeSeries{}
		for i := 0; i < len(pairs); i += 2 {
			ts.Labels = append(ts.Labels, prompb.Label{Name: pairs[i], Value: pairs[i+1]})
		}
		slices.SortFunc(ts.Labels, func(a, b prompb.Label) int { return strings.Compare(a.Name, b.Name) })
		at := promStart + 500 + 1000*r.Int64N(20)
		for i := range 160 {
			at += 14_000 + 1000*r.Int64N(3)
			if r.IntN(60) == 0 {
				at += 1000 * r.Int64N(400)
			}
			if at > promStart+3_000_000 {
				break
			}
			ts.Samples = append(ts.Samples, prompb.Sample{Timestamp: at, Value: next(i)})
		}
		out = append(out, ts)
	}
	for _, run := range []string{"job-a/h1", "job-a/h2", "job-b/h1"} {
		for _, host := range []string{"n1", "n2", "n3"} {
			total, own := 0.0, float64(len(out))/1000 // no two are equal, for topk
			add(func(int) float64 {
				if total += float64(r.IntN(30)); r.IntN(50) == 0 {
					total = 0
				}
				return total + own
			}, "__name__", "requests_total", "run", run, "host", host, "code", []string{"200", "500"}[r.IntN(2)])
			add(func(i int) float64 {
				switch r.IntN(70) {
				case 0:
					return math.NaN()
				case 1:
					return math.Inf(1 - 2*r.IntN(2))
				case 2:
					return math.Float64frombits(0x7ff0000000000002) // stale
				}
				return math.Round(1e4*(10*math.Exp(-float64(i)/40)+r.NormFloat64()/5)) / 1e4
			}, "__name__", "loss", "run", run, "host", host)
			add(func(i int) float64 { return float64(i%7) + 1 }, "__name__", "weight", "run", run, "host", host)
		}
		sums := []float64{0, 0, 0, 0}
		for k, le := range []string{"0.1", "0.5", "2", "+Inf"} {
			add(func(int) float64 { sums[k] += float64(r.IntN(3) + 2*k); return sums[k] }, "__name__", "duration_seconds_bucket", "run", run, "le", le)
		}
		add(func(int) float64 { return 1 }, "__name__", "build_info", "run", run, "version", "v"+run[4:5])
	}
	return out
}

func remoteWrite(t *testing.T, address string, all []prompb.TimeSeries) {
	t.Helper()
	raw, err := (&prompb.WriteRequest{Timeseries: all}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, bytes.NewReader(snappy.Encode(nil, raw)))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Content-Type", "application/x-protobuf")
	q.Header.Set("Content-Encoding", "snappy")
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if text, _ := io.ReadAll(answer.Body); answer.StatusCode != http.StatusNoContent {
		t.Fatalf("%s: %d %s", address, answer.StatusCode, text)
	}
}

// promAnswer is an answer of the HTTP API.
type promAnswer struct {
	Status, ErrorType, Error string
	Data                     json.RawMessage
	Warnings                 []string
	code                     int
	header                   http.Header
}

type promResult struct {
	ResultType string
	Result     json.RawMessage
}

type promResultSeries struct {
	Metric map[string]string
	Value  [2]any
	Values [][2]any
}

// askProm sends a form as Grafana does, or a URL.
func askProm(t testing.TB, method, address, key string, form url.Values) (out promAnswer) {
	t.Helper()
	var body io.Reader
	if method == http.MethodPost {
		body = strings.NewReader(form.Encode())
	} else if len(form) > 0 {
		address += "?" + form.Encode()
	}
	q, err := http.NewRequestWithContext(t.Context(), method, address, body)
	if err != nil {
		t.Fatal(err)
	}
	if body != nil {
		q.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if key != "" {
		q.Header.Set("Authorization", "Bearer "+key)
	}
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatalf("%s: %d: %v: %.300s", address, answer.StatusCode, err, raw)
	}
	out.code, out.header = answer.StatusCode, answer.Header
	return out
}

// ownLabels are those that only Kymogram has.
var ownLabels = []string{"metric", "workspace", "project", "scale"}

// promTable is a result by series and time. Where ordered is false series come in any order.
func promTable(t *testing.T, query string, a promAnswer, ours, ordered bool) (out []string) {
	t.Helper()
	if a.Status != "success" {
		return []string{fmt.Sprint(a.code, " ", a.ErrorType)}
	}
	var result promResult
	if err := json.Unmarshal(a.Data, &result); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	if result.ResultType == "scalar" || result.ResultType == "string" {
		var point [2]any
		if err := json.Unmarshal(result.Result, &point); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		return []string{fmt.Sprintf("%s %.3f %v", result.ResultType, point[0], point[1])}
	}
	var list []promResultSeries
	if err := json.Unmarshal(result.Result, &list); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	for _, s := range list {
		if ours {
			for _, name := range ownLabels {
				delete(s.Metric, name)
			}
		}
		values := s.Values
		if values == nil {
			values = [][2]any{s.Value}
		}
		for _, v := range values {
			text := fmt.Sprint(v[1])
			if f, err := strconv.ParseFloat(text, 64); err == nil {
				text = strconv.FormatFloat(f, 'g', 11, 64) // sums come in another order
			}
			out = append(out, fmt.Sprintf("%v %.3f %s", s.Metric, v[0], text))
		}
	}
	if ordered { // those with equal values come in any order
		values := slices.Clone(out)
		for i := range values {
			values[i] = values[i][strings.LastIndexByte(values[i], ' '):]
		}
		slices.Sort(out)
		return append(out, values...)
	}
	slices.Sort(out)
	return out
}

// newer says why Debian's Prometheus, 2.42, answers otherwise than 3.8 whose engine is ours.
// These queries are answered by the engine over lists of points instead.
var newer = map[string]string{
	"rate(":              "a series is no longer extended below zero where its first sample is near the start of the range",
	"increase(":          "as rate",
	"histogram_quantile": "as rate; and the same bound is given where counts are not monotonic",
	" atan2 ":            "3 drops the name",
}

func isNewer(query string) bool {
	for part := range newer {
		if strings.Contains(query, part) {
			return true
		}
	}
	return false
}

// storage is the points as they were sent, in lists, with the engine of Prometheus' module.
type storage struct {
	all    []prompb.TimeSeries
	engine *promql.Engine
}

func newStorage(all []prompb.TimeSeries) *storage {
	return &storage{all, promql.NewEngine(promql.EngineOpts{
		MaxSamples: 1e7, Timeout: time.Minute, LookbackDelta: 5 * time.Minute, EnableAtModifier: true, EnableNegativeOffset: true,
		NoStepSubqueryIntervalFn: func(int64) int64 { return 60_000 },
	})}
}

type promSet struct {
	list []promstorage.Series
	at   int
}

func (s *promSet) Next() bool                        { s.at++; return s.at <= len(s.list) }
func (s *promSet) At() promstorage.Series            { return s.list[s.at-1] }
func (s *promSet) Err() error                        { return nil }
func (s *promSet) Warnings() annotations.Annotations { return nil }

// Querier implements [promstorage.Queryable].
func (s *storage) Querier(int64, int64) (promstorage.Querier, error) {
	return &promstorage.MockQuerier{SelectMockFunction: func(_ bool, _ *promstorage.SelectHints, matchers ...*labels.Matcher) promstorage.SeriesSet {
		found := &promSet{}
	next:
		for _, ts := range s.all {
			var flat []string
			for _, l := range ts.Labels {
				flat = append(flat, l.Name, l.Value)
			}
			of := labels.FromStrings(flat...)
			for _, m := range matchers {
				if !m.Matches(of.Get(m.Name)) {
					continue next
				}
			}
			series := promql.Series{Metric: of}
			for _, p := range ts.Samples {
				series.Floats = append(series.Floats, promql.FPoint{T: p.Timestamp, F: p.Value})
			}
			found.list = append(found.list, promql.NewStorageSeries(series))
		}
		return found
	}}, nil
}

// ask is an answer as promTable gives it.
func (s *storage) ask(t *testing.T, form url.Values) (out []string) {
	t.Helper()
	at := func(name string) time.Time {
		f, err := strconv.ParseFloat(form.Get(name), 64)
		if err != nil {
			t.Fatal(err)
		}
		return time.UnixMilli(int64(math.Round(f * 1000)))
	}
	var q promql.Query
	var err error
	if form.Get("step") == "" {
		q, err = s.engine.NewInstantQuery(t.Context(), s, nil, form.Get("query"), at("time"))
	} else {
		step, _ := strconv.Atoi(form.Get("step"))
		q, err = s.engine.NewRangeQuery(t.Context(), s, nil, form.Get("query"), at("start"), at("end"), time.Duration(step)*time.Second)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	result := q.Exec(t.Context())
	if result.Err != nil {
		t.Fatal(result.Err)
	}
	point := func(of labels.Labels, ms int64, v float64) {
		out = append(out, fmt.Sprintf("%v %.3f %s", of.Map(), float64(ms)/1000, strconv.FormatFloat(v, 'g', 11, 64)))
	}
	switch v := result.Value.(type) {
	case promql.Vector:
		for _, x := range v {
			point(x.Metric, x.T, x.F)
		}
	case promql.Matrix:
		for _, x := range v {
			for _, p := range x.Floats {
				point(x.Metric, p.T, p.F)
			}
		}
	}
	slices.Sort(out)
	return out
}

// promQueries are asked of a real Prometheus and of us.
var promQueries = []string{
	`loss`, `loss{host="n1"}`, `loss{host!="n1",run=~"job-a/.*"}`, `loss{host=~"n[12]"}`, `loss{host!~"n.+"}`, `loss{nothing=""}`, `{__name__=~"loss|weight"}`, `{__name__="loss",run="job-b/h1"}`, `nothing`, `requests_total offset 5m`, `loss @ end()`, `loss @ start()`,
	`1 + 1`, `"text"`, `time()`, `vector(3)`, `scalar(sum(weight))`, `pi()`, `-loss`, `loss * 2`, `loss % 3`, `2 ^ weight`, `loss > 3`, `loss > bool 3`, `loss == weight`, `loss != weight`,
	`loss / weight`, `loss - on (run, host) weight`, `loss * ignoring (code) requests_total`, `requests_total / ignoring (code) weight`, `loss and weight > 4`, `loss or weight`, `loss unless weight > 4`, `loss + on (run) group_left (version) build_info`, `weight * on (run) group_left () build_info`, `atan2(loss, weight)`, `loss atan2 weight`,
	`sum(loss)`, `sum by (run) (weight)`, `sum without (host) (weight)`, `avg by (host) (weight)`, `min(weight)`, `max by (run) (weight)`, `count(loss)`, `count by (run) (loss)`, `group(loss)`, `stddev(weight)`, `stdvar by (host) (weight)`, `quantile(0.3, weight)`, `quantile by (run) (0.9, weight)`, `count_values("v", weight)`, `topk(3, requests_total)`, `bottomk(2, requests_total)`, `topk by (run) (1, requests_total)`, `count without (host, code) (requests_total)`,
	`rate(requests_total[5m])`, `increase(requests_total[7m])`, `irate(requests_total[3m])`, `sum by (run) (rate(requests_total[5m]))`, `delta(weight[5m])`, `idelta(weight[2m])`, `deriv(weight[10m])`, `predict_linear(weight[10m], 600)`, `resets(requests_total[20m])`, `changes(weight[10m])`,
	`avg_over_time(weight[5m])`, `min_over_time(loss[5m])`, `max_over_time(loss[5m])`, `sum_over_time(weight[5m])`, `count_over_time(loss[5m])`, `quantile_over_time(0.5, weight[5m])`, `stddev_over_time(weight[5m])`, `stdvar_over_time(weight[5m])`, `last_over_time(loss[10m])`, `present_over_time(loss[3m])`, `absent_over_time(nothing[3m])`, `absent(nothing{a="b"})`, `absent(loss)`,
	`abs(loss)`, `ceil(loss)`, `floor(loss)`, `round(loss, 0.5)`, `clamp(loss, 1, 5)`, `clamp_max(loss, 2)`, `clamp_min(loss, 2)`, `exp(weight)`, `ln(weight)`, `log2(weight)`, `log10(weight)`, `sqrt(weight)`, `sgn(loss)`, `sin(weight)`, `sort(weight)`, `sort_desc(weight)`,
	`timestamp(loss)`, `minute(vector(1700000000))`, `day_of_week(timestamp(weight))`, `label_replace(weight, "short", "$1", "run", "(.*)/.*")`, `label_join(weight, "both", "-", "run", "host")`,
	`histogram_quantile(0.9, sum by (le, run) (rate(duration_seconds_bucket[10m])))`, `histogram_quantile(0.5, duration_seconds_bucket)`,
	`max_over_time(rate(requests_total[5m])[15m:1m])`, `avg_over_time(sum(weight)[10m:30s])`, `sum_over_time(weight[10m:1m] offset 3m)`, `rate(requests_total[5m] offset 10m)`, `sum(rate(requests_total[5m])) / sum(weight)`, `weight[2m]`, `loss[1m] offset 1m`, `sum(count_over_time(loss[1h]))`,
	`loss{`, `sum(`, `deriv(loss)`, `foo(loss)`, `loss{host=~"["}`, `loss and 1`, `{run=~".*"}`, `sum by (run) (loss) + loss`,
}

// Debian's Prometheus and Kymogram take the same remote write and get the same queries.
func TestPromQLAnswersAsPrometheus(t *testing.T) {
	theirs := prometheus.Start(t, "global: {}\n", nil, "--web.enable-remote-write-receiver")
	s := serveNode(t, true)
	all := randomSeries(uint64(time.Now().UnixNano()))
	remoteWrite(t, theirs.URL()+"/api/v1/write", all)
	remoteWrite(t, "http://"+s.address+"/api/v1/write?workspace=w&project=p", all)
	ours := "http://" + s.address + "/prometheus/w/p"
	seconds := func(ms int64) string { return strconv.FormatFloat(float64(ms)/1000, 'f', 3, 64) }
	storage := newStorage(all)
	compared, filled, renewed := 0, 0, 0
	ask := func(path, query string, form url.Values) {
		ordered := strings.HasPrefix(query, "sort") && path == "/api/v1/query"
		var want []string
		if isNewer(query) {
			want = storage.ask(t, form)
			renewed++
		} else {
			want = promTable(t, query, askProm(t, http.MethodPost, theirs.URL()+path, "", form), false, ordered)
		}
		form.Set("lookback_delta", "5m") // as theirs
		got := promTable(t, query, askProm(t, http.MethodPost, ours+path, "", form), true, ordered)
		compared++
		if len(want) > 0 {
			filled++
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s %s (-Prometheus +ours):\n%.2000s", path, query, diff)
		}
	}
	for _, query := range promQueries {
		for _, at := range []int64{600_007, 1_500_013, 2_999_001} {
			ask("/api/v1/query", query, url.Values{"query": {query}, "time": {seconds(promStart + at)}})
		}
		if !strings.Contains(query, "m]") || strings.Contains(query, "(") {
			ask("/api/v1/query_range", query, url.Values{"query": {query}, "start": {seconds(promStart + 100_003)}, "end": {seconds(promStart + 2_900_000)}, "step": {"37"}})
		}
	}
	if len(promQueries) < 60 || filled < compared*3/4 {
		t.Errorf("%d of %d answers of %d queries had something in them", filled, compared, len(promQueries))
	}
	t.Logf("%d queries, %d answers, %d with something in them, %d of them from the newer engine", len(promQueries), compared, filled, renewed)
	compareCatalogue(t, theirs.URL(), ours, seconds)
}

// compareCatalogue asks what there is.
func compareCatalogue(t *testing.T, theirs, ours string, seconds func(int64) string) {
	span := func(more ...string) url.Values {
		v := url.Values{"start": {seconds(promStart)}, "end": {seconds(promStart + 3_600_000)}}
		for _, m := range more {
			v.Add("match[]", m)
		}
		return v
	}
	without := func(drop []string) func(any) any {
		return func(v any) any {
			list := v.([]any)
			return slices.DeleteFunc(list, func(x any) bool { return slices.Contains(drop, fmt.Sprint(x)) })
		}
	}
	for _, c := range []struct {
		path   string
		form   url.Values
		adjust func(any) any // of ours
	}{
		{"/series", span("loss"), nil},
		{"/series", span(`{__name__=~"loss|weight",host="n1"}`, `build_info`), nil},
		{"/series", span("nothing"), nil},
		{"/series", url.Values{}, nil},
		{"/series", span(`{host=~".*"}`), nil},
		{"/labels", span("loss"), without(ownLabels)},
		{"/label/host/values", span(), nil},
		{"/label/__name__/values", span(), without([]string{"kymogram_run_info"})},
		{"/label/run/values", span(`requests_total{code="500"}`), nil},
		{"/label/nothing/values", span(), nil},
	} {
		method := http.MethodPost
		if strings.HasPrefix(c.path, "/label/") { // theirs takes no other
			method = http.MethodGet
		}
		want, got := askProm(t, method, theirs+"/api/v1"+c.path, "", c.form), askProm(t, method, ours+"/api/v1"+c.path, "", c.form)
		var a, b any
		if want.code != got.code || want.ErrorType != got.ErrorType {
			t.Errorf("%s %v: %d %s, want %d %s", c.path, c.form, got.code, got.Error, want.code, want.Error)
			continue
		}
		if want.Status != "success" {
			continue
		}
		if err := json.Unmarshal(want.Data, &a); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(got.Data, &b); err != nil {
			t.Fatal(err)
		}
		if c.path == "/series" {
			for _, x := range b.([]any) {
				for _, name := range ownLabels {
					delete(x.(map[string]any), name)
				}
			}
			for _, list := range []any{a, b} {
				slices.SortFunc(list.([]any), func(x, y any) int { return strings.Compare(fmt.Sprint(x), fmt.Sprint(y)) })
			}
		} else if c.adjust != nil {
			b = c.adjust(b)
		}
		if diff := cmp.Diff(a, b); diff != "" {
			t.Errorf("%s %v (-Prometheus +ours):\n%s", c.path, c.form, diff)
		}
	}
}

// logLines writes through the Influx door, where a tag can be an axis.
func logLines(t *testing.T, s *served, key, workspace, project string, lines ...string) {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+s.address+"/api/v2/write?precision=s&org="+workspace+"&bucket="+project, strings.NewReader(strings.Join(lines, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Authorization", "Token "+key)
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if text, _ := io.ReadAll(answer.Body); answer.StatusCode != http.StatusNoContent {
		t.Fatalf("%d %s", answer.StatusCode, text)
	}
}

// A key sees nothing of what it may not read, whatever it asks, and an answer that names
// nothing else than what its own projects hold.
func TestPromQLShowsNoOtherProject(t *testing.T) {
	s := serveNode(t, false)
	s.addKeys()
	now := time.Now().Unix()
	for _, at := range [][2]string{{"w", "p"}, {"w", "q"}, {"v", "p"}, {"v", "r"}} {
		mark := at[0] + at[1]
		logLines(t, s, s.keys["ingest"], at[0], at[1], fmt.Sprintf("m_%s,host_%s=host%s,run=run%s loss=1,only%s=2 %d", mark, mark, mark, mark, mark, now))
	}
	s.addKey("wp", auth.KeySpec{Scopes: []auth.Scope{auth.Read}, Workspace: "w", Project: "p"})
	s.addKey("w", auth.KeySpec{Scopes: []auth.Scope{auth.Read}, Workspace: "w"})
	sees := map[string][]string{"wp": {"wp"}, "w": {"wp", "wq"}, "read": {"wp", "wq", "vp", "vr"}, "other project": {"wq"}, "other workspace": {"vp", "vr"}}
	asks := []struct {
		path string
		form url.Values
	}{
		{"/api/v1/query", url.Values{"query": {`{__name__=~".+"}`}}},
		{"/api/v1/query", url.Values{"query": {`{workspace!=""}`}}},
		{"/api/v1/query", url.Values{"query": {`count by (workspace, project, run, metric, __name__) ({run=~".*",scale="ML_STEP"})`}}},
		{"/api/v1/query", url.Values{"query": {`kymogram_run_info`}}},
		{"/api/v1/query_range", url.Values{"query": {`{__name__=~"m_.+"}`}, "start": {fmt.Sprint(now - 5)}, "end": {fmt.Sprint(now + 5)}, "step": {"1"}}},
		{"/api/v1/series", url.Values{"match[]": {`{__name__=~".+"}`}}},
		{"/api/v1/series", url.Values{"match[]": {`{project="p"}`, `{project="q"}`, `{project="r"}`}}},
		{"/api/v1/labels", nil},
		{"/api/v1/labels", url.Values{"match[]": {`{workspace=~".+"}`}}},
		{"/api/v1/label/run/values", nil},
		{"/api/v1/label/workspace/values", nil},
		{"/api/v1/label/metric/values", nil},
		{"/api/v1/label/__name__/values", url.Values{"match[]": {`{run=~".+"}`}}},
		{"/api/v1/metadata", nil},
		{"/federate", url.Values{"match[]": {`{__name__=~".+"}`}}},
	}
	marks := []string{"wp", "wq", "vp", "vr"}
	for name, mine := range sees {
		for _, ask := range asks {
			code, text := s.getProm(s.keys[name], "/prometheus"+ask.path, ask.form)
			if code != http.StatusOK {
				t.Errorf("%s: %s: %d %s", name, ask.path, code, text)
			}
			for _, mark := range marks {
				has := strings.Contains(text, "run"+mark) || strings.Contains(text, "m_"+mark) || strings.Contains(text, "host_"+mark) || strings.Contains(text, "only"+mark)
				if ask.path == "/api/v1/label/workspace/values" {
					has = strings.Contains(text, `"`+mark[:1]+`"`)
					if want := slices.ContainsFunc(mine, func(m string) bool { return m[0] == mark[0] }); has != want {
						t.Errorf("%s: %s %v: shows workspace %s: %v: %s", name, ask.path, ask.form, mark[:1], has, text)
					}
					continue
				}
				if want := slices.Contains(mine, mark); has != want {
					t.Errorf("%s: %s %v: shows %s: %v, want %v: %.1000s", name, ask.path, ask.form, mark, has, want, text)
				}
			}
		}
		for _, mark := range marks { // the paths of one project
			want := http.StatusForbidden
			if slices.Contains(mine, mark) {
				want = http.StatusOK
			}
			for _, path := range []string{"/api/v1/query?query=1", "/api/v1/labels", "/api/v1/status/buildinfo", "/federate?match[]=x"} {
				code, text := s.getProm(s.keys[name], "/prometheus/"+mark[:1]+"/"+mark[1:]+path, nil)
				if code != want || code != http.StatusOK && !strings.Contains(text, `"errorType":"forbidden"`) {
					t.Errorf("%s: %s of %s: %d, want %d: %s", name, path, mark, code, want, text)
				}
			}
		}
	}
	for _, name := range []string{"none", "wrong", "revoked", "ingest"} {
		if code, text := s.getProm(s.keys[name], "/prometheus/api/v1/labels", nil); code != http.StatusUnauthorized && code != http.StatusForbidden || strings.Contains(text, "runwp") {
			t.Errorf("%s: %d %s", name, code, text)
		}
	}
}

func (s *served) getProm(key, path string, form url.Values) (code int, text string) {
	s.t.Helper()
	if len(form) > 0 {
		path += "?" + form.Encode()
	}
	return s.request("GET", path, "", key)
}

// instantOf asks an instant query and gives value by a label.
func (s *served) instantOf(query, label string, more ...string) (out map[string]string, a promAnswer) {
	s.t.Helper()
	form := url.Values{"query": {query}}
	for i := 0; i < len(more); i += 2 {
		form.Set(more[i], more[i+1])
	}
	a = askProm(s.t, http.MethodPost, "http://"+s.address+"/prometheus/w/p/api/v1/query", s.keys["read"], form)
	var result struct{ Result []promResultSeries }
	if a.Status == "success" {
		if err := json.Unmarshal(a.Data, &result); err != nil {
			s.t.Fatal(err)
		}
	}
	out = map[string]string{}
	for _, series := range result.Result {
		out[series.Metric[label]] = fmt.Sprint(series.Value[1])
	}
	return out, a
}

// Names, axes and joins with a config: what only Kymogram has.
func TestPromQLOverRuns(t *testing.T) {
	s := serveNode(t, false)
	s.addKeys()
	key, now := s.keys["ingest"], time.Now().Unix()
	at := func(ago int64) string { return fmt.Sprint(now - ago) }
	logLines(t, s, key, "w", "p",
		"train,run=r1,window=41,metric=mine,project=own,7x=y loss=1 "+at(30), "train,run=r1,window=42,metric=mine,project=own,7x=y loss=2 "+at(20), "train,run=r1,metric=mine,project=own,7x=y loss=3 "+at(10),
		"train,run=r2,window=42 loss=5,text=\"words\" "+at(15), "train,run=r3 old=7 "+at(7200))
	for i, run := range []string{"r1", "r2"} {
		id, err := s.node.catalog.FindRun(t.Context(), "w", "p", run)
		if err != nil {
			t.Fatal(err)
		}
		updates := []model.Update{
			{Op: model.OpSetAttribute, Path: "config/optimizer/lr", Value: model.FloatValue([]float64{0.1, 1e-4}[i])},
			{Op: model.OpSetAttribute, Path: "other", Value: model.StringValue("no config")},
		}
		if err := s.node.catalog.Apply(t.Context(), id, model.WriterID{}, 0, updates, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		query, label string
		want         map[string]string
	}{
		{`train_loss * on (workspace, project, run) group_left (config_optimizer_lr) kymogram_run_info`, "config_optimizer_lr", map[string]string{"0.1": "3", "0.0001": "5"}},
		{`sum by (config_optimizer_lr) (train_loss * on (run) group_left (config_optimizer_lr) kymogram_run_info{config_optimizer_lr="0.1"})`, "config_optimizer_lr", map[string]string{"0.1": "3"}},
		{`kymogram_run_info{other!=""}`, "run", map[string]string{}},
		{`train_loss`, "run", map[string]string{"r1": "3", "r2": "5"}},
		{`{metric="train/loss",run="r2"}`, "__name__", map[string]string{"train_loss": "5"}},
		{`{metric="train/loss",run="r1"}`, "exported_metric", map[string]string{"mine": "3"}},
		{`train_loss{run="r1"}`, "exported_project", map[string]string{"own": "3"}},
		{`train_loss{run="r1"}`, "_x", map[string]string{"y": "3"}},
		{`train_loss{exported_metric="mine"}`, "project", map[string]string{"p": "3"}},
		{`train_loss{project="own"}`, "run", map[string]string{}},
		{`train_loss{__axis_window__="42"}`, "run", map[string]string{"r1": "2", "r2": "5"}},
		{`train_loss{__axis_window__="41"}`, "run", map[string]string{"r1": "1"}},
		{`train_loss{__axis_window__=""}`, "run", map[string]string{"r1": "3"}},
		{`train_loss{__axis_window__!="42"}`, "run", map[string]string{"r1": "3"}},
		{`train_loss{__axis_window__=~"4[12]"}`, "run", map[string]string{"r1": "2", "r2": "5"}},
		{`train_loss{__axis_nothing__="1"}`, "run", map[string]string{}},
		{`count_over_time(train_loss{__axis_window__=~".+"}[5m])`, "run", map[string]string{"r1": "2", "r2": "1"}},
		{`train_text`, "run", map[string]string{}},
		{`train_old`, "run", map[string]string{}}, // two hours old
		{`last_over_time(train_old[1d])`, "run", map[string]string{"r3": "7"}},
		{`timestamp(train_loss{run="r1"})`, "run", map[string]string{"r1": at(10)}},
		{`train_loss * on (run) group_left (run_id) kymogram_run_info`, "run", map[string]string{"r1": "3", "r2": "5"}},
		{`sum by (run) (train_loss / train_loss)`, "run", map[string]string{"r1": "1", "r2": "1"}},
		{`count(kymogram_run_info)`, "", map[string]string{"": "4"}}, // r1, r2, r3, and that of addKeys
		{`kymogram_run_info{metric="train/loss"}`, "run", map[string]string{}},
	} {
		if got, a := s.instantOf(c.query, c.label); cmp.Diff(c.want, got) != "" {
			t.Errorf("%s: %v, want %v %s", c.query, got, c.want, a.Error)
		}
	}
	if got, _ := s.instantOf("train_old", "run", "lookback_delta", "1d"); got["r3"] != "7" {
		t.Errorf("with a lookback of a day: %v", got)
	}
	if got, _ := s.instantOf("train_loss", "run", "lookback_delta", "12s"); len(got) != 1 || got["r1"] != "3" {
		t.Errorf("with a lookback of 12 s: %v", got)
	}
}

// Labels of one run whose names become one in PromQL stay two, in every answer.
func TestPromQLKeepsLabelsApart(t *testing.T) {
	s := serveNode(t, false)
	s.addKeys()
	now := time.Now().Unix()
	logLines(t, s, s.keys["ingest"], "w", "p",
		fmt.Sprintf("train,run=r1,a.b=x loss=1 %d", now-10), fmt.Sprintf("train,run=r1,a_b=x loss=2 %d", now-10),
		fmt.Sprintf("train,run=r1,a.b=x,a_b=y loss=4 %d", now-10), fmt.Sprintf("train,run=r1,a/b=x,a.b=y loss=8 %d", now-10))
	for _, c := range []struct {
		query, label string
		want         map[string]string
	}{
		{`train_loss`, "label_names", map[string]string{"a_b=a.b": "1", "": "2", "a_b_2=a.b": "4", "a_b=a.b,a_b_2=a/b": "8"}},
		{`abs(train_loss)`, "label_names", map[string]string{"a_b=a.b": "1", "": "2", "a_b_2=a.b": "4", "a_b=a.b,a_b_2=a/b": "8"}},
		{`count_over_time(train_loss[1m])`, "label_names", map[string]string{"a_b=a.b": "1", "": "1", "a_b_2=a.b": "1", "a_b=a.b,a_b_2=a/b": "1"}},
		{`train_loss - train_loss`, "label_names", map[string]string{"a_b=a.b": "0", "": "0", "a_b_2=a.b": "0", "a_b=a.b,a_b_2=a/b": "0"}},
		{`sum(train_loss{label_names=~"(.*,)?a_b=a[.]b(,.*)?"})`, "", map[string]string{"": "9"}}, // those whose a_b is a.b
		{`sum(train_loss{a_b="x",label_names!~"(.*,)?a_b=.*"})`, "", map[string]string{"": "2"}},  // whose a_b is a_b
		{`sum by (a_b_2) (train_loss)`, "a_b_2", map[string]string{"x": "12", "": "3"}},
	} {
		if got, a := s.instantOf(c.query, c.label); cmp.Diff(c.want, got) != "" {
			t.Errorf("%s: %v, want %v %s", c.query, got, c.want, a.Error)
		}
	}
	if code, text := s.getProm(s.keys["read"], "/prometheus/w/p/federate", url.Values{"match[]": {"train_loss"}}); code != http.StatusOK || strings.Count(text, "\ntrain_loss{") != 4 {
		t.Errorf("federation: %d %s", code, text)
	}
	if _, text := s.getProm(s.keys["read"], "/prometheus/w/p/api/v1/series", url.Values{"match[]": {"train_loss"}}); strings.Count(text, `"__name__"`) != 4 {
		t.Errorf("series: %s", text)
	}
}

// A real Prometheus scrapes our federation: it has the same last samples with the same times,
// under their own labels, and promtool asks us.
func TestPrometheusScrapesFederation(t *testing.T) {
	s := serveNode(t, false)
	s.addKeys()
	now := time.Now().Unix()
	odd := `quo"te\\back`
	logLines(t, s, s.keys["ingest"], "w", "p",
		fmt.Sprintf("train,run=r1,host=h1 loss=0.25,steps=7i %d", now-20), fmt.Sprintf("train,run=r2,host=h2,note=%s loss=1e-300 %d", odd, now-10), fmt.Sprintf("train,run=r3 loss=3 %d", now-7200))
	p := prometheus.Start(t, fmt.Sprintf(`
global: {scrape_interval: 200ms, scrape_timeout: 200ms}
scrape_configs:
  - job_name: kymogram
    honor_labels: true
    metrics_path: /prometheus/w/p/federate
    params: {"match[]": ['{__name__=~"train_.*"}']}
    authorization: {credentials: %s}
    static_configs: [{targets: [%q]}]
`, s.keys["read"], s.address), nil)
	var got []prometheus.Sample
	for deadline := time.Now().Add(time.Minute); len(got) < 3 && time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) { // the scrape's own pace
		got = p.Query(`{__name__=~"train_.*"}`)
	}
	want := map[string]float64{"train_loss r1": 0.25, "train_steps r1": 7, "train_loss r2": 1e-300}
	seen := map[string]float64{}
	for _, sample := range got {
		seen[sample.Labels["__name__"]+" "+sample.Labels["run"]] = sample.Value
		if l := sample.Labels; l["workspace"] != "w" || l["project"] != "p" || l["instance"] != "" || l["metric"] != strings.Replace(l["__name__"], "_", "/", 1) {
			t.Errorf("labels %v", l)
		}
		if l := sample.Labels; l["run"] == "r2" && l["note"] != odd {
			t.Errorf("note is %q", l["note"])
		}
	}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Fatalf("scraped (-want +got):\n%s", diff)
	}
	for _, sample := range p.Query(`timestamp(train_loss{run="r1"})`) {
		if sample.Value != float64(now-20) {
			t.Errorf("its time is %v, want %d", sample.Value, now-20)
		}
	}
	code, text := s.getProm(s.keys["read"], "/prometheus/w/p/federate", url.Values{"match[]": {`{__name__=~".+"}`, `train_loss`}})
	if code != http.StatusOK {
		t.Fatal(code, text)
	}
	if twice := strings.Count(text, "train_loss{"); twice != 2 {
		t.Errorf("%d lines of train_loss:\n%s", twice, text)
	}
}

// promtool asks us, of a server without keys.
func TestPromtoolQueriesUs(t *testing.T) {
	s := serveNode(t, true)
	now := time.Now().Unix()
	logLines(t, s, "", "w", "p", fmt.Sprintf("train,run=r1 loss=0.25 %d", now-20), fmt.Sprintf("train,run=r2 loss=0.5 %d", now-20))
	url := "http://" + s.address + "/prometheus/w/p"
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"instant", url, `max(train_loss)`}, "{} => 0.5 @["},
		{[]string{"instant", url, `train_loss{run="r1"}`}, `train_loss{metric="train/loss", project="p", run="r1", scale="ML_STEP", workspace="w"} => 0.25 @[`},
		{[]string{"range", "--start", fmt.Sprint(now - 10), "--end", fmt.Sprint(now), "--step", "5s", url, `count(train_loss)`}, fmt.Sprintf("{} =>\n2 @[%d]\n2 @[%d]\n2 @[%d]", now-10, now-5, now)},
		{[]string{"series", "--match", `{run="r2",__name__!="kymogram_run_info"}`, url}, `{__name__="train_loss", metric="train/loss", project="p", run="r2", scale="ML_STEP", workspace="w"}`},
		{[]string{"labels", url, "run"}, "r1\nr2"},
	} {
		if got := prometheus.Promtool(t, t.TempDir(), "", append([]string{"query"}, c.args...)...); !strings.Contains(got, c.want) {
			t.Errorf("promtool query %v:\n%s\nwant\n%s", c.args, got, c.want)
		}
	}
}
