package influxql

import (
	"context"
	"encoding/json"
	"iter"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/influxdata/influxql"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/query"
	"github.com/kymogram/kymogram/server/internal/selfmetrics"
	"github.com/kymogram/kymogram/server/internal/store"
)

// Service is the read path (a query.Service). It authorises.
type Service interface {
	Projects
	Contents(ctx context.Context, workspace, project string, metrics []string, match func(model.SeriesKey) bool) iter.Seq2[query.Contents, error]
	Rows(ctx context.Context, r store.ScanRequest) (*store.Rows, error)
}

// Projects are the databases, and the caller's rights in them.
type Projects interface {
	Allow(ctx context.Context, workspace, project string) error
	AllowWrite(ctx context.Context, workspace, project string) error
	Projects(ctx context.Context, p query.Page) (*query.ProjectsPage, error)
	HasProject(ctx context.Context, workspace, project string) (bool, error)
}

// Options are what code sets.
type Options struct {
	// Workspace is that of requests without an org.
	Workspace string
	// Memory is the most bytes that one statement may take; Reserve waits for them.
	Memory  int64
	Reserve func(ctx context.Context, bytes int64) (release func(), err error)
	Time    time.Duration // of a statement; 0: 30 s
	Points  int64         // that a statement may read; 0: 50,000,000
	Now     func() time.Time
	Version string
	Log     *slog.Logger
}

// Handler answers /query.
type Handler struct {
	service Service
	options Options
}

// New makes the handler.
func New(service Service, options Options) *Handler {
	if options.Time == 0 {
		options.Time = 30 * time.Second
	}
	if options.Points == 0 {
		options.Points = 50_000_000
	}
	if options.Workspace == "" {
		options.Workspace = "default"
	}
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	return &Handler{service, options}
}

// Handlers lists the routes as patterns of http.ServeMux.
func (h *Handler) Handlers() map[string]http.Handler {
	f := http.HandlerFunc(h.query)
	return map[string]http.Handler{"GET /query": f, "POST /query": f}
}

// Bounds of a request. InfluxQL is parsed by recursion: the depth bounds its stack.
const (
	maxBody       = 1 << 20
	maxQuery      = 64 << 10
	maxDepth      = 200
	maxStatements = 100
)

// request is what a request asks for.
type request struct {
	at         place
	statements influxql.Statements
	form       form
}

func (h *Handler) query(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Influxdb-Version", "1.8.3-kymogram-"+h.options.Version)
	w.Header().Set("X-Influxdb-Build", "OSS")
	q, err := h.parse(w, r)
	if err == nil && q.at.project != "" {
		err = h.service.Allow(r.Context(), q.at.workspace, q.at.project)
	}
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	h.answer(w, r, q)
}

func invalid(format string, args ...any) *model.Error {
	return model.Errorf(model.CodeInvalid, format, args...)
}

func (h *Handler) parse(w http.ResponseWriter, r *http.Request) (q *request, err error) {
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	if err := r.ParseForm(); err != nil {
		return nil, invalid("the form cannot be read: %v", err)
	}
	text := strings.TrimSpace(r.Form.Get("q"))
	switch {
	case text == "":
		return nil, invalid(`missing required parameter "q"`)
	case len(text) > maxQuery:
		return nil, model.Errorf(model.CodeTooLarge, "the query has %d bytes, it may have %d", len(text), maxQuery)
	case depth(text) > maxDepth:
		return nil, model.Errorf(model.CodeTooLarge, "the query has more than %d open parentheses", maxDepth)
	}
	q = &request{at: place{workspace: r.Form.Get("org")}}
	q.at.project, _, _ = strings.Cut(r.Form.Get("db"), "/") // a retention policy says nothing here
	if q.at.workspace == "" {
		q.at.workspace = h.options.Workspace
	}
	if q.form, err = formOf(r); err != nil {
		return nil, err
	}
	parser := influxql.NewParser(strings.NewReader(text))
	if err := bind(parser, r.Form.Get("params")); err != nil {
		return nil, err
	}
	parsed, err := parser.ParseQuery()
	if err != nil {
		return nil, invalid("error parsing query: %v", err)
	}
	if q.statements = parsed.Statements; len(q.statements) > maxStatements {
		return nil, model.Errorf(model.CodeTooLarge, "the query has %d statements, it may have %d", len(q.statements), maxStatements)
	}
	return q, nil
}

