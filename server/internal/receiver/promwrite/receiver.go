package promwrite

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"

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

// Config is where the points of a URL that names no place go.
type Config struct {
	Workspace, Project string
}

// Options are what code sets.
type Options struct {
	MaxBody int64 // of a request as it is sent
	// Work is the memory for what is made of bodies; nil makes a pool of its own.
	Work *share.Pool
	Log  *slog.Logger
}

// Receiver takes remote write.
type Receiver struct {
	ingest   Ingest
	config   Config
	options  Options
	bodies   bodies
	decoders *share.Shelf[*decoder]
	totals   totals
}

type totals struct{ exemplars, metadata, dropped atomic.Uint64 }

// Totals count since the start what was understood and has no place in the
// model, for /metrics.
type Totals struct {
	Exemplars, Metadata uint64
	Histograms          uint64 // that the model cannot hold
}

// bodiesAtOnce is how many of the largest requests may be worked on together, where nobody
// says what memory there is.
const bodiesAtOnce = 4

// maxDecoders bounds those that know something for another request.
const maxDecoders = 16

// New makes the receiver.
func New(in Ingest, c Config, options Options) *Receiver {
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	if c.Workspace == "" {
		c.Workspace = "default"
	}
	if c.Project == "" {
		c.Project = "prometheus"
	}
	if options.Work == nil {
		most := weight.Times * options.MaxBody
		options.Work = share.NewWide("memory for points", bodiesAtOnce*most, most, 0)
	}
	return &Receiver{
		ingest: in, config: c, options: options,
		bodies: bodies{most: options.MaxBody}, decoders: share.NewShelf[*decoder](maxDecoders, maxLearnt),
	}
}

// Handlers lists the routes as patterns of http.ServeMux.
func (r *Receiver) Handlers() map[string]http.Handler {
	return map[string]http.Handler{"POST /api/v1/write": http.HandlerFunc(r.write)}
}

// Totals reads the counters.
func (r *Receiver) Totals() Totals {
	return Totals{r.totals.exemplars.Load(), r.totals.metadata.Load(), r.totals.dropped.Load()}
}

// version is that of the protocol: 1 or 2.
type version int

// The messages that a content type can name.
const (
	mediaType = "application/x-protobuf"
	message1  = "prometheus.WriteRequest"
	message2  = "io.prometheus.write.v2.Request"
)

// negotiate reads the version from the content type.
func negotiate(h http.Header) (version, error) {
	media, params, err := mime.ParseMediaType(h.Get("Content-Type"))
	if encoding := h.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "snappy") {
		return 0, unsupported{fmt.Sprintf("the content encoding %q is not snappy", model.Clip(encoding))}
	}
	if err != nil || media != mediaType {
		return 0, unsupported{fmt.Sprintf("the content type %q is not %s", model.Clip(h.Get("Content-Type")), mediaType)}
	}
	switch proto := params["proto"]; proto {
	case "", message1:
		return 1, nil
	case message2:
		return 2, nil
	default:
		return 0, unsupported{fmt.Sprintf("the message %q is neither %s nor %s", model.Clip(proto), message1, message2)}
	}
}

// unsupported makes a sender fall back to another version: 415.
type unsupported struct{ text string }

func (u unsupported) Error() string { return u.text }

// written is what the answer says was stored.
type written struct{ samples, histograms int }

