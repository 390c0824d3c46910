package httpapi_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/httpapi"
)

// called opens a run in a project, shown by a name.
func (l *lab) called(workspace, project, name, shown string, n int) *writer {
	w := l.writer(name, func(r *model.OpenRequest) {
		r.Workspace, r.Project, r.DisplayName, r.OrchestrationID = workspace, project, shown, fmt.Sprint(project, name)
		r.OpenedNs = int64(n) * int64(time.Minute)
		r.Writer = model.WriterID{byte(n), byte(n >> 8), 9: 2}
	})
	return w
}

// TestWhatPeopleCallRuns: a name leads to its run wherever it means one only.
func TestWhatPeopleCallRuns(t *testing.T) {
	l := newLab(t, httpapi.Options{})
	hello := l.called("default", "first", "hello", "", 1)
	twin := l.called("default", "second", "hello", "", 2)
	shown := l.called("default", "first", "brave-otter-7", "Große Überraschung", 3)
	slashes := l.called("lab", "first", "sweep/lr=0.1", "", 4)
	lookalike := l.called("lab", "odd", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "first/hello!", 5)
	quoted := l.called("lab", "odd", "it's a run", "", 6)
	id := func(w *writer) string { return w.run.String() }
	for ref, want := range map[string]*writer{
		"default/first/hello": hello, "first/hello": hello, "second/hello": twin, id(hello): hello, strings.ToLower(id(hello)): hello,
		"first/" + id(hello): hello, "default/first/" + id(hello): hello,
		"brave-otter-7": shown, "first/brave-otter-7": shown, "Große Überraschung": shown, "first/Große Überraschung": shown, "default/first/Große Überraschung": shown,
		"sweep/lr=0.1": slashes, "first/sweep/lr=0.1": slashes, "lab/first/sweep/lr=0.1": slashes,
		"01ARZ3NDEKTSV4RRFFQ69G5FAV": lookalike, "odd/01ARZ3NDEKTSV4RRFFQ69G5FAV": lookalike, "first/hello!": lookalike, "it's a run": quoted,
	} {
		got := l.get("/api/v1/resolve", values("run", ref))
		if got["id"] != id(want) {
			t.Errorf("%q is %v, want %s", ref, got, id(want))
		}
	}
	if got := l.get("/api/v1/resolve", values("run", "first/hello")); got["workspace"] != "default" || got["project"] != "first" || got["name"] != "hello" {
		t.Errorf("first/hello is %v", got)
	}
	if got := l.get("/api/v1/resolve", values("project", "second")); got["workspace"] != "default" || got["project"] != "second" {
		t.Errorf("second is %v", got)
	}
	ask := func(what, ref string) answer {
		return l.do(http.MethodGet, "/api/v1/resolve", url.Values{what: {ref}}, "")
	}
	l.refused(ask("run", "hello"), 400, model.CodeAmbiguous, id(twin)+"  1970-01-01 00:02 UTC  default/second/hello\n  "+id(hello)+"  1970-01-01 00:01 UTC  default/first/hello")
	l.refused(ask("project", "first"), 400, model.CodeAmbiguous, "default/first\n  lab/first")
	for ref, near := range map[string]string{
		"helo": "default/second/hello or default/first/hello", "frist/hello": "default/first/hello", "default/first/helo": "default/first/hello",
		"brave": "default/first/brave-otter-7", "grosse überraschung": "default/first/brave-otter-7", "its a run": `'lab/odd/it'\''s a run'`,
	} {
		l.refused(ask("run", ref), 404, model.CodeNotFound, "did you mean "+near+"?")
	}
	for _, ref := range []string{"nothing like it", "/", "a/", "/hello", "//", "first/", "default/first/"} {
		if a := ask("run", ref); a.status != 404 {
			t.Errorf("%q: %d %s", ref, a.status, a.body)
		}
	}
	for _, ref := range []string{"", "a\x00b", "a\nb", "\xff", strings.Repeat("x", 4_000)} {
		l.refused(ask("run", ref), 400, model.CodeInvalid, "workspace/project/name")
	}
	// What is deleted is meant where nothing else is.
	if a := l.do(http.MethodDelete, "/api/v1/runs/"+id(hello), nil, ""); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	for ref, want := range map[string]*writer{"hello": twin, "first/hello": hello, "default/first/hello": hello} {
		if got := l.get("/api/v1/resolve", values("run", ref)); got["id"] != id(want) {
			t.Errorf("after a deletion %q is %v, want %s", ref, got, id(want))
		}
	}
}

// TestManyRunsOfOneName: the candidates are ten at most, the newest first.
func TestManyRunsOfOneName(t *testing.T) {
	l := newLab(t, httpapi.Options{})
	var newest string
	for n := 1; n <= 300; n++ {
		newest = l.called("lab", "many", fmt.Sprint("run-", n), "same", n).run.String()
	}
	a := l.do(http.MethodGet, "/api/v1/resolve", values("run", "same"), "")
	l.refused(a, 400, model.CodeAmbiguous, "more than 10 runs")
	hint := decode(t, a.body)["error"].(map[string]any)["hint"].(string)
	lines := strings.Split(hint, "\n")
	if len(lines) != 11 || !strings.HasPrefix(lines[1], "  "+newest) || !strings.Contains(lines[1], "lab/many/run-300") || !strings.Contains(lines[10], "lab/many/run-291") {
		t.Errorf("%d lines:\n%s", len(lines), hint)
	}
}
