package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/kymogram/kymogram/server/internal/auth"
	"github.com/kymogram/kymogram/server/internal/keys"
)

// visitor is a browser with a public link: it has a cookie and no key.
type visitor struct {
	t      *testing.T
	client *http.Client
	base   string
}

// visit opens a link as the page does: the fragment's token is traded for a session.
func visit(t *testing.T, link string) (v *visitor, status int) {
	t.Helper()
	base, token, _ := strings.Cut(link, "#")
	address, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	jar, _ := cookiejar.New(nil)
	v = &visitor{t: t, client: &http.Client{Jar: jar}, base: "http://" + address.Host}
	return v, v.do("POST", "/api/v1/session", `{"token":"`+token+`"}`)
}

func (v *visitor) do(method, path, body string) int {
	v.t.Helper()
	r, err := http.NewRequestWithContext(v.t.Context(), method, v.base+path, bytes.NewBufferString(body))
	if err != nil {
		v.t.Fatal(err)
	}
	response, err := v.client.Do(r)
	if err != nil {
		v.t.Fatal(err)
	}
	_ = response.Body.Close()
	return response.StatusCode
}

// publicLink makes one with the command's own parts.
func (s *served) publicLink(project string) (link string, doc auth.Document) {
	s.t.Helper()
	request, err := keys.Public(project, "")
	if err != nil {
		s.t.Fatal(err)
	}
	body, err := json.Marshal(request)
	if err != nil {
		s.t.Fatal(err)
	}
	code, text := s.request("POST", "/api/v1/keys", string(body), s.keys["admin"])
	if err := json.Unmarshal([]byte(text), &doc); err != nil || code != http.StatusCreated {
		s.t.Fatalf("make a link: %d %s", code, text)
	}
	return keys.PublicAddress("http://"+s.address, doc), doc
}

// A visitor with a public link reads one project and nothing else; what it may not
// do is every route of the policy, asked here as the visitor.
func TestPublicLinkReadsOneProject(t *testing.T) {
	s := serveNode(t, false)
	s.addKeys()
	link, _ := s.publicLink("w/p")
	v, code := visit(t, link)
	if code != http.StatusOK {
		t.Fatalf("the link does not open: %d", code)
	}
	for _, path := range []string{
		"/api/v1/projects/w/p/network", "/api/v1/projects/w/p/state", "/api/v1/projects/w/p/runs", "/api/v1/runs/" + s.run, "/api/v1/runs/" + s.run + "/state/history",
	} {
		if code := v.do("GET", path, ""); code != http.StatusOK {
			t.Errorf("GET %s: %d", path, code)
		}
	}
	status, body := s.request("POST", "/api/v1/open", strings.Replace(openBody(9), `"project":"p"`, `"project":"q"`, 1), s.keys["ingest"])
	if status != http.StatusOK {
		t.Fatalf("open a run of w/q: %d %s", status, body)
	}
	var opened struct {
		Run string `json:"run"`
	}
	if err := json.Unmarshal([]byte(body), &opened); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		"/api/v1/projects/w/q/network", "/api/v1/projects/w/q/runs", "/api/v1/projects/v/p/network", "/api/v1/runs/" + opened.Run, "/api/v1/runs/" + opened.Run + "/state",
		"/api/v1/live?project=w/q", "/api/v1/resolve?run=w/q/r",
	} {
		if code := v.do("GET", path, ""); code != http.StatusForbidden {
			t.Errorf("GET %s of another project: %d", path, code)
		}
	}
	for route, n := range routeNeeds() {
		method, _, _ := strings.Cut(route, " ")
		if n.scope != "ingest" && n.scope != "admin" {
			continue
		}
		if code := v.do(method, strings.ReplaceAll(n.path, "RUN", s.run), n.body); code != http.StatusForbidden && code != http.StatusUnauthorized {
			t.Errorf("%s: %d, a visitor may not", route, code)
		}
	}
}

// Revoking ends the link, the sessions made from it and what waits, at once.
func TestRevokedLinkEndsAtOnce(t *testing.T) {
	s := serveNode(t, false)
	s.addKeys()
	link, doc := s.publicLink("w/p")
	v, _ := visit(t, link)
	waits := []string{"network", "state"}
	waited := make(chan int, len(waits))
	for _, path := range waits {
		go func() { waited <- v.do("GET", "/api/v1/projects/w/p/"+path+"?since=5&wait=25", "") }()
	}
	if code := v.do("GET", "/api/v1/projects/w/p/network", ""); code != http.StatusOK {
		t.Fatalf("before: %d", code)
	}
	if code, body := s.request("DELETE", "/api/v1/keys/"+doc.ID, "", s.keys["admin"]); code != http.StatusNoContent {
		t.Fatalf("revoke: %d %s", code, body)
	}
	if code := v.do("GET", "/api/v1/projects/w/p/network", ""); code != http.StatusUnauthorized {
		t.Errorf("after: %d", code)
	}
	if _, code := visit(t, link); code != http.StatusUnauthorized {
		t.Errorf("the link opens again: %d", code)
	}
	for range waits {
		select {
		case code := <-waited:
			if code != http.StatusUnauthorized {
				t.Errorf("a request that waited is told %d after the revocation", code)
			}
		case <-time.After(10 * time.Second):
			t.Error("a request that waits outlives the revocation")
		}
	}
}
