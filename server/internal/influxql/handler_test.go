package influxql_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/influxql"
	"github.com/kymogram/kymogram/server/internal/query"
	"github.com/kymogram/kymogram/server/internal/store"
)

// naive holds the points of series of one project, w/p, in slices.
type naive struct {
	runs  []catalog.Run
	keys  [][]model.SeriesKey
	times [][][]int64
	value func(i int) float64
	lives int // of which attempts/N tells, the same for each run
	scans int
}

var errDenied = model.Errorf(model.CodePermission, "the key may not read this")

func (n *naive) Allow(_ context.Context, workspace, project string) error {
	if workspace != "w" || project != "p" && project != "missing" {
		return errDenied
	}
	return nil
}

func (n *naive) AllowWrite(context.Context, string, string) error { return errDenied }

func (n *naive) Projects(context.Context, query.Page) (*query.ProjectsPage, error) {
	return &query.ProjectsPage{Projects: []catalog.Project{{Workspace: "w", Name: "p"}, {Workspace: "other", Name: "q"}}}, nil
}

func (n *naive) HasProject(ctx context.Context, workspace, project string) (bool, error) {
	return project == "p", n.Allow(ctx, workspace, project)
}

func (n *naive) Contents(ctx context.Context, workspace, project string, metrics []string, match func(model.SeriesKey) bool) iter.Seq2[query.Contents, error] {
	return func(yield func(query.Contents, error) bool) {
		if err := n.Allow(ctx, workspace, project); err != nil {
			yield(query.Contents{}, err)
			return
		}
		for i := range n.runs {
			c := query.Contents{Run: &n.runs[i], Attributes: n.attributes}
			for k, key := range n.keys[i] {
				at := n.times[i][k]
				if match(key) && (metrics == nil || slices.Contains(metrics, key.Metric)) {
					c.Series = append(c.Series, store.Series{
						ID: store.SeriesID(k), Key: key, Kind: model.KindFloat, Count: uint64(len(at)), MinTimeNs: slices.Min(at), MaxTimeNs: slices.Max(at),
					})
				}
			}
			if len(c.Series) > 0 && !yield(c, nil) {
				return
			}
		}
	}
}

func (n *naive) attributes(yield func(catalog.Attribute, error) bool) {
	for life := 1; life <= n.lives; life++ {
		said := []string{fmt.Sprint("runtime_id=r", life), fmt.Sprint("version=", life%3), "uid=7"}
		if !yield(catalog.Attribute{Path: fmt.Sprint("attempts/", life), Value: *model.SetValue(said)}, nil) {
			return
		}
	}
}

func (n *naive) Rows(_ context.Context, r store.ScanRequest) (*store.Rows, error) {
	n.scans++
	at := slices.IndexFunc(n.runs, func(run catalog.Run) bool { return run.ID == r.Run })
	out := &store.Rows{Values: model.Column{Kind: model.KindFloat}}
	skip := 0
	if r.After != nil {
		skip = int(r.After.Seq)
	}
	first, _ := slices.BinarySearch(n.times[at][r.Series], r.From)
	for i, t := range n.times[at][r.Series][first:] {
		i += first
		switch {
		case i < skip || t < r.From || t > r.To:
			continue
		case len(out.TimeNs) == r.Limit:
			out.Next = &store.Position{Seq: uint64(i)}
			return out, nil
		}
		out.TimeNs, out.Attempt = append(out.TimeNs, t), append(out.Attempt, 1)
		out.Values.Floats = append(out.Values.Floats, n.value(i))
	}
	return out, nil
}

// newNaive has runs with one series m/f each.
func newNaive(runs, points int) *naive {
	n := &naive{value: func(i int) float64 { return float64(i % 100) }}
	for i := range runs {
		at := make([]int64, points)
		for k := range at {
			at[k] = int64(k) * int64(time.Second)
		}
		n.runs = append(n.runs, catalog.Run{ID: model.RunID{byte(i), byte(i >> 8), byte(i >> 16), 1}, Name: fmt.Sprint("r", i)})
		n.keys = append(n.keys, []model.SeriesKey{{Metric: "m/f", Labels: []model.Label{{Name: "host", Value: fmt.Sprint("h", i%10)}}}})
		n.times = append(n.times, [][]int64{at})
	}
	return n
}