// write answers 204 once everything is durable.
func (r *Receiver) write(w http.ResponseWriter, q *http.Request) {
	done, err := r.take(q)
	h := w.Header()
	h.Set("X-Prometheus-Remote-Write-Samples-Written", strconv.Itoa(done.samples))
	h.Set("X-Prometheus-Remote-Write-Histograms-Written", strconv.Itoa(done.histograms))
	h.Set("X-Prometheus-Remote-Write-Exemplars-Written", "0") // there is no place for them
	if err != nil {
		r.fail(w, q, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (r *Receiver) take(q *http.Request) (done written, err error) {
	workspace, project := q.URL.Query().Get("workspace"), q.URL.Query().Get("project")
	if workspace == "" {
		workspace = r.config.Workspace
	}
	if project == "" {
		project = r.config.Project
	}
	if err := r.ingest.Allow(q.Context(), workspace, project); err != nil {
		return done, err
	}
	v, err := negotiate(q.Header)
	if err != nil {
		return done, err
	}
	sent, keep, err := r.bodies.read(q)
	if err != nil {
		return done, err
	}
	defer keep()
	size, err := r.bodies.size(sent)
	if err != nil {
		return done, err
	}
	// All of it is here: whoever works now waits for no client.
	leave, err := r.options.Work.Acquire(q.Context(), r.bodies.cost(size))
	if err != nil {
		return done, err
	}
	defer leave()
	body, release, err := r.bodies.unfold(sent, size)
	if err != nil {
		return done, err
	}
	defer release()
	d, put := r.decoder(v, r.bodies.budget(body))
	defer put()
	if v == 2 {
		err = d.write2(body)
	} else {
		err = d.write1(body)
	}
	if err != nil {
		return done, r.malformed(err)
	}
	return r.store(q.Context(), workspace, project, d)
}

// decoder is one that may know what earlier requests had; put gives it back. The names in a
// request of version 2 are numbers that mean something else in the next.
func (r *Receiver) decoder(v version, budget int) (d *decoder, put func()) {
	if v == 2 {
		return newDecoder(budget), func() {}
	}
	shelved, taken := r.decoders.Take()
	if !taken {
		shelved.Value = newDecoder(budget)
	}
	d = shelved.Value
	d.left = budget
	return d, func() {
		d.end()
		if !r.decoders.Put(shelved, d.learnt) {
			d.forget()
			r.decoders.Put(shelved, 0)
		}
	}
}

func (r *Receiver) malformed(err error) error {
	if errors.Is(err, errTooMany) {
		return model.Errorf(model.CodeTooLarge, "the request's series and samples would take more than %d MiB of memory", weight.Times*r.bodies.most>>20).
			WithHint("Lower max_samples_per_send of the sender's queue_config.")
	}
	if errors.Is(err, errRuns) {
		return model.Errorf(model.CodeTooLarge, "%v", errRuns).WithHint("Lower max_samples_per_send of the sender's queue_config, or give more targets the same label run.")
	}
	return model.Errorf(model.CodeInvalid, "the request is malformed: %v", err).WithHint("Nothing of it was stored.")
}

func (r *Receiver) store(ctx context.Context, workspace, project string, d *decoder) (done written, err error) {
	parts := d.parts()
	sent := 0
	for i := range parts {
		sent += parts[i].Batch.Points()
	}
	ack, err := r.ingest.Append(ctx, workspace, project, parts)
	if err != nil {
		return done, err
	}
	d.find()
	s := &d.stats
	r.totals.exemplars.Add(uint64(s.Exemplars))
	r.totals.metadata.Add(uint64(s.Metadata))
	r.totals.dropped.Add(uint64(s.Dropped))
	if s.Dropped > 0 {
		r.options.Log.Warn("native histograms have no place here; their counts and sums are kept", "histograms", s.Dropped, "workspace", workspace, "project", project)
	}
	refused := sent - int(ack.Stored) + s.Refused
	done = written{max(0, s.Samples-refused), s.Histograms - s.Dropped}
	switch {
	case len(ack.Refused) > 0:
		return done, model.Errorf(model.CodeInvalid, "%d samples were refused for good, the others are stored: %s", refused, ack.Refused[0].Message)
	case s.Refused > 0:
		return done, model.Errorf(model.CodeInvalid, "%d samples were refused for good, the others are stored: %v", refused, d.fault)
	}
	return done, nil
}

// fail answers with a plain text: senders put it into their logs. They send again
// after 5xx and give up after 4xx.
func (r *Receiver) fail(w http.ResponseWriter, q *http.Request, err error) {
	status, text := reply(err)
	if status == http.StatusInternalServerError && q.Context().Err() == nil {
		r.options.Log.ErrorContext(q.Context(), "a remote write failed", "err", err)
	}
	seconds := model.CodeOf(err).RetryAfter()
	if status == http.StatusServiceUnavailable {
		seconds = max(seconds, model.CodeBusy.RetryAfter())
	}
	if seconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(seconds))
	}
	selfmetrics.Refused(w, model.CodeOf(err))
	http.Error(w, text, status)
}

func reply(err error) (status int, text string) {
	var u unsupported
	if errors.As(err, &u) {
		return http.StatusUnsupportedMediaType, u.text
	}
	known := model.Shown(err)
	if known == nil {
		return http.StatusInternalServerError, "the server failed on this request; its log says why"
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
	case model.CodeInternal:
		return http.StatusInternalServerError, text
	}
	return http.StatusBadRequest, text
}
