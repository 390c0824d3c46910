package httpapi_test

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/httpapi"
	"github.com/kymogram/kymogram/server/internal/query"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/local"
)

const project = "/api/v1/projects/lab/digits"

// sweep makes runs of three learning rates, whose loss at step i is rate·10 − i.
func (l *lab) sweep(n int) (ids []string) {
	l.t.Helper()
	for i := range n {
		rate := float64(i%3) / 10
		w := l.writer(fmt.Sprintf("run-%02d", i), func(r *model.OpenRequest) {
			r.Writer[6] = byte(i + 1)
			r.Initial = []model.Update{{Op: model.OpSetAttribute, Path: "config/lr", Value: model.FloatValue(rate)}}
		})
		w.log(model.NewSeriesKey("loss", "", nil), steps(0, 3, func(s int) any { return rate*10 - float64(s) + float64(i)/100 })...)
		last := *model.FloatValue(rate*10 - 2 + float64(i)/100)
		s := []catalog.Summary{{Metric: "loss", Points: 3, Last: last, Min: last, Max: *model.FloatValue(rate*10 + float64(i)/100)}}
		if err := l.catalog.PutSummaries(l.t.Context(), w.run, s, time.Now()); err != nil {
			l.t.Fatal(err)
		}
		ids = append(ids, w.run.String())
	}
	return ids
}

// A run with n tags would be in n³ groups by tag, tag and tag.
func TestGroupsTakeEachKeyOnce(t *testing.T) {
	l := newLab(t, httpapi.Options{})
	l.sweep(1)
	for _, by := range [][]string{{"tag", "tag"}, {"tag", "status", "tag"}, {"config/lr", "config/lr"}} {
		l.refused(l.do("GET", project+"/groups", url.Values{"by": by}, ""), 400, model.CodeInvalid, by[0]+" is given twice")
	}
}

// Each group says its keys, so a long one comes ten thousand times.
func TestGroupsRefuseLongKeys(t *testing.T) {
	l := newLab(t, httpapi.Options{})
	l.sweep(1)
	l.get(project+"/groups", url.Values{"by": {strings.Repeat("k", 512)}})
	l.refused(l.do("GET", project+"/groups", url.Values{"by": {strings.Repeat("k", 513)}}, ""), 400, model.CodeInvalid, "has 513 bytes")
}

func TestGroupsListTheirMembers(t *testing.T) {
	l := newLab(t, httpapi.Options{})
	l.sweep(10)
	doc := l.get(project+"/groups", url.Values{"by": {"config/lr"}, "column": {"best(loss)", "at(loss,1)"}, "sort": {"key"}, "q": {"not name=run-00"}})
	if text(doc["runs"]) != "9" || text(doc["groups"]) != "3" {
		t.Errorf("%v", doc)
	}
	for i, g := range doc["shown"].([]any) {
		group := g.(map[string]any)
		list := l.get(project+"/runs", url.Values{"group": {group["member"].(string)}, "sort": {"name"}, "q": {"not name=run-00"}})
		var want []string
		for run := range 10 {
			if run%3 == i && run > 0 {
				want = append(want, fmt.Sprintf("run-%02d", run))
			}
		}
		if got := names(list); !slices.Equal(got, want) || text(group["runs"]) != fmt.Sprint(len(want)) {
			t.Errorf("group %d: %v, want %v", i, got, want)
		}
		best := group["columns"].([]any)[0].(map[string]any)["min_run"].(map[string]any)["name"]
		least := group["columns"].([]any)[1].(map[string]any)["min"]
		var first int
		if _, err := fmt.Sscanf(want[0], "run-%d", &first); err != nil {
			t.Fatal(err)
		}
		if n, _ := least.(json.Number).Float64(); best != want[0] || n != float64(i)-1+float64(first)/100 {
			t.Errorf("group %d: the best is %v, want %s; at step 1 %v", i, best, want[0], least)
		}
	}
}