type result struct {
	Results []struct {
		Error    string
		Partial  bool
		Messages []struct{ Text string }
		Series   []struct {
			Name    string
			Tags    map[string]string
			Columns []string
			Values  [][]any
			Partial bool
		}
	}
	Error string
}

func ask(t *testing.T, n *naive, memory int64, more map[string]string) (status int, r result, text string) {
	t.Helper()
	held := int64(0)
	h := influxql.New(n, influxql.Options{
		Workspace: "w", Memory: memory, Now: time.Now, Points: 2_000_000,
		Reserve: func(_ context.Context, bytes int64) (func(), error) {
			if bytes > memory {
				return nil, errors.New("more than there is")
			}
			held += bytes
			return func() { held -= bytes }, nil
		},
	})
	values := url.Values{"db": {"p"}, "epoch": {"s"}}
	for name, value := range more {
		values.Set(name, value)
	}
	w := httptest.NewRecorder()
	q := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/query", strings.NewReader(values.Encode()))
	q.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	q.Header.Set("Accept", more["accept"])
	h.Handlers()["POST /query"].ServeHTTP(w, q)
	if held != 0 {
		t.Errorf("%v: %d bytes are still held", more, held)
	}
	_ = json.NewDecoder(strings.NewReader(w.Body.String())).Decode(&r) // CSV is none
	return w.Code, r, w.Body.String()
}

const memory = 16 << 20

func TestRefusals(t *testing.T) {
	n := newNaive(2, 10)
	for name, tt := range map[string]struct {
		form   map[string]string
		status int
		says   string
	}{
		"no query":         {map[string]string{"q": ""}, 400, `missing required parameter \"q\"`},
		"no InfluxQL":      {map[string]string{"q": "SELEC"}, 400, "error parsing query: found SELEC"},
		"other project":    {map[string]string{"q": "SELECT f FROM m", "db": "secret"}, 403, "may not read"},
		"in the statement": {map[string]string{"q": "SELECT f FROM secret..m"}, 200, "may not read"},
		"in a subquery":    {map[string]string{"q": "SELECT f FROM (SELECT f FROM secret..m)"}, 200, "may not read"},
		"beside its own":   {map[string]string{"q": "SELECT f FROM m, secret..m"}, 200, "may not read"},
		"show":             {map[string]string{"q": "SHOW SERIES ON secret"}, 200, "may not read"},
		"show from":        {map[string]string{"q": "SHOW TAG KEYS FROM secret..m"}, 200, "may not read"},
		"other workspace":  {map[string]string{"q": "SELECT f FROM m", "org": "other"}, 403, "may not read"},
		"missing":          {map[string]string{"q": "SELECT f FROM m", "db": "missing"}, 200, "database not found: missing"},
		"none named":       {map[string]string{"q": "SELECT f FROM m", "db": ""}, 200, "database name required"},
		"into":             {map[string]string{"q": "SELECT f INTO x FROM m"}, 200, "SELECT … INTO is not supported"},
		"drop":             {map[string]string{"q": "DROP DATABASE p"}, 200, "DROP DATABASE is not supported"},
		"users":            {map[string]string{"q": "SHOW USERS"}, 200, "SHOW USERS is not supported"},
		"create":           {map[string]string{"q": "CREATE DATABASE x"}, 200, "may not read"},
		"explain":          {map[string]string{"q": "EXPLAIN SELECT f FROM m"}, 200, "EXPLAIN SELECT is not supported"},
		"holt_winters":     {map[string]string{"q": "SELECT holt_winters(mean(f), 3, 1) FROM m WHERE time > 0 GROUP BY time(1s)"}, 200, "holt_winters() is not supported"},
		"argument":         {map[string]string{"q": "SELECT sample(f, 2000000000) FROM m"}, 200, "too large, it may be 10000"},
		"in an argument":   {map[string]string{"q": "SELECT max(x) FROM (SELECT top(f, 1000000) AS x FROM m)"}, 200, "too large"},
		"epoch":            {map[string]string{"q": "SELECT f FROM m", "epoch": "day"}, 400, `the epoch \"day\" is not known`},
		"params":           {map[string]string{"q": "SELECT f FROM m", "params": "{"}, 400, "error parsing query parameters"},
		"long":             {map[string]string{"q": "SELECT f FROM m WHERE host = '" + strings.Repeat("x", 70_000) + "'"}, 413, "it may have 65536"},
		"deep":             {map[string]string{"q": "SELECT f FROM m WHERE " + strings.Repeat("(", 300) + "f > 1" + strings.Repeat(")", 300)}, 413, "200 open parentheses"},
		"many":             {map[string]string{"q": strings.Repeat("SHOW DATABASES;", 101)}, 413, "it may have 100"},
		"buckets":          {map[string]string{"q": "SELECT mean(f) FROM m WHERE time >= 0 AND time < 1h GROUP BY time(1ns)"}, 200, "GROUP BY time(1ns) makes 3599999999999 intervals, there may be 1000000"},
		"terms":            {map[string]string{"q": "SELECT f FROM m WHERE f > 1" + strings.Repeat(" OR f > 1", 1001)}, 200, "it may have 1000"},
		"buckets to now":   {map[string]string{"q": "SELECT mean(f) FROM m GROUP BY time(1s)"}, 200, "intervals, there may be 1000000"},
		"inner buckets":    {map[string]string{"q": "SELECT max(x) FROM (SELECT mean(f) AS x FROM m GROUP BY time(1ns)) WHERE time > 0 AND time < 1d"}, 200, "GROUP BY time(1ns) makes"},
		"later statements": {map[string]string{"q": "SELECT x FROM secret..m; SELECT f FROM m"}, 200, "not executed"},
	} {
		status, r, text := ask(t, n, memory, tt.form)
		if status != tt.status || !strings.Contains(text, tt.says) || strings.Contains(text, "panic") {
			t.Errorf("%s: %d %.300s", name, status, text)
		}
		if status != http.StatusOK && r.Error == "" {
			t.Errorf("%s: no error of InfluxDB's form: %.300s", name, text)
		}
	}
}

