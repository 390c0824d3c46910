package otlp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	_ "google.golang.org/grpc/encoding/gzip" // which the SDKs can be told to use
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/ingest"
	"github.com/kymogram/kymogram/server/internal/selfmetrics"
	"github.com/kymogram/kymogram/server/internal/share"
	"github.com/kymogram/kymogram/server/internal/weight"
)

// Ingest is the write path (an ingest.Foreign). It authorises.
type Ingest interface {
	Allow(ctx context.Context, workspace, project string) error
	Append(ctx context.Context, workspace, project string, parts []ingest.Part) (model.Ack, error)
}

// Options are what code sets.
type Options struct {
	MaxBody int64 // of a request as it is sent
	// Work is the memory for what is made of bodies; nil makes a pool of its own.
	Work *share.Pool
	Now  func() time.Time
	Log  *slog.Logger
}

// Receiver takes metrics of OpenTelemetry.
type Receiver struct {
	ingest  Ingest
	config  Config
	rules   ruleBook
	options Options
	bodies  bodies
	totals  struct{ exemplars, histograms, empty atomic.Uint64 }
	toldNs  atomic.Int64 // when the log last had a refusal
}

// toldEvery is how often the log names why points were refused.
const toldEvery = 10 * time.Second

// bodiesAtOnce is how many of the largest requests may be worked on together, where nobody
// says what memory there is.
const bodiesAtOnce = 4

// New makes the receiver. It fails on a rule that cannot be read.
func New(in Ingest, c Config, options Options) (*Receiver, error) {
	rules, err := newRuleBook(c.Runs)
	if err != nil {
		return nil, err
	}
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	if c.Workspace == "" {
		c.Workspace = defaultWorkspace
	}
	if c.Project == "" {
		c.Project = defaultProject
	}
	if options.Work == nil {
		most := weight.Times * options.MaxBody
		options.Work = share.NewWide("memory for points", bodiesAtOnce*most, most, 0)
	}
	return &Receiver{ingest: in, config: c, rules: rules, options: options, bodies: bodies{most: options.MaxBody}}, nil
}

// Totals count since the start what was understood and has no place in the model, for
// /metrics.
func (r *Receiver) Totals() Stats {
	return Stats{r.totals.exemplars.Load(), r.totals.histograms.Load(), r.totals.empty.Load()}
}

// Headers that say where the points go, and as gRPC's metadata. Over HTTP the URL may say it.
const (
	headerWorkspace = "X-Kymogram-Workspace"
	headerProject   = "X-Kymogram-Project"
)

const mediaType = "application/x-protobuf"

// Handlers lists the routes as patterns of http.ServeMux.
func (r *Receiver) Handlers() map[string]http.Handler {
	return map[string]http.Handler{"POST /v1/metrics": http.HandlerFunc(r.write)}
}

// write answers 200 once everything is durable.
func (r *Receiver) write(w http.ResponseWriter, q *http.Request) {
	answer, err := r.take(q)
	if err != nil {
		r.fail(w, q, err)
		return
	}
	w.Header().Set("Content-Type", mediaType)
	_, _ = w.Write(answer.data) // the client is gone when this fails
}

func (r *Receiver) take(q *http.Request) (*message, error) {
	workspace, project := q.URL.Query().Get("workspace"), q.URL.Query().Get("project")
	to := r.destination(first(workspace, q.Header.Get(headerWorkspace)), first(project, q.Header.Get(headerProject)))
	if err := r.ingest.Allow(q.Context(), to.workspace, to.project); err != nil {
		return nil, err
	}
	if media, _, err := mime.ParseMediaType(q.Header.Get("Content-Type")); err != nil || media != mediaType {
		return nil, unsupported("the content type is not " + mediaType + "; set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf")
	}
	body, release, err := r.bodies.read(q)
	if err != nil {
		return nil, err
	}
	defer release()
	return r.store(q.Context(), to, body)
}

