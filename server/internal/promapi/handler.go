package promapi

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/query"
	"github.com/kymogram/kymogram/server/internal/selfmetrics"
)

// Service is the read path (a query.Service). It authorises.
type Service interface {
	// HasProject fails unless the caller may read the project.
	HasProject(ctx context.Context, workspace, project string) (bool, error)
	// PlacedRuns gives those that the caller may read.
	PlacedRuns(ctx context.Context, f query.RunsFilter) iter.Seq2[query.PlacedRun, error]
	Select(ctx context.Context, q query.Selection) iter.Seq2[query.Selected, error]
	SelectSeries(ctx context.Context, q query.Selection) iter.Seq2[query.Selected, error]
}

// Options are what code sets.
type Options struct {
	// Memory is the most bytes that one request may take; Reserve waits for them.
	Memory  int64
	Reserve func(ctx context.Context, bytes int64) (release func(), err error)
	Time    time.Duration // of a request; 0: 30 s
	Now     func() time.Time
	Version string
	Log     *slog.Logger
}

// Lookback is how far back an instant looks for the last point of a series where a request
// does not say. Prometheus takes 5 minutes, for what is scraped every 15 seconds; points of
// a training, of an evaluation and of an epoch come less often.
const Lookback = time.Hour

// defaultStep is that of a subquery which does not say one.
const defaultStep = time.Minute

// small is what a request takes at first; one that needs more begins anew with all that it
// may have: who holds some memory and waits for more may wait for others who do the same.
const small = 256 << 10

// Handler answers Prometheus' HTTP API.
type Handler struct {
	service Service
	options Options
	engines map[int64]*promql.Engine // by the memory of a request
}

// New makes the handler.
func New(service Service, options Options) *Handler {
	if options.Time == 0 {
		options.Time = 30 * time.Second
	}
	if options.Now == nil {
		options.Now = time.Now
	}
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	h := &Handler{service: service, options: options, engines: map[int64]*promql.Engine{}}
	for _, memory := range []int64{small, options.Memory} {
		h.engines[memory] = promql.NewEngine(promql.EngineOpts{
			MaxSamples: samplesOf(memory), Timeout: options.Time, LookbackDelta: Lookback,
			NoStepSubqueryIntervalFn: func(int64) int64 { return defaultStep.Milliseconds() },
			EnableAtModifier:         true, EnableNegativeOffset: true,
		})
	}
	return h
}

// Handlers lists the routes as patterns of http.ServeMux: of all projects that the caller
// may read, and of one.
func (h *Handler) Handlers() map[string]http.Handler {
	out := map[string]http.Handler{}
	for _, base := range []string{"/prometheus", "/prometheus/{workspace}/{project}"} {
		for path, answer := range map[string]func(*request) error{
			"/query": instant, "/query_range": ranged, "/series": listSeries,
			"/labels": labelNames, "/label/{name}/values": labelValues, "/metadata": metadata, "/status/buildinfo": buildInfo,
		} {
			out["GET "+base+"/api/v1"+path] = h.handle(answer)
			out["POST "+base+"/api/v1"+path] = h.handle(answer)
		}
		out["GET "+base+"/federate"] = h.handle(federate)
	}
	return out
}

// request is one in the making.
type request struct {
	*http.Request
	*reader

	handler *Handler
	memory  int64
	write   func(content string) writer // begins the answer
}

// maxBody bounds a form, maxQuery an expression: it is parsed into much more.
const (
	maxBody  = 1 << 20
	maxQuery = 32 << 10
)

func (h *Handler) handle(answer func(*request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), h.options.Time)
		defer cancel()
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		err := h.answer(w, r.WithContext(ctx), answer)
		if err != nil {
			h.fail(w, r, err)
		}
	})
}

func (h *Handler) answer(w http.ResponseWriter, r *http.Request, answer func(*request) error) error {
	if err := r.ParseForm(); err != nil {
		return badData("the form cannot be read: %v", err)
	}
	ctx, workspace, project := r.Context(), r.PathValue("workspace"), r.PathValue("project")
	if project != "" {
		switch there, err := h.service.HasProject(ctx, workspace, project); {
		case err != nil:
			return failed(err)
		case !there:
			return model.Errorf(model.CodeNotFound, "there is no project %s/%s", model.Clip(workspace), model.Clip(project))
		}
	}
	lookback, err := lookbackOf(r)
	if err != nil {
		return err
	}
	if ctx, err = h.sooner(ctx, r); err != nil {
		return err
	}
	for _, memory := range []int64{min(small, h.options.Memory), h.options.Memory} {
		err = h.within(ctx, memory, func(ctx context.Context) error {
			q := &request{
				Request: r.WithContext(ctx), handler: h, memory: memory,
				reader: &reader{service: h.service, workspace: workspace, project: project, lookback: lookback, room: newRoom(memory), work: newWork()},
			}
			var out *writer
			q.write = func(content string) writer {
				w.Header().Set("Content-Type", content)
				w.Header().Set("Cache-Control", "no-store")
				b := newWriter(w)
				out = &b
				return b
			}
			if err := answer(q); err != nil {
				return err
			}
			_ = out.Flush() // the client has gone, or it has all
			return nil
		})
		if !isTooMuch(err) {
			return err
		}
	}
	return tooMuch{h.options.Memory}
}