// What a statement holds, reads and answers has limits that their errors name.
func TestLimits(t *testing.T) {
	small := int64(300 << 10)
	for name, tt := range map[string]struct {
		data   *naive
		memory int64
		q      string
		says   string
	}{
		"series":      {newNaive(500, 1), small, "SELECT f FROM m", "reads more than 160 series"},
		"scans":       {newNaive(50, 2), small, "SELECT mean(f), max(f), min(f), sum(f) FROM m", "more than 160 series side by side"},
		"held":        {newNaive(1, 3000), small, "SELECT median(f) FROM m", "holds more than 492 points of one interval"},
		"of a run":    {newNaive(20, 400), small, "SELECT distinct(f) FROM m", "holds more than 492 points of one interval"},
		"read":        {newNaive(30, 100_000), 64 << 20, "SELECT mean(f) FROM m", "reads more than 2000000 points"},
		"never ended": {newNaive(1, 1_000_000), memory, "SELECT mean(f) FROM m WHERE time >= 0 AND time < 1000000s GROUP BY time(1s)", ""},
	} {
		_, r, text := ask(t, tt.data, tt.memory, map[string]string{"q": tt.q})
		if len(r.Results) != 1 || !strings.Contains(r.Results[0].Error, tt.says) || (tt.says == "") != (r.Results[0].Error == "") {
			t.Errorf("%s: %.500s", name, text)
		}
	}
}

func TestAnAnswerIsCutAtItsRows(t *testing.T) {
	n := newNaive(1, 1_000_500)
	_, r, _ := ask(t, n, memory, map[string]string{"q": "SELECT f FROM m"})
	if len(r.Results) != 1 || len(r.Results[0].Series) != 1 {
		t.Fatalf("%d results", len(r.Results))
	}
	if s := r.Results[0].Series[0]; len(s.Values) != 1_000_000 || !s.Partial || len(r.Results[0].Messages) != 1 {
		t.Errorf("%d rows, partial %v, %v", len(s.Values), s.Partial, r.Results[0].Messages)
	}
}

