package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/auth"
	"github.com/kymogram/kymogram/server/internal/httpapi"
	"github.com/kymogram/kymogram/server/internal/selfmetrics"
	"github.com/kymogram/kymogram/server/internal/share"
)

// How long a request may take, besides the limits of its handler: the rest of a body that
// nobody reads has to arrive, and the answer has to leave.
const (
	bodyTimeout   = time.Minute
	answerTimeout = 5 * time.Minute
	largeTimeout  = time.Hour
)

// maxOpenBody is the limit of a body from somebody without a key.
const maxOpenBody = 64 << 10

// CookieName is the page session's cookie. A port other than the scheme's own
// is part of it: cookies know hosts but no ports, and two servers of one machine
// must not sign each other's page out.
const CookieName = "kymogram_session"

func cookieName(r *http.Request) string {
	if _, port, err := net.SplitHostPort(r.Host); err == nil && port != "" {
		return CookieName + "_" + port
	}
	return CookieName
}

// signatureParam marks a signed URL; the handler of a Signed route checks it.
const signatureParam = "signature"

// mux is an http.ServeMux that refuses a route without a policy and runs no
// handler before the policy was kept.
type mux struct {
	mux      *http.ServeMux
	rules    map[string]Rule
	patterns map[string]bool
	err      error

	keyring  *auth.Keyring
	security *security
	metrics  *selfmetrics.Metrics
	log      *slog.Logger
	maxBody  int64
	draining <-chan struct{}

	admission *admission
	gate      *gate
}

// ServeHTTP answers what no route takes as the page does for a visit: with JSON.
func (m *mux) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if _, pattern := m.mux.Handler(r); pattern == "" && !m.known(r) {
		err := model.Errorf(model.CodeNotFound, "there is nothing at %s", r.URL.Path)
		m.metrics.Refusal(selfmetrics.HTTP, model.CodeNotFound)
		Fail(w, r, m.log, err.WithHint("%s", nearest(r.URL.Path)))
		return
	}
	m.mux.ServeHTTP(w, r)
}

// known says that a path has a route of another method.
func (m *mux) known(r *http.Request) bool {
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		as := *r
		as.Method = method
		if _, pattern := m.mux.Handler(&as); pattern != "" && pattern != "GET /" {
			return true
		}
	}
	return false
}

// nearest is what somebody may have meant who wrote to a path that is not there.
func nearest(path string) string {
	switch {
	case strings.HasPrefix(path, "/api/v2/query"):
		return "there is no Flux: ask InfluxQL at /query (docs/influx.md)"
	case strings.HasPrefix(path, "/api/v2/"), strings.HasPrefix(path, "/api/v3/"):
		return "line protocol is taken at /api/v2/write and /write (docs/influx.md)"
	case strings.HasPrefix(path, "/v1/"):
		return "of OpenTelemetry only metrics are taken: /v1/metrics (docs/opentelemetry.md)"
	case strings.HasPrefix(path, "/prometheus/"):
		return "the path is /prometheus/WORKSPACE/PROJECT/api/v1/… (docs/prometheus.md)"
	}
	return "/docs lists what this server takes"
}

// handle registers a handler under "METHOD /pattern".
func (m *mux) handle(pattern string, h http.Handler) {
	rule, ok := m.rules[pattern]
	err := rule.check("route " + pattern)
	switch {
	case !ok || err != nil:
		m.err = errors.Join(m.err, fmt.Errorf("route %s: no policy, see server/policy.go", pattern))
		return
	case m.patterns[pattern]:
		m.err = errors.Join(m.err, fmt.Errorf("route %s: registered twice", pattern))
		return
	}
	m.patterns[pattern] = true
	m.mux.Handle(pattern, m.watched(pattern, rule, h))
}

// mount registers a route of httpapi, whose own idea of its scope must agree.
func (m *mux) mount(route httpapi.Route) {
	pattern := route.Method + " " + route.Pattern
	if rule := m.rules[pattern]; rule.Scope != route.Scope || rule.Stream != route.Stream {
		m.err = errors.Join(m.err, fmt.Errorf("route %s: its scope %q differs from the policy's %q", pattern, route.Scope, rule.Scope))
		return
	}
	m.handle(pattern, route.Handler)
}

// watched tells the security log and the metrics what became of a request.
func (m *mux) watched(pattern string, rule Rule, h http.Handler) http.Handler {
	route := m.metrics.Route(pattern)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		o := &observed{ResponseWriter: w, gate: m.gate, metrics: m.metrics}
		ctx, err := m.guard(o, r, rule, h)
		m.security.watch(ctx, rule, pattern, r, o.status, err)
		o.implied()
		route.Answered(o.status, time.Since(began))
	})
}

// guard is the one place where requests are let in. It returns the caller's context,
// and why the caller was refused.
func (m *mux) guard(w http.ResponseWriter, r *http.Request, rule Rule, h http.Handler) (context.Context, error) {
	body := m.bound(w, r, rule)
	ctx, err := m.admit(r, rule)
	if err != nil {
		m.refuse(w, r, rule, err) // before anything of the body is read
		body.takeIn(r, restOfStrangers, bodyStall)
		return ctx, err
	}
	most := m.maxBody
	if rule.Open {
		most = maxOpenBody
	}
	switch {
	case rule.Large:
		m.attend(ctx, w, r, rule, h)
		body.takeIn(r, restOfStrangers, bodyStall)
		return ctx, nil
	case r.ContentLength > most:
		Fail(w, r, m.log, tooLarge(most))
	default:
		r.Body = http.MaxBytesReader(w, r.Body, most)
		m.attend(ctx, w, r, rule, h)
	}
	body.takeIn(r, patience*most, bodyTimeout)
	return ctx, nil
}

