package blob_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/blob"
	"github.com/kymogram/kymogram/server/internal/blob/dir"
)

func TestParseHash(t *testing.T) {
	good := strings.Repeat("0a", 32)
	if h, err := blob.ParseHash(good); err != nil || h.String() != good {
		t.Fatalf("%v, %v", h, err)
	}
	for _, bad := range []string{"", good[1:], good + "0", strings.ToUpper(good), strings.Repeat("zz", 32), "../" + good[3:], good[:62] + "%2"} {
		if _, err := blob.ParseHash(bad); model.CodeOf(err) != model.CodeInvalid {
			t.Errorf("%q: %v, want %s", bad, err, model.CodeInvalid)
		}
	}
}

type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

func newSigner(t *testing.T, c *clock) *blob.Signer {
	t.Helper()
	s, err := blob.NewSigner(bytes.Repeat([]byte{1}, 32), c.now)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSignatureBindsMethodBlobAndTime(t *testing.T) {
	c := &clock{time.Unix(1_000, 0)}
	s := newSigner(t, c)
	h, other := blob.Hash{1}, blob.Hash{2}
	raw, _ := s.Query(http.MethodGet, h, time.Minute)
	query, err := url.ParseQuery(raw)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Check(http.MethodGet, h, query); err != nil {
		t.Fatalf("a good URL: %v", err)
	}
	longer := url.Values{"expires": {"99999"}, "signature": {query.Get("signature")}}
	for name, err := range map[string]error{
		"another method": s.Check(http.MethodPut, h, query),
		"another blob":   s.Check(http.MethodGet, other, query),
		"a longer life":  s.Check(http.MethodGet, h, longer),
		"no signature":   s.Check(http.MethodGet, h, url.Values{"expires": {"99999"}}),
	} {
		if model.CodeOf(err) != model.CodePermission {
			t.Errorf("%s: %v, want %s", name, err, model.CodePermission)
		}
	}
	c.at = c.at.Add(time.Minute)
	if err := s.Check(http.MethodGet, h, query); model.CodeOf(err) != model.CodePermission {
		t.Errorf("after its end: %v, want %s", err, model.CodePermission)
	}
}

func TestHandler(t *testing.T) {
	store, err := dir.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	fail := func(w http.ResponseWriter, _ *http.Request, err error) {
		http.Error(w, string(model.CodeOf(err)), http.StatusTeapot)
	}
	handler := blob.NewHandler(store, newSigner(t, &clock{time.Unix(1_000, 0)}), 16, everybody, fail)
	mux := http.NewServeMux()
	mux.Handle("/b/{sha256}", handler)
	do := func(method, data, body, ranges string) *httptest.ResponseRecorder {
		sum := blob.Hash(sha256.Sum256([]byte(data)))
		r := httptest.NewRequest(method, "/b/"+sum.String(), strings.NewReader(body))
		if ranges != "" {
			r.Header.Set("Range", ranges)
		}
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		return w
	}
	const data = "0123456789"
	steps := []struct {
		method, data, body, ranges string
		code                       int
		want                       string
	}{
		{"GET", data, "", "", http.StatusTeapot, "not_found\n"},
		{"PUT", data, "other", "", http.StatusTeapot, "invalid_argument\n"},
		{"PUT", data, strings.Repeat("x", 17), "", http.StatusTeapot, "too_large\n"},
		{"PUT", data, data, "", http.StatusNoContent, ""},
		{"GET", data, "", "", http.StatusOK, data},
		{"GET", data, "", "bytes=2-4", http.StatusPartialContent, "234"},
		{"HEAD", data, "", "", http.StatusOK, ""},
	}
	for _, s := range steps {
		w := do(s.method, s.data, s.body, s.ranges)
		if w.Code != s.code || w.Body.String() != s.want {
			t.Errorf("%s %q %s: %d %q, want %d %q", s.method, s.body, s.ranges, w.Code, w.Body, s.code, s.want)
		}
	}
}

func TestUploadInParts(t *testing.T) {
	store, err := dir.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	fail := func(w http.ResponseWriter, _ *http.Request, err error) {
		http.Error(w, string(model.CodeOf(err)), http.StatusTeapot)
	}
	handler := blob.NewHandler(store, newSigner(t, &clock{time.Unix(1_000, 0)}), 16, everybody, fail)
	mux := http.NewServeMux()
	mux.Handle("/b/{sha256}/upload", handler.Upload())
	const data = "0123456789"
	part := func(offset, complete string) map[string]string {
		return map[string]string{"Content-Type": "application/partial-upload", "Upload-Offset": offset, "Upload-Complete": complete}
	}
	steps := []struct {
		method, body     string
		header           map[string]string
		code             int
		answer           string // of a refusal
		offset, complete string
	}{
		{"HEAD", "", nil, http.StatusNoContent, "", "0", "?0"},
		{"PATCH", "0123", nil, http.StatusTeapot, "invalid_argument", "", ""},
		{"PATCH", "0123", part("", "?0"), http.StatusTeapot, "invalid_argument", "", ""},
		{"PATCH", "0123", part("-1", "?0"), http.StatusTeapot, "invalid_argument", "", ""},
		{"PATCH", "0123", part("0", "1"), http.StatusTeapot, "invalid_argument", "", ""},
		{"PATCH", strings.Repeat("x", 17), part("0", "?0"), http.StatusTeapot, "too_large", "", ""},
		{"PATCH", "0123", part("0", "?0"), http.StatusNoContent, "", "4", "?0"},
		{"HEAD", "", nil, http.StatusNoContent, "", "4", "?0"},
		{"PATCH", "0123", part("0", "?1"), http.StatusTeapot, "conflict", "4", "?0"},
		{"PATCH", strings.Repeat("x", 13), part("4", "?0"), http.StatusTeapot, "too_large", "", ""},
		{"PATCH", "x", part("9223372036854775807", "?0"), http.StatusTeapot, "too_large", "", ""},
		{"PATCH", "456789", part("4", "?1"), http.StatusNoContent, "", "10", "?1"},
		{"HEAD", "", nil, http.StatusNoContent, "", "10", "?1"},
		{"PATCH", "any", part("0", "?1"), http.StatusNoContent, "", "10", "?1"},
	}
	sum := blob.Hash(sha256.Sum256([]byte(data)))
	for i, s := range steps {
		r := httptest.NewRequest(s.method, "/b/"+sum.String()+"/upload", strings.NewReader(s.body))
		for name, value := range s.header {
			r.Header.Set(name, value)
		}
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		if w.Code != s.code || strings.TrimSpace(w.Body.String()) != s.answer || w.Header().Get("Upload-Offset") != s.offset || w.Header().Get("Upload-Complete") != s.complete {
			t.Errorf("step %d, %s %q: %d %q %v", i, s.method, s.body, w.Code, w.Body, w.Header())
		}
		if s.method == "HEAD" && w.Header().Get("Upload-Limit") != "max-size=16" {
			t.Errorf("step %d: %v", i, w.Header())
		}
	}
}

func everybody(context.Context, string) (bool, error) { return true, nil }
