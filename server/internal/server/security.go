package server

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/auth"
	"github.com/kymogram/kymogram/server/internal/selfmetrics"
)

// The events of the security log.
const (
	eventRefused  = "refused"
	eventSignIn   = "sign-in"
	eventSignOut  = "sign-out"
	eventKeyMade  = "key made"
	eventKeyUsed  = "key used first"
	eventRevoked  = "key revoked"
	eventDeleted  = "run deleted"
	eventRestored = "run restored"
)

// A flood of one event must not fill the disk, nor hide the others: each has its
// own budget of lines.
const (
	eventBurst  = 30
	eventPeriod = time.Second // between lines, when the burst is spent
)

// security is the security log: one line for each event, and a counter in /metrics
// that counts those without a line too.
type security struct {
	log     *slog.Logger
	metrics *selfmetrics.Metrics
	now     func() time.Time

	mu      sync.Mutex
	budgets map[string]*budget // by event
}

type budget struct {
	left    int
	filled  time.Time
	dropped uint64
}

func newSecurity(log *slog.Logger, metrics *selfmetrics.Metrics, now func() time.Time) *security {
	return &security{log: log, metrics: metrics, now: now, budgets: map[string]*budget{}}
}

// note writes an event of the caller that ctx carries. cause is of a small set.
func (s *security) note(ctx context.Context, event, cause string, more ...any) {
	s.metrics.Security(event, cause)
	dropped, ok := s.spend(event)
	if !ok {
		return
	}
	args := []any{"event", event}
	if cause != "" {
		args = append(args, "cause", cause)
	}
	from := originOf(ctx)
	args = append(args, "address", from.address)
	if p := auth.PrincipalOf(ctx); p != nil && p.KeyID != "" {
		args = append(args, "by", p.KeyID)
	}
	if from.request != "" {
		args = append(args, "request", from.request)
	}
	args = append(args, more...)
	if dropped > 0 {
		args = append(args, "without_line", dropped)
	}
	level := slog.LevelInfo
	if event == eventRefused {
		level = slog.LevelWarn
	}
	s.log.Log(ctx, level, "security", args...)
}

// spend takes a line of the event's budget; dropped counts those that had none
// since the last line.
func (s *security) spend(event string) (dropped uint64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, b := s.now(), s.budgets[event]
	if b == nil {
		b = &budget{left: eventBurst, filled: now}
		s.budgets[event] = b
	}
	if more := int(min(now.Sub(b.filled)/eventPeriod, eventBurst)); more > 0 {
		b.left, b.filled = min(b.left+more, eventBurst), now
	}
	if b.left == 0 {
		b.dropped++
		return 0, false
	}
	b.left--
	dropped, b.dropped = b.dropped, 0
	return dropped, true
}

// origin is where a request comes from.
type origin struct{ address, request string }

type originKey struct{}

func withOrigin(ctx context.Context, o origin) context.Context {
	return context.WithValue(ctx, originKey{}, o)
}

func originOf(ctx context.Context) origin {
	o, _ := ctx.Value(originKey{}).(origin)
	return o
}

// causeOf is the cause for the log of an error that refuses a caller, "" for others.
func causeOf(code model.Code) string {
	if code == model.CodeUnauthenticated || code == model.CodePermission {
		return string(code)
	}
	return ""
}

// observed remembers the status of an answer, and counts refusals. A refused client's
// connection ends with its answer where connections are short.
type observed struct {
	http.ResponseWriter
	status  int
	gate    *gate
	metrics *selfmetrics.Metrics
}

// Refused is for [selfmetrics.Refused].
func (o *observed) Refused(code model.Code) { o.metrics.Refusal(selfmetrics.HTTP, code) }

// refusals are answered to clients that may keep their connection without using it.
var refusals = []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusServiceUnavailable}

func (o *observed) WriteHeader(status int) {
	if o.status == 0 {
		o.status = status
		if slices.Contains(refusals, status) && o.gate.isShort() {
			o.Header().Set("Connection", "close")
		}
		if status == http.StatusNoContent { // nothing that a browser could show: most answers to writes
			for name := range safeguards {
				delete(o.Header(), name)
			}
		}
	}
	o.ResponseWriter.WriteHeader(status)
}

func (o *observed) Write(p []byte) (int, error) {
	o.implied()
	return o.ResponseWriter.Write(p)
}

// implied is what a body without a header means.
func (o *observed) implied() {
	if o.status == 0 {
		o.status = http.StatusOK
	}
}

// ReadFrom keeps the system's own way from a file to a connection.
func (o *observed) ReadFrom(r io.Reader) (int64, error) {
	o.implied()
	return io.Copy(o.ResponseWriter, r)
}

// Flush sends what is buffered: event streams need it.
func (o *observed) Flush() { _ = http.NewResponseController(o.ResponseWriter).Flush() }

// Unwrap is for http.ResponseController.
func (o *observed) Unwrap() http.ResponseWriter { return o.ResponseWriter }

// refused writes a refusal, with the key that it refuses when that is known.
func (s *security) refused(ctx context.Context, cause, route string, err error) {
	more := []any{"route", route}
	if id := auth.KeyIDOf(err); id != "" {
		more = append(more, "key", id)
	}
	s.note(ctx, eventRefused, cause, more...)
}

// watch writes what became of a request into the security log.
func (s *security) watch(ctx context.Context, rule Rule, pattern string, r *http.Request, status int, err error) {
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		cause := string(model.CodePermission)
		if status == http.StatusUnauthorized {
			cause = string(model.CodeUnauthenticated)
		}
		s.refused(ctx, cause, pattern, err)
	case rule.Event != "" && status/100 == 2:
		s.note(ctx, rule.Event, "", "run", r.PathValue("id"))
	}
}