// attend serves a caller that was let in.
func (m *mux) attend(ctx context.Context, w http.ResponseWriter, r *http.Request, rule Rule, h http.Handler) {
	ctx = withCaller(ctx, auth.PrincipalOf(ctx), r.RemoteAddr)
	if !rule.Open {
		release, err := m.gate.hold(connectionOf(ctx), share.Caller(ctx))
		if err != nil {
			m.refuse(w, r, rule, err)
			return
		}
		defer release()
	}
	if rule.Stream {
		var end func()
		ctx, end = m.untilRevoked(ctx, auth.PrincipalOf(ctx))
		defer end()
	}
	m.serve(w, r.WithContext(ctx), rule, h)
}

// admit applies the policy to a request.
func (m *mux) admit(r *http.Request, rule Rule) (context.Context, error) {
	if rule.Open || rule.Signed && r.URL.Query().Get(signatureParam) != "" {
		return r.Context(), nil
	}
	p, err := m.authenticate(r, rule)
	if err != nil {
		return r.Context(), err
	}
	ctx := auth.WithPrincipal(r.Context(), p)
	return ctx, rule.allow(ctx)
}

// serve runs a handler once there is memory for the request.
func (m *mux) serve(w http.ResponseWriter, r *http.Request, rule Rule, h http.Handler) {
	leave, err := m.admission.enter(r, rule)
	if err != nil {
		m.refuse(w, r, rule, err)
		return
	}
	defer leave()
	h.ServeHTTP(w, r)
}

// What is taken in of a body that nobody reads: of strangers, and times the limit.
const (
	restOfStrangers = 1 << 20
	patience        = 4
)

// takeIn reads some of what is left of a body, since many clients read no answer before
// they have sent all: a connection that ends before gives them a reset, and no answer.
// Who asked first (Expect) is told at once.
func (a *arriving) takeIn(r *http.Request, most int64, within time.Duration) {
	if a == nil || a.whole || r.Header.Get("Expect") != "" {
		return
	}
	a.end = time.Now().Add(within)
	_, _ = io.CopyN(io.Discard, a, most)
}

func tooLarge(limit int64) error {
	size := fmt.Sprint(limit>>20, " MiB")
	if limit < 1<<20 {
		size = fmt.Sprint(limit>>10, " KiB")
	}
	return model.Errorf(model.CodeTooLarge, "the request's body is larger than %s", size).
		WithHint("send it in smaller parts")
}

// bound bounds slow clients; writers that cannot (tests) have no clients. It returns the
// body, nil where there is none.
func (m *mux) bound(w http.ResponseWriter, r *http.Request, rule Rule) *arriving {
	control, answer, now := http.NewResponseController(w), answerTimeout, time.Now()
	switch {
	case rule.Stream:
		answer = 0
	case rule.Large:
		answer = largeTimeout
	}
	if answer > 0 {
		_ = control.SetWriteDeadline(now.Add(answer))
	}
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	body := &arriving{ReadCloser: r.Body, control: control, answer: answer, bound: now}
	r.Body = body
	return body
}

func (m *mux) authenticate(r *http.Request, rule Rule) (*auth.Principal, error) {
	secret, err := secretOf(r)
	if rule.Foreign {
		secret, err = foreignSecret(r)
	}
	if err != nil {
		return nil, err
	}
	return m.keyring.Authenticate(r.Context(), secret)
}

// secretOf is the key of a request: the header's, else the page's cookie's.
func secretOf(r *http.Request) (string, error) {
	if header := r.Header.Get("Authorization"); header != "" {
		return bearer(header)
	}
	if cookie, err := r.Cookie(cookieName(r)); err == nil {
		return cookie.Value, nil
	}
	return "", nil
}

// foreignSecret is the key of a request of another system's client.
func foreignSecret(r *http.Request) (string, error) {
	header := r.Header.Get("Authorization")
	scheme, rest, _ := strings.Cut(header, " ")
	switch {
	case header == "":
		return r.URL.Query().Get("p"), nil
	case strings.EqualFold(scheme, "Basic"):
		_, password, ok := r.BasicAuth()
		if !ok {
			return "", model.Errorf(model.CodeUnauthenticated, "the Authorization header is not of the form: Basic USER:KEY in base 64")
		}
		return password, nil
	case strings.EqualFold(scheme, "Token"):
		// InfluxDB 1 clients write USER:PASSWORD; a key has no colon.
		rest = strings.TrimSpace(rest)
		return rest[strings.LastIndexByte(rest, ':')+1:], nil
	}
	return bearer(header)
}

func bearer(header string) (string, error) {
	scheme, secret, ok := strings.Cut(header, " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return "", model.Errorf(model.CodeUnauthenticated, "the Authorization header is not of the form: Bearer KEY")
	}
	return strings.TrimSpace(secret), nil
}