func TestNotFiniteValues(t *testing.T) {
	n := newNaive(1, 4)
	n.value = func(i int) float64 { return []float64{1, math.NaN(), math.Inf(1), 3}[i] }
	_, r, text := ask(t, n, memory, map[string]string{"q": "SELECT f FROM m; SELECT mean(f), count(f) FROM m"})
	if !strings.Contains(text, `"values":[[0,1],[1,null],[2,null],[3,3]]`) || !strings.Contains(text, `"values":[[0,2,2]]`) {
		t.Error(text)
	}
	if m := r.Results[1].Messages; len(m) != 1 || m[0].Text != "4 values that are NaN or infinite were left out of functions" { // two in each of two
		t.Errorf("%v", m)
	}
}

func TestForms(t *testing.T) {
	n := newNaive(2, 3)
	_, _, text := ask(t, n, memory, map[string]string{"q": "SELECT f FROM m GROUP BY host; SHOW DATABASES", "chunked": "true", "chunk_size": "2"})
	if lines := strings.Split(strings.TrimSpace(text), "\n"); len(lines) != 5 || !strings.Contains(lines[0], `"values":[[0,0],[1,1]],"partial":true}],"partial":true}`) {
		t.Errorf("%s", text)
	}
	_, _, text = ask(t, n, memory, map[string]string{"q": "SELECT f FROM m GROUP BY host", "accept": "application/csv"})
	if want := "name,tags,time,f\nm,host=h0,0,0\nm,host=h0,1,1\nm,host=h0,2,2\nm,host=h1,0,0\nm,host=h1,1,1\nm,host=h1,2,2\n"; text != want {
		t.Errorf("%s", text)
	}
	_, _, text = ask(t, n, memory, map[string]string{"q": "SELECT f FROM m WHERE host = $h AND f > $n", "params": `{"h":"h1","n":1}`})
	if text != `{"results":[{"statement_id":0,"series":[{"name":"m","columns":["time","f"],"values":[[2,2]]}]}]}`+"\n" {
		t.Errorf("%s", text)
	}
}

// Falling times are found with few looks, whatever lies before them.
func TestFallingTimes(t *testing.T) {
	n := newNaive(1, 1_000_000)
	for i := range n.times[0][0] { // most of it long ago
		if i < 900_000 {
			n.times[0][0][i] = int64(i)
		}
	}
	_, r, text := ask(t, n, memory, map[string]string{"q": "SELECT last(f) FROM m; SELECT f FROM m ORDER BY time DESC LIMIT 3"})
	if n.scans > 20 || len(r.Results) != 2 || !strings.Contains(text, `[[999999,99],[999998,98],[999997,97]]`) {
		t.Errorf("%d scans: %.300s", n.scans, text)
	}
	n.scans = 0
	_, r, text = ask(t, n, memory, map[string]string{"q": "SELECT f FROM m ORDER BY time DESC"})
	if len(r.Results) != 1 || len(r.Results[0].Series) != 1 || len(r.Results[0].Series[0].Values) != 1_000_000 || r.Results[0].Series[0].Partial || n.scans > 3000 {
		t.Errorf("%d scans: %.300s", n.scans, text)
	}
}

// A node that restarted often is shown in a time that grows with its restarts, and not with
// their square.
func TestShowAfterManyRestarts(t *testing.T) {
	const lives = 6000
	n := newNaive(1, 10)
	n.lives, n.runs[0].Attempt = lives, lives
	began := time.Now()
	for q, rows := range map[string]int{
		`SHOW TAG KEYS FROM m`:                                             5, // host, run, runtime_id, uid, version
		`SHOW TAG VALUES FROM m WITH KEY = "version"`:                      3,
		`SHOW TAG VALUES FROM m WITH KEY = "nothing"`:                      0,
		`SHOW TAG VALUES FROM m WITH KEY IN ("host", "runtime_id")`:        lives + 1,
		`SHOW SERIES FROM m`:                                               lives,
		`SHOW TAG VALUES FROM m WITH KEY = runtime_id WHERE version = '1'`: lives / 3,
	} {
		_, r, text := ask(t, n, 64<<20, map[string]string{"q": q})
		got := 0
		for _, s := range r.Results[0].Series {
			got += len(s.Values)
		}
		if got != rows {
			t.Errorf("%s has %d rows, want %d: %.300s", q, got, rows, text)
		}
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %s", took)
	}
}
