package httpapi_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/httpapi"
)

const digits = "/api/v1/projects/lab/digits/runs"

func names(doc map[string]any) []string {
	out := []string{}
	for _, r := range doc["runs"].([]any) {
		out = append(out, r.(map[string]any)["name"].(string))
	}
	return out
}

// A page offers what its reader may do, and nothing else.
func TestAnswersSayWhatTheCallerMayDo(t *testing.T) {
	l := newLab(t, httpapi.Options{})
	run := l.writer("run", nil).run.String()
	for scope, want := range map[catalog.Scope]string{"": "read, ingest, admin", catalog.ScopeIngest: "read, admin", catalog.ScopeAdmin: "read, ingest"} {
		l.denied.Store(&scope)
		for _, path := range []string{project + "/runs", "/api/v1/runs/" + run} {
			if got := strings.Join(l.do("GET", path, nil, "").header.Values("Kymogram-Rights"), ", "); got != want {
				t.Errorf("%s without %q: %q, want %q", path, scope, got, want)
			}
		}
	}
}

func TestRunsPageThroughEverything(t *testing.T) {
	l := newLab(t, httpapi.Options{})
	var want []string
	for i := range 7 {
		name := fmt.Sprintf("run-%d", i)
		l.writer(name, func(r *model.OpenRequest) { r.OpenedNs = int64(i+1) * 1e9 })
		want = append([]string{name}, want...)
	}
	for _, limit := range []int{1, 3, 7, 50} {
		var got []string
		q := values("limit", strconv.Itoa(limit))
		for {
			doc := l.get(digits, q)
			if got = append(got, names(doc)...); doc["next"] == nil {
				break
			}
			q.Set("cursor", doc["next"].(string))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("limit %d: %s", limit, diff)
		}
	}
}

func TestRunsAreFilteredExactly(t *testing.T) {
	l := newLab(t, httpapi.Options{})
	tags := func(tags ...string) func(*model.OpenRequest) {
		return func(r *model.OpenRequest) { r.Initial = []model.Update{{Op: model.OpSetTags, Tags: tags}} }
	}
	l.writer("alpha", tags("x"))
	l.writer("alphabet", tags("xy"))
	done := l.writer("beta", nil)
	if _, err := done.session.Append(t.Context(), &model.Batch{First: 1, Last: 1, Updates: []model.Update{{Op: model.OpClose, Seq: 1, Text: "finished"}}}); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string][]string{
		"name=alpha": {"alpha"}, "tag=x": {"alpha"}, "status=finished": {"beta"}, "name=alph": {}, "status=failed": {},
	} {
		name, value, _ := strings.Cut(query, "=")
		if diff := cmp.Diff(want, names(l.get(digits, values(name, value)))); diff != "" {
			t.Errorf("%s: %s", query, diff)
		}
	}
}

func TestRunDetail(t *testing.T) {
	l := newLab(t, httpapi.Options{})
	big := int64(1<<53 + 1)
	second, first := int64(1), int64(0)
	alias := model.RunID{1, 2, 3}
	late := l.writer("name/with slash", func(r *model.OpenRequest) {
		r.RestartCount = &second
		r.LocalRun = alias
		r.Initial = []model.Update{
			{Op: model.OpSetAttribute, Path: "config/lr", Value: model.FloatValue(0.5)},
			{Op: model.OpSetAttribute, Path: "config/seed", Value: model.IntValue(big)},
			{Op: model.OpSetAttribute, Path: "config/inf", Value: model.FloatValue(math.Inf(1))},
		}
	})
	early := l.writer("name/with slash", func(r *model.OpenRequest) { r.RestartCount = &first })
	late.log(model.NewSeriesKey("loss", "", nil), steps(0, 4, func(i int) any { return float64(i) })...)
	early.log(model.NewSeriesKey("loss", "", nil), steps(0, 2, func(i int) any { return float64(-i) })...)

	doc := l.get("/api/v1/runs/"+late.run.String(), nil)
	if got, want := text(doc["attempt_order"]), "[2 1]"; got != want {
		t.Errorf("attempt_order is %s, want %s: the lower restart count arrived second", got, want)
	}
	attempts := doc["attempts"].([]any)
	if text(attempts[0].(map[string]any)["number"]) != "1" || text(attempts[0].(map[string]any)["precedence"]) != "2" {
		t.Errorf("attempts are %v", attempts)
	}
	config := doc["config"].(map[string]any)
	if text(config["lr"]) != "0.5" || config["seed"] != "9007199254740993" || config["inf"] != "Infinity" {
		t.Errorf("config is %v", config)
	}
	if text(doc["summary"].(map[string]any)["loss"].(map[string]any)["value"]) != "3" {
		t.Errorf("summary is %v", doc["summary"])
	}
	ledger := doc["ledger"].(map[string]any)
	if text(ledger["logged"]) != "6" || text(ledger["stored"]) != "6" || text(ledger["superseded"]) != "2" || text(doc["points"]) != "4" {
		t.Errorf("ledger is %v, points %v", ledger, doc["points"])
	}
	if len(doc["writers"].([]any)) != 2 || text(doc["series"]) != "1" {
		t.Errorf("writers %v, series %v", doc["writers"], doc["series"])
	}
	for _, ref := range []string{late.run.String(), alias.String(), strings.ToLower(late.run.String()), "lab/digits/name/with slash"} {
		if got := l.get("/api/v1/resolve", values("run", ref))["id"]; got != late.run.String() {
			t.Errorf("%s resolves to %v, want %s", ref, got, late.run)
		}
	}
	if got := l.get("/api/v1/runs/"+alias.String()+"/series", nil)["series"].([]any); len(got) != 1 {
		t.Errorf("the alias has %d series", len(got))
	}
}