func first(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// destination is where a request's points go.
type destination struct{ workspace, project string }

func (r *Receiver) destination(workspace, project string) destination {
	return destination{first(workspace, r.config.Workspace), first(project, r.config.Project)}
}

// store reads a request and stores its points.
func (r *Receiver) store(ctx context.Context, to destination, body []byte) (*message, error) {
	// All of it is here: whoever works now waits for no client.
	leave, err := r.options.Work.Acquire(ctx, r.bodies.cost(len(body)))
	if err != nil {
		return nil, err
	}
	defer leave()
	d := newDecoder(r.rules.find(to.project), r.options.Now().UnixNano(), r.bodies.budget(len(body)))
	if err := d.request(body); err != nil {
		return nil, r.malformed(err)
	}
	parts, sent := d.batches(), 0
	for i := range parts {
		sent += parts[i].Batch.Points()
	}
	ack, err := r.ingest.Append(ctx, to.workspace, to.project, parts)
	if err != nil {
		return nil, r.known(ctx, err)
	}
	r.totals.exemplars.Add(d.stats.Exemplars)
	r.totals.histograms.Add(d.stats.Histograms)
	r.totals.empty.Add(d.stats.Empty)
	rejected := min(d.points, d.rejected+sent-int(ack.Stored))
	why := d.fault
	if why == "" && len(ack.Refused) > 0 {
		why = ack.Refused[0].Message
	}
	if why == "" {
		rejected = 0
	}
	r.tell(ctx, to, rejected, why)
	return answer(rejected, why), nil
}

// tell logs why data points were refused: Python's SDK does not show what the answer says.
func (r *Receiver) tell(ctx context.Context, to destination, rejected int, why string) {
	now, told := r.options.Now().UnixNano(), r.toldNs.Load()
	if rejected > 0 && now-told >= int64(toldEvery) && r.toldNs.CompareAndSwap(told, now) {
		r.options.Log.WarnContext(ctx, "data points of OpenTelemetry were refused", "workspace", to.workspace, "project", to.project, "points", rejected, "first", model.CutBytes(why, 256))
	}
}

func (r *Receiver) malformed(err error) error {
	var known *model.Error
	switch {
	case errors.As(err, &known):
		return err
	case errors.Is(err, errTooMany), errors.Is(err, errRuns):
		return model.Errorf(model.CodeTooLarge, "%v: they would take more than %d MiB of memory", err, weight.Times*r.bodies.most>>20).WithHint(hintSmaller)
	}
	return model.Errorf(model.CodeInvalid, "the request is malformed: %v", err).WithHint("Nothing of it was stored.")
}

// known is an error that may be shown. Of another kind are our own faults, which the log has:
// the client sends again.
func (r *Receiver) known(ctx context.Context, err error) error {
	var form unsupported
	if model.Shown(err) != nil || errors.As(err, &form) || ctx.Err() != nil {
		return err
	}
	r.options.Log.ErrorContext(ctx, "an export of OpenTelemetry failed", "err", err)
	return model.Errorf(model.CodeUnavailable, "the server failed on this request; its log says why")
}

// unsupported is an error of the body's form: 415.
type unsupported string

func (u unsupported) Error() string { return string(u) }

// fail answers with a google.rpc.Status, as the protocol wants it. Clients send again after
// 429, 502, 503 and 504, and give up after all others.
func (r *Receiver) fail(w http.ResponseWriter, q *http.Request, err error) {
	state, text := reply(r.known(q.Context(), err))
	seconds := model.CodeOf(err).RetryAfter()
	if state == http.StatusServiceUnavailable {
		seconds = max(seconds, model.CodeBusy.RetryAfter())
	}
	if seconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(seconds))
	}
	selfmetrics.Refused(w, model.CodeOf(err))
	w.Header().Set("Content-Type", mediaType)
	doc, _ := proto.Marshal(status.New(codes.Unknown, text).Proto()) // text is UTF-8: it never fails
	w.WriteHeader(state)
	_, _ = w.Write(doc) // the client is gone when this fails
}

func reply(err error) (state int, text string) {
	var u unsupported
	if errors.As(err, &u) {
		return http.StatusUnsupportedMediaType, u.Error()
	}
	known := model.Shown(err)
	if known == nil { // the client is gone
		return http.StatusServiceUnavailable, "the request was given up"
	}
	text = known.Message
	if known.Hint != "" {
		text += "; " + known.Hint
	}
	switch known.Code {
	case model.CodeUnauthenticated:
		return http.StatusUnauthorized, text
	case model.CodePermission:
		return http.StatusForbidden, text
	case model.CodeNotFound:
		return http.StatusNotFound, text
	case model.CodeTooLarge:
		return http.StatusRequestEntityTooLarge, text
	case model.CodeDiskFull, model.CodeBusy, model.CodeUnavailable, model.CodeTimeout, model.CodeSlow, model.CodeSuperseded:
		return http.StatusServiceUnavailable, text
	}
	return http.StatusBadRequest, text
}

// message is a protobuf message as bytes: a request is read in place, and an answer is short.
type message struct{ data []byte }

// UnmarshalVT keeps a copy of a request.
func (m *message) UnmarshalVT(data []byte) error {
	m.data = slices.Clone(data)
	return nil
}

// SizeVT is the length of the message.
func (m *message) SizeVT() int { return len(m.data) }

// MarshalToSizedBufferVT writes the message into the end of a buffer.
func (m *message) MarshalToSizedBufferVT(to []byte) (int, error) {
	return copy(to[len(to)-len(m.data):], m.data), nil
}

// Fields of an ExportMetricsServiceResponse.
const (
	fPartialSuccess = 1
	fRejected       = 1
	fErrorMessage   = 2
)

// answer says how many data points were not taken, and why the first was not.
func answer(rejected int, why string) *message {
	if rejected == 0 {
		return &message{}
	}
	partial := protowire.AppendVarint(protowire.AppendTag(nil, fRejected, protowire.VarintType), uint64(rejected))
	partial = protowire.AppendString(protowire.AppendTag(partial, fErrorMessage, protowire.BytesType), why)
	return &message{protowire.AppendBytes(protowire.AppendTag(nil, fPartialSuccess, protowire.BytesType), partial)}
}

// Register adds the gRPC service. It is not the generated one: a request has to be read in
// place.
func (r *Receiver) Register(to grpc.ServiceRegistrar) {
	to.RegisterService(&grpc.ServiceDesc{
		ServiceName: "opentelemetry.proto.collector.metrics.v1.MetricsService",
		HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Export", Handler: func(_ any, ctx context.Context, read func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			return r.export(ctx, read)
		}}},
	}, r)
}

func (r *Receiver) export(ctx context.Context, read func(any) error) (*message, error) {
	in, _ := metadata.FromIncomingContext(ctx)
	said := func(name string) string {
		if values := in.Get(name); len(values) > 0 {
			return values[0]
		}
		return ""
	}
	to := r.destination(said(headerWorkspace), said(headerProject))
	if err := r.ingest.Allow(ctx, to.workspace, to.project); err != nil {
		return nil, err
	}
	var request message
	if err := read(&request); err != nil {
		return nil, fmt.Errorf("read a request: %w", err)
	}
	return r.store(ctx, to, request.data)
}