// depth is how deep parentheses are nested, at most; those in strings count too.
func depth(text string) (most int) {
	now := 0
	for i := range len(text) {
		switch text[i] {
		case '(':
			now++
			most = max(most, now)
		case ')':
			now--
		}
	}
	return most
}

// bind sets the values of $NAME in a query.
func bind(p *influxql.Parser, text string) error {
	if text == "" {
		return nil
	}
	var params map[string]any
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&params); err != nil {
		return invalid("error parsing query parameters: %v", err)
	}
	for name, v := range params {
		n, ok := v.(json.Number)
		if !ok {
			continue
		}
		var err error
		if i, bad := n.Int64(); bad == nil {
			params[name] = i
		} else if params[name], err = n.Float64(); err != nil {
			return invalid("error parsing json value: %v", err)
		}
	}
	p.SetParams(params)
	return nil
}

// form is how an answer is written.
type form struct {
	epoch   int64 // the unit of times, ns; 0 writes them out
	chunk   int   // rows of one
	chunked bool
	csv     bool
}

// usualChunk is InfluxDB's.
const usualChunk = 10_000

func formOf(r *http.Request) (f form, err error) {
	f.chunk = usualChunk
	if f.chunked = r.Form.Get("chunked") == "true"; f.chunked {
		if n, err := strconv.Atoi(r.Form.Get("chunk_size")); err == nil && n > 0 {
			f.chunk = min(n, usualChunk)
		}
	}
	for accepted := range strings.SplitSeq(r.Header.Get("Accept"), ",") {
		kind, _, _ := strings.Cut(strings.TrimSpace(accepted), ";")
		f.csv = f.csv || kind == "application/csv" || kind == "text/csv"
	}
	unit := map[string]time.Duration{
		"": 0, "n": 1, "ns": 1, "u": time.Microsecond, "us": time.Microsecond, "µ": time.Microsecond, "ms": time.Millisecond,
		"s": time.Second, "m": time.Minute, "h": time.Hour,
	}
	d, ok := unit[strings.TrimSpace(r.Form.Get("epoch"))]
	if !ok {
		return f, invalid("the epoch %q is not known", model.Clip(r.Form.Get("epoch"))).WithHint("It is ns, u, ms, s, m or h.")
	}
	f.epoch = int64(d)
	return f, nil
}

// refuse answers a request that nothing was done for, as InfluxDB does.
func (h *Handler) refuse(w http.ResponseWriter, r *http.Request, err error) {
	known := model.Shown(err)
	if known == nil {
		known = model.Errorf(model.CodeInternal, "the server failed on this request; its log says why")
		h.options.Log.ErrorContext(r.Context(), "a query failed", "err", err)
	}
	status := http.StatusBadRequest
	switch known.Code {
	case model.CodeUnauthenticated:
		status = http.StatusUnauthorized
	case model.CodePermission:
		status = http.StatusForbidden
	case model.CodeTooLarge:
		status = http.StatusRequestEntityTooLarge
	case model.CodeBusy, model.CodeUnavailable, model.CodeTimeout:
		status = http.StatusServiceUnavailable
	case model.CodeInternal:
		status = http.StatusInternalServerError
	}
	if seconds := known.Code.RetryAfter(); seconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(seconds))
	}
	selfmetrics.Refused(w, known.Code)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Influxdb-Error", message(known))
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": message(known)}) // the client is gone when this fails
}

// message is an error with what to do, on one line.
func message(e *model.Error) string {
	if e.Hint == "" {
		return e.Message
	}
	return e.Message + ": " + e.Hint
}