func TestPatchRun(t *testing.T) {
	l := newLab(t, httpapi.Options{})
	w := l.writer("run", nil)
	path := "/api/v1/runs/" + w.run.String()
	a := l.do("PATCH", path, nil, `{"display_name":"Best <one>","tags":["b","a"]}`)
	doc := decode(t, a.body)
	if a.status != 200 || doc["display_name"] != "Best <one>" || text(doc["tags"]) != "[a b]" || doc["description"] != "" {
		t.Errorf("%d %s", a.status, a.body)
	}
	if !strings.Contains(string(a.body), "Best <one>") {
		t.Error("HTML is escaped in JSON")
	}
	l.refused(l.do("PATCH", path, nil, `{}`), 400, model.CodeInvalid, "display_name")
	l.refused(l.do("PATCH", path, nil, `{"name":"x"}`), 400, model.CodeInvalid, "unknown field")
	scope := catalog.ScopeIngest
	l.denied.Store(&scope)
	l.refused(l.do("PATCH", path, nil, `{"description":"x"}`), 403, model.CodePermission, "ingest")
}

func TestDeleteAndRestore(t *testing.T) {
	l := newLab(t, httpapi.Options{})
	w := l.writer("run", nil)
	w.log(model.NewSeriesKey("loss", "", nil), steps(0, 3, func(int) any { return 1.0 })...)
	path := "/api/v1/runs/" + w.run.String()
	if a := l.do("DELETE", path, nil, ""); a.status != 200 || decode(t, a.body)["freed"] != false {
		t.Fatalf("%d %s", a.status, a.body)
	}
	l.refused(l.do("GET", path, nil, ""), 410, model.CodeRunDeleted, "runs restore")
	l.refused(l.do("GET", w.path("points"), values("metric", "loss"), ""), 410, model.CodeRunDeleted, "")
	if got := names(l.get(digits, nil)); len(got) != 0 {
		t.Errorf("the list shows %v", got)
	}
	if got := names(l.get(digits, values("deleted", "1"))); len(got) != 1 {
		t.Errorf("the trash shows %v", got)
	}
	if id := l.get("/api/v1/resolve", values("run", "lab/digits/run"))["id"]; id != w.run.String() {
		t.Errorf("the name resolves to %v", id)
	}
	if a := l.do("POST", path+"/restore", nil, ""); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if rows, _ := l.readRows(w.path("points"), values("metric", "loss"), "json", model.KindFloat); len(rows) != 3 {
		t.Errorf("%d points are back", len(rows))
	}
	if a := l.do("DELETE", path, values("now", "1"), ""); a.status != 200 || decode(t, a.body)["freed"] != true {
		t.Fatalf("%d %s", a.status, a.body)
	}
	for _, p := range []string{path, w.path("series")} {
		if a := l.do("GET", p, nil, ""); a.status != 410 && a.status != 404 {
			t.Errorf("%s of a freed run: %d %s", p, a.status, a.body)
		}
	}
}

func TestProjectsShowWhatTheKeyMayRead(t *testing.T) {
	l := newLab(t, httpapi.Options{})
	l.writer("run", nil)
	l.writer("run", func(r *model.OpenRequest) { r.Project = "other" })
	if got := l.get("/api/v1/projects", nil)["projects"].([]any); len(got) != 2 {
		t.Errorf("got %v", got)
	}
	scope := catalog.ScopeRead
	l.denied.Store(&scope)
	if got := l.get("/api/v1/projects", nil)["projects"].([]any); len(got) != 0 {
		t.Errorf("without the right: %v", got)
	}
}

func TestEveryReadAsksForTheRight(t *testing.T) {
	l := newLab(t, httpapi.Options{})
	w := l.writer("run", nil)
	w.log(model.NewSeriesKey("loss", "", nil), steps(0, 3, func(int) any { return 1.0 })...)
	scope := catalog.ScopeRead
	l.denied.Store(&scope)
	for _, path := range []string{
		digits, "/api/v1/runs/" + w.run.String(), w.path("series"), w.path("points?metric=loss"), w.path("buckets?metric=loss"),
		"/api/v1/resolve?run=lab/digits/run", "/api/v1/live?run=" + w.run.String(), "/api/v1/live?project=lab/digits",
	} {
		l.refused(l.do("GET", path, nil, ""), 403, model.CodePermission, "no read")
	}
	a := l.do("POST", "/api/v1/buckets", nil, `{"queries":[{"run":"`+w.run.String()+`","metric":"loss"}]}`)
	if !strings.Contains(string(a.body), "permission_denied") {
		t.Errorf("%s", a.body)
	}
}

func TestOpenAnswersTheRun(t *testing.T) {
	l := newLab(t, httpapi.Options{})
	body, err := json.Marshal(model.OpenRequest{Writer: model.WriterID{9}, Workspace: "lab", Project: "digits", RunName: "r", OrchestrationID: "o", ResumeStrategy: "never", WithStarts: true})
	if err != nil {
		t.Fatal(err)
	}
	a := l.do("POST", "/api/v1/open", nil, string(body))
	if a.status != 200 || decode(t, a.body)["created"] != true {
		t.Fatalf("%d %s", a.status, a.body)
	}
	l.refused(l.do("POST", "/api/v1/open", nil, strings.ReplaceAll(strings.ReplaceAll(string(body), `"o"`, `"p"`), "09000", "08000")), 409, model.CodeRunExists, "run")
	l.refused(l.do("POST", "/api/v1/open", nil, `{"writer":"zz"}`), 400, model.CodeInvalid, "writer")
}
