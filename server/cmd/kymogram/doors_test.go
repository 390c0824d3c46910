package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/kymogram/kymogram/server/internal/auth"
)

// A key of w/p reads the files that runs of w/p name, and no others.
func TestFilesBelongToProjects(t *testing.T) {
	s := serveNode(t, false)
	s.addKeys()
	for _, project := range []string{"p", "q"} {
		s.addKey("reader of "+project, auth.KeySpec{Scopes: []auth.Scope{auth.Read}, Workspace: "w", Project: project})
	}
	put := func(text string) string {
		sum := sha256.Sum256([]byte(text))
		path := "/api/v1/blobs/" + hex.EncodeToString(sum[:])
		if code, body := s.request("PUT", path, text, s.keys["ingest"]); code != http.StatusNoContent {
			t.Fatalf("put: %d %s", code, body)
		}
		return path
	}
	named, free := put("named by w/p"), put("named by no run")
	rendering := fmt.Sprintf(`{"id":"w-1","env_id":"e","sha256":%q,"size_bytes":12,"frames":1}`, strings.TrimPrefix(named, "/api/v1/blobs/"))
	if code, body := s.request("POST", "/api/v1/runs/RUN/renderings", rendering, s.keys["ingest"]); code != http.StatusNoContent {
		t.Fatalf("rendering: %d %s", code, body)
	}
	for _, c := range []struct {
		caller, path string
		want         int
	}{
		{"reader of p", named, 200},
		{"reader of q", named, 404},
		{"other workspace", named, 404},
		{"read", named, 200},
		{"reader of p", free, 404},
		{"reader of q", free, 404},
		{"read", free, 200},
		{"admin", free, 200},
	} {
		for _, request := range [][2]string{{"GET", ""}, {"HEAD", ""}, {"GET", "/url"}} {
			if code, body := s.request(request[0], c.path+request[1], "", s.keys[c.caller]); code != c.want {
				t.Errorf("%s %s%s as %s: %d %s, want %d", request[0], c.path, request[1], c.caller, code, body, c.want)
			}
		}
	}
	var signed struct{ URL string }
	_, body := s.request("GET", named+"/url", "", s.keys["reader of p"])
	if err := json.Unmarshal([]byte(body), &signed); err != nil {
		t.Fatal(err)
	}
	if code, body := s.request("GET", signed.URL, "", ""); code != 200 || body != "named by w/p" {
		t.Errorf("the signed URL: %d %s", code, body)
	}
	if code, _ := s.request("DELETE", "/api/v1/runs/RUN", "", s.keys["admin"]); code != http.StatusOK {
		t.Fatalf("delete: %d", code)
	}
	if code, body := s.request("GET", named, "", s.keys["reader of p"]); code != 404 {
		t.Errorf("of a run in the trash: %d %s", code, body)
	}
}

// Sign-out ends the session of a one-time link, but never a key.
func TestSignOut(t *testing.T) {
	s := serveNode(t, false)
	s.addKeys()
	cookie := func(token string) *http.Cookie {
		answer := s.page("POST", "/api/v1/session", fmt.Sprintf(`{"token":%q}`, token), nil)
		if answer.StatusCode != http.StatusOK || len(answer.Cookies()) != 1 {
			t.Fatalf("sign-in: %s", answer.Status)
		}
		return answer.Cookies()[0]
	}
	_, token, _ := strings.Cut(s.LoginLink(), "#")
	session, traded := cookie(token), cookie(s.keys["read"])
	for name, c := range map[string]*http.Cookie{"a link's session": session, "a key's": traded} {
		if answer := s.page("GET", "/api/v1/projects", "", c); answer.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s", name, answer.Status)
		}
		answer := s.page("DELETE", "/api/v1/session", "", c)
		if answer.StatusCode != http.StatusNoContent || len(answer.Cookies()) != 1 || answer.Cookies()[0].MaxAge >= 0 {
			t.Errorf("%s: sign-out: %s, %v", name, answer.Status, answer.Cookies())
		}
	}
	if answer := s.page("GET", "/api/v1/projects", "", session); answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("the session after its sign-out: %s", answer.Status)
	}
	if code, body := s.request("GET", "/api/v1/projects", "", s.keys["read"]); code != 200 {
		t.Errorf("the key after the sign-out: %d %s", code, body)
	}
	if answer := s.page("DELETE", "/api/v1/session", "", nil); answer.StatusCode != http.StatusNoContent {
		t.Errorf("without a session: %s", answer.Status)
	}
}

// page makes a request as a browser does, with a cookie instead of a key.
func (s *served) page(method, path, body string, cookie *http.Cookie) *http.Response {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, "http://"+s.address+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if cookie != nil {
		r.AddCookie(cookie)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, answer.Body)
	answer.Body.Close()
	return answer
}

// securityLog keeps the lines of the security log.
type securityLog struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *securityLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

func (l *securityLog) lines() (out []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.all.String()) {
		if strings.Contains(line, "msg=security") {
			out = append(out, line)
		}
	}
	return out
}