func isTooMuch(err error) bool {
	var much tooMuch
	var samples promql.ErrTooManySamples
	return errors.As(err, &much) || errors.As(err, &samples)
}

// within waits for memory and gives it back.
func (h *Handler) within(ctx context.Context, memory int64, f func(context.Context) error) error {
	if h.options.Reserve != nil {
		release, err := h.options.Reserve(ctx, memory)
		if err != nil {
			return err
		}
		defer release()
	}
	return f(ctx)
}

// sooner applies the parameter timeout, which cannot make the time longer.
func (h *Handler) sooner(ctx context.Context, r *http.Request) (context.Context, error) {
	text := r.Form.Get("timeout")
	if text == "" {
		return ctx, nil
	}
	limit, err := duration(text)
	if err != nil || limit <= 0 {
		return nil, badData("invalid parameter %q: %q is not a positive duration", "timeout", model.Clip(text))
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	context.AfterFunc(ctx, cancel)
	return ctx, nil
}

// refusal is an error in Prometheus' own words.
type refusal struct {
	status     int
	kind, text string
}

func (e refusal) Error() string { return e.text }

func badData(format string, args ...any) error {
	return refusal{http.StatusBadRequest, "bad_data", model.Errorf(model.CodeInvalid, format, args...).Message}
}

// statusGone is the status of a request whose client has gone.
const statusGone = 499

func (h *Handler) refusalOf(r *http.Request, err error) (refusal, model.Code) {
	var e refusal
	var much tooMuch
	var parse parser.ParseErrors
	var late promql.ErrQueryTimeout
	var ended promql.ErrQueryCanceled
	switch {
	case errors.As(err, &e):
		return e, model.CodeInvalid
	case errors.As(err, &parse):
		return refusal{http.StatusBadRequest, "bad_data", "invalid parameter \"query\": " + err.Error()}, model.CodeInvalid
	case errors.As(err, &much):
		shown := much.shown()
		return refusal{http.StatusUnprocessableEntity, "execution", shown.Message + ". " + shown.Hint}, model.CodeLimit
	case r.Context().Err() != nil:
		return refusal{statusGone, "canceled", "the request was canceled"}, model.CodeTimeout
	case errors.As(err, &late), errors.As(err, &ended), errors.Is(err, context.DeadlineExceeded), model.CodeOf(err) == model.CodeTimeout:
		return refusal{http.StatusServiceUnavailable, "timeout", "the query took longer than its time of at most " + h.options.Time.String() + ": ask for fewer series, a shorter time or a larger step"}, model.CodeTimeout
	}
	var internal readError
	known := model.Shown(err)
	switch {
	case errors.As(err, &internal):
		return refusal{http.StatusInternalServerError, "internal", "the server failed on this request; its log says why"}, model.CodeInternal
	case known == nil:
		return refusal{http.StatusUnprocessableEntity, "execution", err.Error()}, model.CodeInvalid
	}
	text := known.Message
	if known.Hint != "" {
		text += ": " + known.Hint
	}
	switch known.Code {
	case model.CodeInvalid, model.CodeAmbiguous:
		return refusal{http.StatusBadRequest, "bad_data", text}, known.Code
	case model.CodeUnauthenticated:
		return refusal{http.StatusUnauthorized, "unauthorized", text}, known.Code
	case model.CodePermission:
		return refusal{http.StatusForbidden, "forbidden", text}, known.Code
	case model.CodeLimit:
		return refusal{http.StatusUnprocessableEntity, "execution", text}, known.Code
	case model.CodeNotFound:
		return refusal{http.StatusNotFound, "not_found", text}, known.Code
	case model.CodeBusy, model.CodeUnavailable:
		return refusal{http.StatusServiceUnavailable, "unavailable", text}, known.Code
	}
	return refusal{http.StatusInternalServerError, "internal", text}, known.Code
}

func (h *Handler) fail(w http.ResponseWriter, r *http.Request, err error) {
	e, code := h.refusalOf(r, err)
	if e.status >= http.StatusInternalServerError && code == model.CodeInternal {
		h.options.Log.ErrorContext(r.Context(), "a query failed", "err", err)
	}
	if seconds := code.RetryAfter(); seconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(seconds))
	}
	selfmetrics.Refused(w, code)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(e.status)
	out := newWriter(w)
	out.raw(`{"status":"error","errorType":`)
	out.text(e.kind)
	out.raw(`,"error":`)
	out.text(e.text)
	out.raw("}")
	_ = out.Flush()
}

// begin writes the start of an answer that went well; end writes the rest.
func (q *request) begin() writer {
	w := q.write("application/json")
	w.raw(`{"status":"success","data":`)
	return w
}
