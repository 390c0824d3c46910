package server

import (
	"crypto/rand"
	"errors"
	"maps"
	"net"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/selfmetrics"
)

// requestHeader names a request in answers and in the log.
const requestHeader = "X-Request-Id"

// contentPolicy lets the page load what this server serves and nothing else: no
// inline script, no frame, no plug-in. Charts are canvases and images.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; " +
	"media-src 'self' blob:; font-src 'self'; connect-src 'self'; worker-src 'self'; manifest-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// safeguards are the security headers of every answer that has a content. Nobody writes to
// the lists.
var safeguards = http.Header{
	"Content-Security-Policy":      {contentPolicy},
	"X-Content-Type-Options":       {"nosniff"},
	"X-Frame-Options":              {"DENY"},
	"Referrer-Policy":              {"no-referrer"},
	"Cross-Origin-Opener-Policy":   {"same-origin"},
	"Cross-Origin-Resource-Policy": {"same-origin"},
}

// outer wraps the mux in what every request passes, refused ones included.
func (s *Server) outer(next http.Handler) http.Handler {
	writes := http.NewCrossOriginProtection()
	writes.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.security.note(r.Context(), eventRefused, "origin", "origin", model.Clip(r.Header.Get("Origin")))
		s.fail(w, r, model.Errorf(model.CodePermission, "a page of another origin may not write here").
			WithHint("open the page under the server's own address"))
	}))
	h := writes.Handler(next)
	h = s.checkHost(h)
	h = s.recover(h)
	return s.label(h)
}

// fail answers where no route does.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	s.metrics.Refusal(selfmetrics.HTTP, model.CodeOf(err))
	Fail(w, r, s.log, err)
}

// label gives the request its id and the answer its security headers.
func (s *Server) label(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		request := rand.Text()[:16]
		h.Set(requestHeader, request)
		maps.Copy(h, safeguards)
		if r.TLS != nil {
			h.Set("Strict-Transport-Security", "max-age=31536000")
		}
		next.ServeHTTP(w, r.WithContext(withOrigin(r.Context(), origin{r.RemoteAddr, request})))
	})
}

// recover turns a panic into a 500: one bad request never ends the server.
func (s *Server) recover(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			cause := recover()
			if cause == nil {
				return
			}
			if err, ok := cause.(error); ok && errors.Is(err, http.ErrAbortHandler) {
				panic(cause)
			}
			s.log.Error("panic", "request", w.Header().Get(requestHeader), "method", r.Method, "path", r.URL.Path,
				"cause", cause, "stack", string(debug.Stack()))
			s.metrics.Panics.Inc()
			s.fail(w, r, model.Errorf(model.CodeInternal, "the server failed on this request").
				WithHint("its log says why, under request %s", w.Header().Get(requestHeader)))
		}()
		next.ServeHTTP(w, r)
	})
}

// checkHost refuses names that an attacker could point at this address (DNS
// rebinding). An IP address cannot be rebound.
func (s *Server) checkHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.knownHost(r.Host) {
			s.security.note(r.Context(), eventRefused, "host", "host", model.Clip(r.Host))
			s.fail(w, r, model.Errorf(model.CodePermission, "this server does not answer to the name %q", r.Host).
				WithHint("list the name under hosts in the configuration, in KYMOGRAM_HOSTS or with --host"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (s *Server) knownHost(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if host == "localhost" || net.ParseIP(host) != nil {
		return true
	}
	return slices.Contains(s.hosts, host)
}