func TestSecurityLog(t *testing.T) {
	said := &securityLog{}
	s := serveLogged(t, slog.New(slog.NewTextHandler(said, nil)))
	s.addKeys()
	_, body := s.request("POST", "/api/v1/keys", `{"name":"ci","scopes":["read"],"workspace":"w","project":"q"}`, s.keys["admin"])
	var made struct{ ID, Key string }
	if err := json.Unmarshal([]byte(body), &made); err != nil || made.ID == "" {
		t.Fatalf("%v %s", err, body)
	}
	s.request("GET", "/api/v1/projects", "", made.Key)
	s.request("GET", "/api/v1/projects", "", made.Key) // the second use has no line
	s.request("GET", "/api/v1/runs/RUN", "", made.Key)
	s.request("GET", "/metrics", "", made.Key)
	s.request("GET", "/api/v1/projects", "", "")
	s.request("DELETE", "/api/v1/keys/"+made.ID, "", s.keys["admin"])
	s.request("GET", "/api/v1/projects", "", made.Key)
	_, token, _ := strings.Cut(s.LoginLink(), "#")
	s.page("DELETE", "/api/v1/session", "", s.page("POST", "/api/v1/session", fmt.Sprintf(`{"token":%q}`, token), nil).Cookies()[0])
	s.request("DELETE", "/api/v1/runs/RUN", "", s.keys["admin"])
	s.request("POST", "/api/v1/runs/RUN/restore", "", s.keys["admin"])
	for header, value := range map[string]string{"Origin": "https://evil.example", "Host": "evil.example"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+s.address+"/api/v1/links", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set(header, value)
		if header == "Host" {
			r.Host = value
		}
		if answer, err := http.DefaultClient.Do(r); err != nil {
			t.Fatal(err)
		} else {
			answer.Body.Close()
		}
	}
	lines := said.lines()
	for _, want := range []string{
		`event="key made" address=127.0.0.1:\d+ by=[0-9a-f]{12} request=\w+ key=` + made.ID + ` name=ci scopes=\[read\] workspace=w project=q`,
		`event="key used first" address=127.0.0.1:\d+ request=\w+ key=` + made.ID + ` name=ci`,
		`event=refused cause=permission_denied address=127.0.0.1:\d+ by=` + made.ID + ` request=\w+ route="GET /api/v1/runs/{id}"`,
		`event=refused cause=permission_denied address=127.0.0.1:\d+ by=` + made.ID + ` request=\w+ route="GET /metrics"`,
		`event=refused cause=unauthenticated address=127.0.0.1:\d+ request=\w+ route="GET /api/v1/projects"\n`,
		`event="key revoked" address=127.0.0.1:\d+ by=[0-9a-f]{12} request=\w+ key=` + made.ID,
		`event=refused cause=unauthenticated address=127.0.0.1:\d+ request=\w+ route="GET /api/v1/projects" key=` + made.ID,
		`event=sign-in address=127.0.0.1:\d+ request=\w+ key=[0-9a-f]{12}`,
		`event=sign-out address=127.0.0.1:\d+ request=\w+ key=[0-9a-f]{12}`,
		`event="run deleted" address=127.0.0.1:\d+ by=[0-9a-f]{12} request=\w+ run=` + s.run,
		`event="run restored" address=127.0.0.1:\d+ by=[0-9a-f]{12} request=\w+ run=` + s.run,
		`event=refused cause=host address=127.0.0.1:\d+ request=\w+ host=evil.example`,
		`event=refused cause=origin address=127.0.0.1:\d+ request=\w+ origin=https://evil.example`,
	} {
		if n := len(regexp.MustCompile(want).FindAllString(strings.Join(lines, ""), -1)); n != 1 {
			t.Errorf("%d lines like %s in\n%s", n, want, strings.Join(lines, ""))
		}
	}
	if strings.Contains(strings.Join(lines, ""), made.Key) || strings.Contains(strings.Join(lines, ""), token) {
		t.Error("the log holds a secret")
	}
}

// A flood of refusals leaves a bounded log, and every one is counted.
func TestSecurityLogIsBounded(t *testing.T) {
	said := &securityLog{}
	s := serveLogged(t, slog.New(slog.NewTextHandler(said, nil)))
	s.addKeys()
	const flood = 500
	for range flood {
		s.request("GET", "/api/v1/projects", "", "")
	}
	s.request("DELETE", "/api/v1/runs/RUN", "", s.keys["admin"])
	lines := said.lines()
	if n := len(lines); n > 200 || !strings.Contains(strings.Join(lines, ""), "run deleted") {
		t.Errorf("%d lines:\n%s", n, strings.Join(lines, ""))
	}
	_, figures := s.request("GET", "/metrics", "", s.keys["read"])
	if want := fmt.Sprintf(`kymogram_security_events_total{cause="unauthenticated",event="refused"} %d`, flood); !strings.Contains(figures, want) {
		t.Errorf("/metrics has no %s", want)
	}
}

// A file that was damaged on the server's disk is refused, as a whole and in parts,
// counted, and served again when it is sent again.
func TestADamagedFileIsRefused(t *testing.T) {
	s, d, admin := locked(t)
	const text = "a video of an episode"
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte(text)))
	path := "/api/v1/blobs/" + sum
	d.want(http.StatusNoContent, "PUT", path, admin, text)
	d.want(http.StatusOK, "GET", path, admin, "")
	if err := os.WriteFile(filepath.Join(s.data, "blobs", sum[:2], sum[2:]), []byte("a video of an enemy.."), 0o600); err != nil {
		t.Fatal(err)
	}
	signed := d.want(http.StatusOK, "GET", path+"/url", admin, "")["url"].(string)
	for _, from := range []string{path, signed} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+d.address+from, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"Authorization": {"Bearer " + admin}, "Range": {"bytes=0-3"}}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		said, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		if answer.StatusCode != http.StatusInternalServerError || !bytes.Contains(said, []byte(`"code":"damaged"`)) {
			t.Errorf("a part of a damaged file: %d %s", answer.StatusCode, said)
		}
	}
	if n := d.metricAs(admin, "kymogram_blobs_damaged_total"); n != 1 {
		t.Errorf("%v damaged files are counted", n)
	}
	d.want(http.StatusNoContent, "PUT", path, admin, text)
	if _, got := d.do("GET", path, admin, ""); string(got) != text {
		t.Errorf("sent again, it is %q", got)
	}
}
