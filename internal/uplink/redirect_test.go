package uplink

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/spool"
)

// TestRedirectsAreNotFollowed: a proxy that redirects, to the server's new place
// or to a sign-in, is told; nothing counts as delivered, and no key leaves for
// the other host. With the right address everything arrives.
func TestRedirectsAreNotFollowed(t *testing.T) {
	for name, c := range map[string]struct {
		code  int
		path  string
		login bool
	}{
		"moved": {http.StatusMovedPermanently, "", false}, "temporary": {http.StatusTemporaryRedirect, "", false}, "sign-in": {http.StatusFound, "/login", true},
	} {
		t.Run(name, func(t *testing.T) {
			s := startServer(t)
			s.key = "right"
			var visits, asked atomic.Int64
			elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				visits.Add(1)
				_, _ = w.Write([]byte(`{"name":"kymogram","run":"01ARZ3NDEKTSV4RRFFQ69G5FAV"}`))
			}))
			t.Cleanup(elsewhere.Close)
			proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked.Add(1)
				path := r.URL.Path
				if c.path != "" {
					path = c.path
				}
				http.Redirect(w, r, elsewhere.URL+path, c.code)
			}))
			t.Cleanup(proxy.Close)
			want := "Name " + elsewhere.URL + " as the server"
			if c.login {
				want = "a proxy that asks for a sign-in"
			}

			direct, err := NewServer(proxy.URL, "right")
			if err != nil {
				t.Fatal(err)
			}
			_, err = direct.Open(context.Background(), model.OpenRequest{})
			var moved *model.Error
			if !errors.Is(err, ErrUnreachable) || !errors.As(err, &moved) || !strings.Contains(moved.Hint, want) {
				t.Errorf("the open: %v", err)
			}
			if _, _, err := direct.uploaded(context.Background(), strings.Repeat("a", 64)); !errors.Is(err, ErrUnreachable) || !errors.As(err, &moved) {
				t.Errorf("the upload: %v", err)
			}

			f := newFixture(t, &server{addr: proxy.URL})
			f.point("loss", 0, 1)
			f.ok(f.folder.SetKey(proxy.URL, "right"))
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			done := make(chan error)
			d := New(f.folder, Options{Kind: spool.KindProcess, MaxBackoff: 100 * time.Millisecond, Env: func(string) string { return "" }})
			go func() { done <- d.Run(ctx) }()
			var page spool.Page
			for ctx.Err() == nil && (!strings.Contains(page.Error, want) || page.State != spool.StateWaiting) { // it may be at its next try
				time.Sleep(5 * time.Millisecond)
				page, _ = f.w.Status().Read()
			}
			cancel()
			<-done
			if !strings.Contains(page.Error, want) || page.Mark != 0 || page.Acked != 0 || page.State != spool.StateWaiting {
				t.Errorf("page %+v", page)
			}
			if visits.Load() > 0 || asked.Load() == 0 {
				t.Errorf("%d requests came to the other host, %d to the proxy", visits.Load(), asked.Load())
			}
			f.close()
			f.sync(Options{Server: s.addr, Key: "right"})
			f.check(s)
			f.checkEmpty()
		})
	}
}
