package httpapi_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/httpapi"
	"github.com/kymogram/kymogram/server/internal/view"
)

// fullView has every field.
const fullView = `{"format":1,"title":"Training","description":"d","panels":[
	{"title":"loss","description":"p","kind":"line","query":{"metrics":["a/*","b"],"runs":"miner-*","tags":["x"],"labels":{"uid":"1*"}},"axis":"window","reduce":"mean","order":"desc","top":3,"unit":"s"},
	{"title":"last","kind":"stat","query":{"metrics":["a"]},"by":["run","label.uid"]},
	{"title":"scores","kind":"table","query":{"metrics":["a"]},"by":["label.task"],"columns":"run"}]}`

const views = "/api/v1/projects/lab/digits/views"

// with sends a request with headers.
func (l *lab) with(method, path, body string, header ...string) answer {
	l.t.Helper()
	r, err := http.NewRequestWithContext(l.t.Context(), method, l.http.URL+path, strings.NewReader(body))
	if err != nil {
		l.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	response, err := l.http.Client().Do(r)
	if err != nil {
		l.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		l.t.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, text}
}

// Two people change one view: the second is told, and nothing of either is lost.
func TestViewsAreChangedByWhoReadThem(t *testing.T) {
	l := newLab(t, httpapi.Options{})
	titled := func(title string) string { return strings.Replace(fullView, "Training", title, 1) }
	made := l.with("PUT", views+"/training", titled("one"), "If-None-Match", "*")
	if made.status != 200 {
		t.Fatalf("%d %s", made.status, made.body)
	}
	read := l.with("GET", views+"/training", "")
	etag := read.header.Get("ETag")
	if etag == "" || etag != made.header.Get("ETag") || decode(t, read.body)["title"] != "one" {
		t.Fatalf("etag %q and %q, %s", etag, made.header.Get("ETag"), read.body)
	}
	for _, c := range []struct {
		method, body string
		header       []string
		status       int
	}{
		{"PUT", titled("again"), []string{"If-None-Match", "*"}, 409},
		{"PUT", titled("two"), []string{"If-Match", etag}, 200},
		{"PUT", titled("three"), []string{"If-Match", etag}, 409},
		{"DELETE", "", []string{"If-Match", etag}, 409},
		{"PUT", titled("x"), []string{"If-Match", "*"}, 400},
		{"PUT", titled("x"), []string{"If-Match", `W/"a"`}, 400},
		{"PUT", titled("x"), []string{"If-Match", etag, "If-None-Match", "*"}, 400},
	} {
		if a := l.with(c.method, views+"/training", c.body, c.header...); a.status != c.status {
			t.Errorf("%s %v: %d %s, want %d", c.method, c.header, a.status, a.body, c.status)
		}
	}
	if doc := decode(t, l.with("GET", views+"/training", "").body); doc["title"] != "two" {
		t.Errorf("the view is %v", doc["title"])
	}
	if a := l.with("PUT", views+"/training", titled("four")); a.status != 200 { // without a condition
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := l.with("DELETE", views+"/training", ""); a.status != 204 {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := l.with("GET", views+"/training", ""); a.status != 404 || !strings.Contains(string(a.body), "kymogram view list lab/digits") {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// What a newer page stored comes back as it was, and the list tells such a view by its panels.
func TestAViewOfThePageKeepsFieldsOfNewerVersions(t *testing.T) {
	l := newLab(t, httpapi.Options{})
	const page = `{"pinned":["b","a"],"newer":{"x":[1,2.5,true]},"sections":[{"title":"S","made":true,"icon":"star"}]}`
	made := l.with("PUT", views+"/mine", `{"format":1,"title":"<img src=x>","page":`+page+`}`, "If-None-Match", "*")
	if made.status != 200 || fmt.Sprint(decode(t, made.body)["panels"]) != "0" {
		t.Fatalf("%d %s", made.status, made.body)
	}
	read := l.with("GET", views+"/mine", "")
	if want := `{"format":1,"title":"<img src=x>","page":` + page + "}\n"; string(read.body) != want {
		t.Errorf("the view is %s, want %s", read.body, want)
	}
	if a := l.with("PUT", views+"/mine", `{"format":1,"title":"t","page":{}}`, "If-Match", `"old"`); a.status != 409 {
		t.Errorf("a second reader overwrites: %d %s", a.status, a.body)
	}
}

func TestViewsThatAreRefused(t *testing.T) {
	l := newLab(t, httpapi.Options{})
	for _, c := range []struct {
		path, body string
		status     int
		says       string
	}{
		{views + "/v", `{"format":1,"title":"t","panels":[{"title":"p","kind":"pie","query":{"metrics":["m"]}}]}`, 400, `panels[0].kind is \"pie\", it must be one of line, stat, table`},
		{views + "/v", strings.Repeat(" ", view.MaxBytes) + fullView, 413, "the most is 262144"},
		{views + "/v", strings.Repeat("[", 100_000), 400, "nested"},
		{views + "/v", "", 400, "not JSON"},
		{views + "/%2e%2e", fullView, 400, "no name of a view"},
		{"/api/v1/projects/lab/..%2Fx/views/v", fullView, 400, "project"},
	} {
		if a := l.with("PUT", c.path, c.body); a.status != c.status || !strings.Contains(string(a.body), c.says) {
			t.Errorf("%s %.60s: %d %s, want %d and %q", c.path, c.body, a.status, a.body, c.status, c.says)
		}
	}
	for _, scope := range []catalog.Scope{catalog.ScopeRead, catalog.ScopeIngest} {
		l.denied.Store(&scope)
		for _, method := range []string{"GET", "PUT", "DELETE"} {
			want := (method == "GET") == (scope == catalog.ScopeRead)
			if a := l.with(method, views+"/v", fullView); (a.status == 403) != want {
				t.Errorf("%s without %s: %d %s", method, scope, a.status, a.body)
			}
		}
	}
}

// fullViews has as many views as a project may have, and a document of the largest size.
func (l *lab) fullViews() {
	l.t.Helper()
	large := `{"format":1,"title":"t","panels":[{"title":"p","kind":"stat","query":{"metrics":["m"]}}`
	for len(large) < view.MaxBytes-4_000 {
		large += `,{"title":"p","kind":"stat","description":"` + strings.Repeat("d", 1_900) + `","query":{"metrics":["m"]}}`
	}
	if a := l.with("PUT", views+"/v0", large+"]}"); a.status != 200 {
		l.t.Fatalf("%d %s", a.status, a.body)
	}
	for i := 1; i < catalog.MaxViews; i++ {
		v := catalog.View{Name: fmt.Sprintf("v%d", i), Title: strings.Repeat("π", 200), Tag: strings.Repeat("t", 32), Document: "{}"}
		if err := l.catalog.PutView(l.t.Context(), "lab", "digits", v, catalog.Condition{}); err != nil {
			l.t.Fatal(model.CodeOf(err), err)
		}
	}
}
