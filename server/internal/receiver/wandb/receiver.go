package wandb

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/blob"
	"github.com/kymogram/kymogram/server/internal/ingest"
	"github.com/kymogram/kymogram/server/internal/query"
	"github.com/kymogram/kymogram/server/internal/receiver/wandb/graph"
	"github.com/kymogram/kymogram/server/internal/selfmetrics"
	"github.com/kymogram/kymogram/server/internal/share"
)

// Options are what code sets.
type Options struct {
	MaxBody int64 // of a request as it is sent
	MaxFile int64 // of a run's file
	// Work is the memory for what is made of bodies.
	Work   *share.Pool
	Blobs  blob.Store
	Signer *blob.Signer
	Now    func() time.Time
	Log    *slog.Logger
}

// Receiver answers the SDK of W&B.
type Receiver struct {
	ingest  *ingest.Service
	query   *query.Service
	options Options
	lives   lives
	lists   lists
}

// New makes the receiver.
func New(in *ingest.Service, q *query.Service, options Options) *Receiver {
	r := &Receiver{ingest: in, query: q, options: options}
	r.lives.init(options.Now)
	r.lists = lists{by: map[string]listed{}, now: options.Now}
	return r
}

// Handlers lists the routes as patterns of http.ServeMux.
func (r *Receiver) Handlers() map[string]http.Handler {
	return map[string]http.Handler{
		"POST /graphql": http.HandlerFunc(r.graphql),
		"POST /files/{entity}/{project}/{run}/file_stream":                               http.HandlerFunc(r.fileStream),
		"PUT /wandb/uploads/{run}/{name...}":                                             http.HandlerFunc(r.putFile),
		"GET /wandb/files/{entity}/{project}/{run}/{name...}":                            http.HandlerFunc(r.getFile),
		"PUT /wandb/artifacts/{artifact}/files/{name...}":                                http.HandlerFunc(r.putArtifactFile),
		"PUT /wandb/artifacts/{artifact}/manifests/{number}":                             http.HandlerFunc(r.putManifest),
		"GET /artifactsV2/{region}/{entity}/{birth}/{md5}":                               http.HandlerFunc(r.getArtifactFile),
		"GET /artifactsV2/{region}/{entity}/{project}/{collection}/{birth}/{md5}/{file}": http.HandlerFunc(r.getArtifactFile),
		"POST /sdk/otel/v1/{what}":                                                       http.HandlerFunc(nothing),
	}
}

// nothing takes the SDK's telemetry of itself, and keeps none of it.
func nothing(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }

// graphql answers 200 whatever the document asks for: with 5xx the SDK would send it again
// for as long as it likes. Only who may not ask is told by the status.
func (r *Receiver) graphql(w http.ResponseWriter, q *http.Request) {
	body, done, err := r.read(q, costOfDocument)
	if err != nil {
		r.fail(w, q, err)
		return
	}
	defer done()
	data, problems := r.answer(q, body)
	if data == nil {
		data = []byte("null")
	}
	out := append([]byte(`{"data":`), data...)
	if len(problems) > 0 {
		text, err := json.Marshal(problems)
		if err != nil {
			r.fail(w, q, err)
			return
		}
		out = append(append(out, `,"errors":`...), text...)
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_, _ = w.Write(append(out, '}')) // the client is gone when this fails
}

// What a request takes beside its body. A document has so many tokens at most, and what a
// window has is stored before the next one.
const (
	leastWork  = 256 << 10
	documentAt = 32 << 20
	windowAt   = 48 << 20
	timesOf    = 160 // of the bytes of a small body
	// timesVariables is what an empty list takes in Go for each byte of its JSON.
	timesVariables = 32
)

// costOfDocument is what a request of GraphQL takes.
func costOfDocument(body []byte) int64 {
	n := int64(len(body))
	return leastWork + timesVariables*n + min(timesOf*n, documentAt)
}

// costOfChunk is what a chunk of so many bytes takes. Rows of short numbers take more as
// numbers than as text.
func costOfChunk(n int64) int64 { return leastWork + 4*n + min(timesOf*n, windowAt) }

func (r *Receiver) answer(q *http.Request, body []byte) ([]byte, []graph.Problem) {
	var request graph.Request
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if err := d.Decode(&request); err != nil {
		return nil, []graph.Problem{graph.ProblemOf(model.Errorf(model.CodeInvalid, "the body is no JSON of a GraphQL request: %s", model.Clip(err.Error())))}
	}
	op, err := graph.Parse(&request)
	if err != nil {
		return nil, []graph.Problem{graph.ProblemOf(err)}
	}
	root := r.queries()
	if op.Mutation {
		root = r.mutations()
	}
	ctx := began(context.WithValue(q.Context(), baseKey{}, base(q)), request.Variables, r.options.Now())
	ctx = context.WithValue(ctx, clientKey{}, clientOf(q))
	data, problems, failed := op.Run(ctx, root)
	for _, err := range failed {
		if model.CodeOf(err) == model.CodeInternal && q.Context().Err() == nil {
			r.options.Log.ErrorContext(q.Context(), "a GraphQL operation failed", "operation", model.Clip(op.Name), "err", err)
		}
	}
	return data, problems
}

// unfolded is how many times its bytes a gzip holds at most.
const unfolded = 1032

// read takes a body in, unfolded where it is packed. The pool lends what it costs once the
// body is here: one that comes slowly holds up nobody.
func (r *Receiver) read(q *http.Request, cost func(body []byte) int64) (body []byte, done func(), err error) {
	encoding := strings.ToLower(q.Header.Get("Content-Encoding"))
	switch encoding {
	case "", "identity", "gzip":
	default:
		return nil, nil, model.Errorf(model.CodeInvalid, "the content encoding %q is not known", model.Clip(encoding)).WithHint("Send gzip or identity.")
	}
	var sent bytes.Buffer
	sent.Grow(int(min(max(q.ContentLength, 0), r.options.MaxBody)) + bytes.MinRead)
	if err := r.within(&sent, q.Body); err != nil {
		return nil, nil, err
	}
	if encoding != "gzip" {
		done, err = r.options.Work.Acquire(q.Context(), cost(sent.Bytes()))
		return sent.Bytes(), done, err
	}
	plain := min(unfolded*int64(sent.Len()), r.options.MaxBody)
	first, err := r.options.Work.Acquire(q.Context(), 3*plain) // a buffer that grows leaves smaller ones
	if err != nil {
		return nil, nil, err
	}
	defer first()
	z, err := gzip.NewReader(&sent)
	if err != nil {
		return nil, nil, model.Errorf(model.CodeInvalid, "the body is no gzip: %s", model.Clip(err.Error()))
	}
	defer z.Close()
	var out bytes.Buffer
	if err := r.within(&out, z); err != nil {
		return nil, nil, err
	}
	first()
	done, err = r.options.Work.Acquire(q.Context(), cost(out.Bytes()))
	return out.Bytes(), done, err
}

// within reads what is not longer than a body may be.
func (r *Receiver) within(to *bytes.Buffer, from io.Reader) error {
	if _, err := to.ReadFrom(io.LimitReader(from, r.options.MaxBody+1)); err != nil {
		return broken(err)
	}
	if int64(to.Len()) > r.options.MaxBody {
		return model.Errorf(model.CodeTooLarge, "the request's body is larger than %d MiB", r.options.MaxBody>>20)
	}
	return nil
}

// fail answers an error in a way that the SDK sends again exactly what may be taken later:
// it gives up for 400, 401, 403, 404, 409, 410, 413 and 422.
func (r *Receiver) fail(w http.ResponseWriter, q *http.Request, err error) {
	e := model.Shown(err)
	if e == nil {
		if q.Context().Err() == nil {
			r.options.Log.ErrorContext(q.Context(), "a request of the W&B SDK failed", "path", model.Clip(q.URL.Path), "err", err)
		}
		e = model.Errorf(model.CodeInternal, "the server failed on this request; its log says why")
	}
	message := e.Message
	if e.Hint != "" {
		message += ": " + e.Hint
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	if after := e.Code.RetryAfter(); after > 0 {
		w.Header().Set("Retry-After", itoa(int64(after)))
	}
	selfmetrics.Refused(w, e.Code)
	w.WriteHeader(statusOf(e.Code))
	_ = json.NewEncoder(w).Encode(map[string]any{"error": message, "errors": []graph.Problem{{Message: message}}}) // the client is gone when this fails
}

func statusOf(code model.Code) int {
	switch code {
	case model.CodeInvalid, model.CodeAmbiguous:
		return http.StatusBadRequest
	case model.CodeUnauthenticated:
		return http.StatusUnauthorized
	case model.CodePermission:
		return http.StatusForbidden
	case model.CodeNotFound:
		return http.StatusNotFound
	case model.CodeRunDeleted:
		return http.StatusGone
	case model.CodeTooLarge:
		return http.StatusRequestEntityTooLarge
	case model.CodeBusy:
		return http.StatusTooManyRequests
	case model.CodeSlow:
		return http.StatusRequestTimeout
	case model.CodeLimit, model.CodeBadRecord, model.CodeKindMismatch:
		return http.StatusUnprocessableEntity
	case model.CodeInternal:
		return http.StatusInternalServerError
	}
	return http.StatusServiceUnavailable
}

// broken says why a body could not be read.
func broken(err error) error {
	if model.Shown(err) != nil {
		return err
	}
	return model.Errorf(model.CodeInvalid, "the body ended early or is damaged: %s", model.Clip(err.Error()))
}

// place is where a request's run is.
type place struct{ entity, project, run string }

func placeOf(q *http.Request) place {
	return place{q.PathValue("entity"), q.PathValue("project"), q.PathValue("run")}
}

// find is the run of a place that the caller may read: CodeNotFound where there is none.
func (r *Receiver) find(ctx context.Context, at place) (model.RunID, error) {
	if err := model.CheckPlace(at.entity, at.project); err != nil {
		return model.RunID{}, err
	}
	return r.query.Resolve(ctx, at.entity+"/"+at.project+"/"+at.run)
}
