package s3_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/kymogram/kymogram/server/internal/blob"
)

// TestRequestsAreCounted: as many as the service got, and as many failures as it gave. That
// something is not there is none.
func TestRequestsAreCounted(t *testing.T) {
	target, err := url.Parse(service(t))
	if err != nil {
		t.Fatal(err)
	}
	var got, refused, missing atomic.Uint64
	var refuse atomic.Bool
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.ModifyResponse = func(r *http.Response) error {
		if r.StatusCode == http.StatusNotFound {
			missing.Add(1)
		}
		return nil
	}
	between := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got.Add(1)
		if refuse.Load() {
			refused.Add(1)
			w.WriteHeader(http.StatusForbidden)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(between.Close)
	s := open(t, "s3://"+bucket+"/counted?endpoint="+between.URL)
	h, _, _, err := s.Keep(t.Context(), strings.NewReader("a file"), 100)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Open(t.Context(), blob.Hash{1}); err == nil {
		t.Error("a file is there that nobody put")
	}
	refuse.Store(true)
	if err := s.Delete(t.Context(), h); err == nil {
		t.Error("a refused deletion was one")
	}
	n := s.Requests()
	if n.Count != got.Load() || n.Failed != refused.Load() || refused.Load() == 0 || missing.Load() == 0 || n.Took <= 0 {
		t.Errorf("%+v; the service got %d, refused %d, %d were not there", n, got.Load(), refused.Load(), missing.Load())
	}
}
