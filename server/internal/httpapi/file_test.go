package httpapi_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/blob"
	"github.com/kymogram/kymogram/server/internal/blob/dir"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/httpapi"
)

func TestFilesAreListedAndRead(t *testing.T) {
	store, err := dir.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	signer, err := blob.NewSigner(make([]byte, 32), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	fail := func(w http.ResponseWriter, _ *http.Request, err error) {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
	l := newLab(t, httpapi.Options{Files: blob.NewHandler(store, signer, 1<<20, everybody, fail)})
	run := l.writer("r", nil).run
	base := "/api/v1/runs/" + run.String() + "/files"
	names := []string{"output.log", "media/ä b%2F.png", "media/<script>.html", "100% \"q\";x.txt", "x?y#z"}
	for i, name := range names {
		h, size, _, err := store.Keep(t.Context(), strings.NewReader(fmt.Sprint("bytes of ", name)), 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		f := model.RunFile{SHA256: h.String(), Size: size, ContentType: "text/html", TimeNs: int64(i + 1)}
		if err := l.ingest.UpdateRun(t.Context(), run, []model.Update{{Op: model.OpSetFile, Path: name, File: &f}}); err != nil {
			t.Fatal(err)
		}
	}
	var listed []string
	for query := values("limit", "2"); ; {
		page := decode(t, l.do("GET", base, query, "").body)
		for _, one := range page["files"].([]any) {
			f := one.(map[string]any)
			name := f["name"].(string)
			listed = append(listed, name)
			a := l.do("GET", f["url"].(string), nil, "")
			if a.status != 200 || string(a.body) != "bytes of "+name {
				t.Errorf("%s: %d %q", f["url"], a.status, a.body)
			}
			if d := a.header.Get("Content-Disposition"); !strings.HasPrefix(d, "attachment; filename") || strings.ContainsAny(d, "\r\n") || a.header.Get("Content-Type") != "application/octet-stream" {
				t.Errorf("%s: %v", name, a.header)
			}
		}
		if page["next"] == nil {
			break
		}
		query.Set("cursor", page["next"].(string))
	}
	slices.Sort(names)
	if !slices.Equal(listed, names) {
		t.Errorf("listed %q, want %q", listed, names)
	}
	for _, c := range []struct {
		query []string
		want  int
	}{{[]string{"prefix", "media/"}, 2}, {[]string{"pattern", "%.PNG"}, 1}, {[]string{"prefix", "media/", "pattern", "%html"}, 1}, {[]string{"prefix", "none"}, 0}} {
		if got := decode(t, l.do("GET", base, values(c.query...), "").body)["files"].([]any); len(got) != c.want {
			t.Errorf("%v: %v", c.query, got)
		}
	}
	part := httptest.NewRequest(http.MethodGet, l.http.URL+base+"/output.log", nil)
	part.RequestURI = ""
	part.Header.Set("Range", "bytes=6-7")
	answer, err := l.http.Client().Do(part)
	if err != nil || answer.StatusCode != http.StatusPartialContent || answer.ContentLength != 2 {
		t.Errorf("a part: %v, %v", answer, err)
	}
	answer.Body.Close()
	for path, code := range map[string]int{base + "/none": 404, base + "/media": 404, base + "/..%2Foutput.log": 404, base + "/": 404, base + "?limit=0": 400, base + "?cursor=x": 400} {
		if a := l.do("GET", path, nil, ""); a.status != code {
			t.Errorf("%s: %d %s, want %d", path, a.status, a.body, code)
		}
	}
	l.denied.Store(new(catalog.ScopeRead))
	for _, path := range []string{base, base + "/output.log"} {
		if a := l.do("GET", path, nil, ""); a.status != http.StatusForbidden {
			t.Errorf("%s without a right: %d", path, a.status)
		}
	}
}