// Values that look alike are told apart, and a NaN is no lack of a value.
func TestGroupsTellValuesApart(t *testing.T) {
	l := newLab(t, httpapi.Options{})
	values := []*model.Value{
		nil, model.IntValue(1), model.FloatValue(1), model.StringValue("1"), model.FloatValue(math.NaN()), model.StringValue("NaN"),
	}
	for i, v := range values {
		l.writer(fmt.Sprint("run-", i), func(r *model.OpenRequest) {
			r.Writer[6] = byte(i + 1)
			if v != nil {
				r.Initial = []model.Update{{Op: model.OpSetAttribute, Path: "config/x", Value: v}}
			}
		})
	}
	doc := l.get(project+"/groups", url.Values{"by": {"config/x"}, "sort": {"key"}})
	var got []string
	for _, g := range doc["shown"].([]any) {
		group := g.(map[string]any)
		list := names(l.get(project+"/runs", url.Values{"group": {group["member"].(string)}, "sort": {"name"}}))
		got = append(got, fmt.Sprint(group["types"], group["values"], list))
	}
	want := []string{
		"[float64] [NaN] [run-4]", "[int64] [1] [run-1 run-2]", "[string] [1] [run-3]", "[string] [NaN] [run-5]", "[<nil>] [<nil>] [run-0]",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// A filter with at(…) pages through what a loop finds, and reads no run twice.
func TestAFilterAtAStep(t *testing.T) {
	l := newLab(t, httpapi.Options{})
	l.sweep(10)
	for q, holds := range map[string]func(run int) bool{
		"at(loss,1)<0":                  func(run int) bool { return run%3 == 0 },
		"not (at(loss,1)<0 or name=a)":  func(run int) bool { return run%3 > 0 },
		"at(loss,1)>0.9 or name=run-00": func(run int) bool { return run%3 == 2 || run == 0 },
	} {
		for _, limit := range []string{"1", "3", "100"} {
			var got, want []string
			for run := range 10 {
				if holds(run) {
					want = append(want, fmt.Sprintf("run-%02d", run))
				}
			}
			for cursor := ""; ; {
				doc := l.get(project+"/runs", url.Values{"q": {q}, "sort": {"name"}, "limit": {limit}, "cursor": {cursor}})
				got = append(got, names(doc)...)
				next, _ := doc["next"].(string)
				if next == "" {
					break
				}
				cursor = next
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s, limit %s: %v, want %v", q, limit, got, want)
			}
		}
	}
}

// scans counts the reads of points.
type scans struct {
	*local.Engine
	n atomic.Int64
}

func (s *scans) Scan(ctx context.Context, r store.ScanRequest) (*store.Rows, error) {
	s.n.Add(1)
	return s.Engine.Scan(ctx, r)
}

// A list that is sorted by values at a step reads each run once, however many pages it has; its
// first page reads them anew.
func TestAnOrderAtAStepIsReadOnce(t *testing.T) {
	l := newLab(t, httpapi.Options{})
	const runs = 10
	l.sweep(runs)
	counted := &scans{Engine: l.engine}
	service := query.New(counted, l.catalog, l, l.ingest, query.Limits{})
	var want []string
	for rate := range 3 {
		for run := rate; run < runs; run += 3 {
			want = append(want, fmt.Sprintf("run-%02d", run))
		}
	}
	for round := 1; round <= 2; round++ {
		var got []string
		request := query.RunsRequest{Workspace: "lab", Project: "digits", Sort: "at(loss,1)", Page: query.Page{Limit: 3}}
		for {
			page, err := service.Runs(t.Context(), request)
			if err != nil {
				t.Fatal(err)
			}
			for _, run := range page.Runs {
				got = append(got, run.Name)
			}
			if request.Cursor = page.Next; page.Next == "" {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
		if n := counted.n.Load(); n != int64(round*runs) {
			t.Errorf("%d reads of points after %d lists of %d runs", n, round, runs)
		}
	}
}

// The runs of a page with at(…) have no more bytes of texts than those of another page.
func TestAFilterAtAStepKeepsToThePage(t *testing.T) {
	l := newLab(t, httpapi.Options{})
	const runs, note, page = 20, 50 << 10, 300 << 10
	for i := range runs {
		w := l.writer(fmt.Sprintf("run-%02d", i), func(r *model.OpenRequest) {
			r.Writer[6] = byte(i + 1)
			r.Initial = []model.Update{{Op: model.OpSetAttribute, Path: "config/note", Value: model.StringValue(strings.Repeat("n", note))}}
		})
		w.log(model.NewSeriesKey("loss", "", nil), steps(0, 2, func(int) any { return -1.0 })...)
	}
	service := query.New(l.engine, l.catalog, l, l.ingest, query.Limits{Page: page})
	request := query.RunsRequest{Workspace: "lab", Project: "digits", Query: "at(loss,1)<0", Sort: "name"}
	seen := 0
	for {
		list, err := service.Runs(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(list.Runs); n == 0 || n*note > page {
			t.Fatalf("a page has %d runs of %d bytes, there may be %d bytes", n, note, page)
		}
		for _, run := range list.Runs {
			if want := fmt.Sprintf("run-%02d", seen); run.Name != want || len(run.Config) != 1 {
				t.Errorf("%s with %d attributes, want %s", run.Name, len(run.Config), want)
			}
			seen++
		}
		if request.Cursor = list.Next; list.Next == "" {
			break
		}
	}
	if seen != runs {
		t.Errorf("%d runs, want %d", seen, runs)
	}
}

// Named values of a page have no more bytes of texts than its runs, and it is shorter where there
// are very many.
func TestNamedValuesKeepToThePage(t *testing.T) {
	l := newLab(t, httpapi.Options{})
	const runs, note, page = 12, 60 << 10, 500 << 10
	for i := range runs {
		l.writer(fmt.Sprintf("run-%02d", i), func(r *model.OpenRequest) {
			r.Writer[6] = byte(i + 1)
			r.Initial = []model.Update{{Op: model.OpSetAttribute, Path: "note", Value: model.StringValue(strings.Repeat("n", note))}}
		})
	}
	service := query.New(l.engine, l.catalog, l, l.ingest, query.Limits{Page: page})
	pages := func(columns ...string) (sizes []int) {
		t.Helper()
		request := query.RunsRequest{Workspace: "lab", Project: "digits", Sort: "name", Columns: columns}
		for next := ""; ; {
			request.Cursor = next
			page, err := service.RunRows(t.Context(), request)
			if err != nil {
				t.Fatal(err)
			}
			for i := range page.Rows {
				if v := page.Rows[i].Values; len(v) != len(columns) || len(v[0].Str) != note {
					t.Errorf("%s has %d values", page.Rows[i].Name, len(v))
				}
			}
			sizes = append(sizes, len(page.Rows))
			if next = page.Next; next == "" {
				return sizes
			}
		}
	}
	for _, columns := range []int{1, 2, 10} {
		seen := 0
		for _, n := range pages(slices.Repeat([]string{"note"}, columns)...) {
			if seen += n; n > 1 && n*columns*note > page {
				t.Errorf("a page has %d runs of %d texts of %d bytes", n, columns, note)
			}
		}
		if seen != runs {
			t.Errorf("%d columns: %d runs, want %d", columns, seen, runs)
		}
	}
	none := slices.Repeat([]string{"config/none"}, 2_000)
	a := l.do("GET", project+"/runs", url.Values{"format": {"csv"}, "column": none}, "")
	if lines := strings.Count(string(a.body), "\n"); a.status != 200 || lines != runs+1 {
		t.Errorf("%d: %d lines of 2,000 columns, want %d", a.status, lines, runs+1)
	}
	l.refused(l.do("GET", project+"/runs", url.Values{"column": append(none, "config/lr")}, ""), 400, model.CodeInvalid, "2001 columns, at most 2000")
	l.refused(l.do("GET", project+"/groups", url.Values{"column": none[:101]}, ""), 400, model.CodeInvalid, "101 columns, at most 100")
}

func TestRunsAsCSV(t *testing.T) {
	l := newLab(t, httpapi.Options{})
	l.sweep(4)
	l.writer(`=cmd|'/c calc'!A1`, func(r *model.OpenRequest) {
		r.Writer[6] = 99
		r.Initial = []model.Update{
			{Op: model.OpSetAttribute, Path: "config/=note", Value: model.StringValue("-1, \"two\"\nlines")},
			{Op: model.OpSetAttribute, Path: "config/lr", Value: model.FloatValue(-0.1)},
		}
	})
	columns := []string{"name", "config/lr", "config/=note", "min(loss)", "at(loss,1)", "status"}
	a := l.do("GET", project+"/runs", url.Values{"format": {"csv"}, "column": columns, "sort": {"name"}}, "")
	rows, err := csv.NewReader(strings.NewReader(string(a.body))).ReadAll()
	if err != nil || a.status != 200 {
		t.Fatalf("%d %v", a.status, err)
	}
	want := [][]string{columns, {`'=cmd|'/c calc'!A1`, "-0.1", "'-1, \"two\"\nlines", "", "", "running"}}
	for i := range 4 {
		rate := float64(i%3) / 10
		want = append(want, []string{
			fmt.Sprintf("run-%02d", i), fmt.Sprint(rate), "", model.FloatText(rate*10 - 2 + float64(i)/100), model.FloatText(rate*10 - 1 + float64(i)/100), "running",
		})
	}
	if fmt.Sprint(rows) != fmt.Sprint(want) {
		t.Errorf("got %q\nwant %q", rows, want)
	}
	l.refused(l.do("GET", project+"/runs", url.Values{"format": {"csv"}, "limit": {"5"}}, ""), 400, model.CodeInvalid, "all runs")
	l.refused(l.do("GET", project+"/runs", url.Values{"format": {"csv"}, "q": {"a or"}}, ""), 400, model.CodeInvalid, "column")
}

// A file has odd names and long texts as they are; who may not read the project gets nothing of it.
func TestCSVOfOddNames(t *testing.T) {
	l := newLab(t, httpapi.Options{})
	long := strings.Repeat("\u200b,\"\n", 64<<10/6)
	odd := []string{"config/__proto__", "config/zero\u200bwidth", "config/" + strings.Repeat("p", 500)}
	l.writer("constructor", func(r *model.OpenRequest) {
		for _, path := range odd {
			r.Initial = append(r.Initial, model.Update{Op: model.OpSetAttribute, Path: path, Value: model.StringValue(long)})
		}
	})
	asked := url.Values{"format": {"csv"}, "column": append([]string{"name"}, odd...)}
	rows, err := csv.NewReader(strings.NewReader(string(l.do("GET", project+"/runs", asked, "").body))).ReadAll()
	if err != nil || !slices.EqualFunc(rows, [][]string{asked["column"], {"constructor", long, long, long}}, slices.Equal) {
		t.Errorf("%d rows: %v", len(rows), err)
	}
	read := catalog.ScopeRead
	l.denied.Store(&read)
	l.refused(l.do("GET", project+"/runs", asked, ""), 403, model.CodePermission, "no read")
}

// A download that is broken off ends on the server, too.
func TestCSVThatIsBrokenOff(t *testing.T) {
	l := newLab(t, httpapi.Options{})
	for i := range 200 {
		l.writer(fmt.Sprintf("run-%03d", i), func(r *model.OpenRequest) {
			r.Writer[6] = byte(i + 1)
			r.Initial = []model.Update{{Op: model.OpSetAttribute, Path: "note", Value: model.StringValue(strings.Repeat("n", 60<<10))}}
		})
	}
	before := runtime.NumGoroutine()
	for range 3 {
		res, err := http.Get(l.http.URL + project + "/runs?format=csv&column=note")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.CopyN(io.Discard, res.Body, 1000); err != nil {
			t.Error(err)
		}
		res.Body.Close()
	}
	http.DefaultClient.CloseIdleConnections()
	for end := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines, there were %d", runtime.NumGoroutine(), before)
		}
	}
}

// One request changes many runs; a run that is not there fails alone.
func TestEditsOfMany(t *testing.T) {
	l := newLab(t, httpapi.Options{})
	ids := append(l.sweep(3), "01ARZ3NDEKTSV4RRFFQ69G5FAV")
	list, err := json.Marshal(ids)
	if err != nil {
		t.Fatal(err)
	}
	send := func(path, more string) (changed []any) {
		t.Helper()
		a := l.do("POST", path, nil, `{"runs":`+string(list)+more+`}`)
		if a.status != 200 {
			t.Fatalf("%s: %d %s", path, a.status, a.body)
		}
		results := decode(t, a.body)["results"].([]any)
		for i, r := range results[:3] {
			doc := r.(map[string]any)
			if doc["id"] != ids[i] {
				t.Errorf("%s: result %d is of %v", path, i, doc["id"])
			}
			changed = append(changed, doc["changed"])
		}
		if code := results[3].(map[string]any)["error"].(map[string]any)["code"]; code != "not_found" {
			t.Errorf("%s: %v for a run that is not there", path, code)
		}
		return changed
	}
	for _, step := range []struct{ path, more, want, query, shown string }{
		{"/api/v1/edits", `,"add_tags":["best","a"]`, "[true true true]", "tag=best tag=a", "3"},
		{"/api/v1/edits", `,"add_tags":["best"]`, "[false false false]", "tag=best", "3"},
		{"/api/v1/edits", `,"remove_tags":["best"],"add_tags":["b"]`, "[true true true]", "tag=b not tag=best", "3"},
		{"/api/v1/deletions", "", "[true true true]", "", "0"},
		{"/api/v1/deletions", "", "[false false false]", "", "0"},
		{"/api/v1/restorations", "", "[true true true]", "", "3"},
	} {
		if got := fmt.Sprint(send(step.path, step.more)); got != step.want {
			t.Errorf("%s %s: changed %s, want %s", step.path, step.more, got, step.want)
		}
		if got := len(names(l.get(project+"/runs", values("q", step.query)))); fmt.Sprint(got) != step.shown {
			t.Errorf("after %s: %d runs with %q, want %s", step.path, got, step.query, step.shown)
		}
	}
	l.refused(l.do("POST", "/api/v1/edits", nil, `{"runs":["`+ids[0]+`"]}`), 400, model.CodeInvalid, "nothing to change")
	l.refused(l.do("POST", "/api/v1/deletions", nil, `{"runs":["`+ids[0]+`"],"add_tags":["x"]}`), 400, model.CodeInvalid, "no tags")
	l.refused(l.do("POST", "/api/v1/edits", nil, `{"runs":[],"add_tags":["x"]}`), 400, model.CodeInvalid, "0 runs")
}
