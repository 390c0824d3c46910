package influx

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

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

	Version string
	Ready   func() error // whether points can be taken now; nil: always
	// Projects lists all that there are, a page at a time; nil: none.
	Projects func(ctx context.Context, cursor string) (page []ingest.Place, next string, err error)
}

// Receiver takes line protocol.
type Receiver struct {
	ingest    Ingest
	options   Options
	workspace string
	rules     ruleBook
	bodies    bodies
	decoders  map[*Rules]*share.Shelf[*decoder] // what one has learnt follows from its rules
	started   time.Time
}

// bodiesAtOnce is how many of the largest requests may be worked on together, where nobody
// says what memory there is.
const bodiesAtOnce = 16

// maxDecoders bounds those that know something for another request, of one set of rules.
const maxDecoders = 16

// New makes the receiver. It fails on a rule that cannot be read.
func New(in Ingest, c Config, options Options) (*Receiver, error) {
	rules, err := newRuleBook(c)
	if err != nil {
		return nil, err
	}
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	if c.Workspace == "" {
		c.Workspace = defaultWorkspace
	}
	if options.Work == nil {
		most := weight.Times * options.MaxBody
		options.Work = share.NewWide("memory for points", bodiesAtOnce*most, most, 0)
	}
	if options.Ready == nil {
		options.Ready = func() error { return nil }
	}
	if options.Projects == nil {
		options.Projects = func(context.Context, string) ([]ingest.Place, string, error) { return nil, "", nil }
	}
	decoders := make(map[*Rules]*share.Shelf[*decoder], len(rules))
	for _, of := range rules {
		decoders[of] = share.NewShelf[*decoder](maxDecoders, maxLearnt)
	}
	return &Receiver{
		started: options.Now(),
		ingest:  in, options: options, workspace: c.Workspace, rules: rules,
		bodies: bodies{most: options.MaxBody}, decoders: decoders,
	}, nil
}

// Handlers lists the routes as patterns of http.ServeMux.
func (r *Receiver) Handlers() map[string]http.Handler {
	routes := map[string]http.HandlerFunc{
		"POST /api/v2/write":  func(w http.ResponseWriter, q *http.Request) { r.write(w, q, version2) },
		"POST /write":         func(w http.ResponseWriter, q *http.Request) { r.write(w, q, version1) },
		"GET /ping":           r.ping,
		"GET /health":         r.health,
		"GET /ready":          r.ready,
		"GET /api/v2/buckets": r.buckets,
		"GET /api/v2/orgs":    r.orgs,
	}
	out := make(map[string]http.Handler, len(routes))
	for pattern, h := range routes {
		out[pattern] = r.stated(h)
	}
	return out
}

// write answers 204 once everything is durable.
func (r *Receiver) write(w http.ResponseWriter, q *http.Request, v version) {
	if err := r.take(q, v); err != nil {
		r.fail(w, q, v, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (r *Receiver) take(q *http.Request, v version) error {
	to, err := v.destination(q.URL.Query(), r.workspace)
	if err != nil {
		return err
	}
	if err := r.ingest.Allow(q.Context(), to.workspace, to.project); err != nil {
		return err
	}
	b, release, err := r.bodies.read(q)
	if err != nil {
		return err
	}
	defer release()
	// All of it is here: whoever works now waits for no client.
	done, err := r.options.Work.Acquire(q.Context(), b.cost())
	if err != nil {
		return err
	}
	defer done()
	now, rules := r.options.Now().UnixNano(), r.rules.find(to.project)
	d, put := r.decoder(rules)
	defer put()
	return r.store(q.Context(), to, &reading{
		body: b, budget: int(r.options.MaxBody), rules: rules, unit: to.unit, now: now - now%to.unit,
	}, d)
}

// decoder is one that may know what earlier requests had; put gives it back.
func (r *Receiver) decoder(rules *Rules) (d *decoder, put func()) {
	shelf := r.decoders[rules]
	shelved, taken := shelf.Take()
	if !taken {
		shelved.Value = newDecoder()
	}
	d = shelved.Value
	return d, func() {
		if !shelf.Put(shelved, d.learnt) {
			d.forget()
			shelf.Put(shelved, 0)
		}
	}
}

// store reads a body and stores its points. A body of one part is stored when it was read.
// A larger one is read twice: a bad line refuses all of it, so all has to be looked at
// before the first part is stored.
func (r *Receiver) store(ctx context.Context, to destination, read *reading, d *decoder) error {
	var sum partial
	put := func(parts []ingest.Part) error {
		sum.lose(d.lost, d.why)
		for i := range parts {
			sum.dropped += parts[i].Batch.Points() // before Append takes refused ones out
		}
		ack, err := r.ingest.Append(ctx, to.workspace, to.project, parts)
		sum.add(&ack)
		return err
	}
	stored := false
	err := read.each(d, func(parts []ingest.Part, only bool) error {
		if stored = only; only {
			return put(parts)
		}
		return ctx.Err()
	})
	if err == nil && !stored {
		err = read.each(d, func(parts []ingest.Part, _ bool) error { return put(parts) })
	}
	if err == nil && sum.first.Code != "" {
		return sum
	}
	return err
}

// reading is how a body becomes batches.
type reading struct {
	body   *body
	rules  *Rules
	unit   int64 // of timestamps, ns
	now    int64 // of points without one
	budget int   // of the memory of one part
}

// each reads a body part by part, so that one takes bounded memory. Only is true for a
// part that is the whole body.
func (r *reading) each(d *decoder, do func(parts []ingest.Part, only bool) error) error {
	pieces, closed, err := r.body.open()
	if err != nil {
		return err
	}
	defer closed()
	used := 0
	d.begin(r, min(maxSeries, r.budget/perSeries))
	defer d.end()
	for first := true; ; first = false {
		piece, last, err := pieces.next(used)
		if err != nil {
			return err
		}
		if used, err = d.decode(piece, last); err != nil {
			return err
		}
		end := last == len(piece) && used == len(piece)
		if err := do(d.parts(), first && end); err != nil || end {
			return err
		}
		d.reset()
	}
}

// partial is the news that some points were refused for good; all others are
// stored.
type partial struct {
	dropped int
	first   model.Refusal
}

// lose counts points of runs that cannot be.
func (p *partial) lose(points int, why error) {
	p.dropped += points
	if e := model.Shown(why); e != nil && p.first.Code == "" {
		p.first = model.Refusal{Code: e.Code, Message: e.Message}
	}
}

// add counts what was stored of what was sent.
func (p *partial) add(ack *model.Ack) {
	p.dropped -= int(ack.Stored)
	if len(ack.Refused) > 0 && p.first.Code == "" {
		p.first = ack.Refused[0]
	}
}

func (p partial) Error() string { return p.first.Message }

// destination is where a request's points go.
type destination struct {
	workspace, project string
	unit               int64 // of timestamps, ns
}

// version is InfluxDB's API: 1 or 2.
type version int

const (
	version1 version = 1
	version2 version = 2
)

func (v version) destination(q url.Values, workspace string) (to destination, err error) {
	to = destination{workspace: workspace}
	place := "bucket"
	if v == version1 {
		place = "db"
		to.project, _, _ = strings.Cut(q.Get(place), "/") // a retention policy says nothing here
	} else {
		to.project = q.Get(place)
		if org := q.Get("org"); org != "" {
			to.workspace = org
		}
	}
	if to.project == "" {
		return to, model.Errorf(model.CodeInvalid, "the request names no %s", place).WithHint("Add %s=PROJECT to the URL.", place)
	}
	to.unit = v.unit(q.Get("precision"))
	if to.unit == 0 {
		return to, model.Errorf(model.CodeInvalid, "the precision %q is not known", model.Clip(q.Get("precision"))).WithHint("It is %s.", v.units())
	}
	return to, nil
}

// unit is a precision in nanoseconds, 0 for an unknown one.
func (v version) unit(precision string) int64 {
	switch precision {
	case "", "ns":
		return 1
	case "us":
		return int64(time.Microsecond)
	case "ms":
		return int64(time.Millisecond)
	case "s":
		return int64(time.Second)
	}
	if v == version2 {
		return 0
	}
	switch precision {
	case "n":
		return 1
	case "u", "µ":
		return int64(time.Microsecond)
	case "m":
		return int64(time.Minute)
	case "h":
		return int64(time.Hour)
	}
	return 0
}

func (v version) units() string {
	if v == version2 {
		return "ns, us, ms or s"
	}
	return "n, u, ms, s, m or h"
}

// fail answers as InfluxDB does, so that its clients send again exactly what may
// be taken later: 429 and above.
func (r *Receiver) fail(w http.ResponseWriter, q *http.Request, v version, err error) {
	status, code, message := reply(err)
	if status == http.StatusInternalServerError && q.Context().Err() == nil {
		r.options.Log.ErrorContext(q.Context(), "a write of line protocol failed", "err", err)
	}
	doc := map[string]string{"code": code, "message": message}
	if v == version1 {
		doc["error"] = message
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	retry(w.Header(), status, err)
	selfmetrics.Refused(w, model.CodeOf(err))
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(doc) // the client is gone when this fails
}

// retry tells a client when to send again, if that is of use: after every 503.
func retry(h http.Header, status int, err error) {
	seconds := model.CodeOf(err).RetryAfter()
	if status == http.StatusServiceUnavailable {
		seconds = max(seconds, model.CodeBusy.RetryAfter())
	}
	if seconds > 0 {
		h.Set("Retry-After", strconv.Itoa(seconds))
	}
}

// reply is an error in InfluxDB's terms.
func reply(err error) (status int, code, message string) {
	var some partial
	if errors.As(err, &some) {
		return http.StatusUnprocessableEntity, "unprocessable entity",
			"partial write: " + some.first.Message + " (" + string(some.first.Code) + ") dropped=" + strconv.Itoa(some.dropped)
	}
	known := model.Shown(err)
	if known == nil {
		return http.StatusInternalServerError, "internal error", "the server failed on this request; its log says why"
	}
	message = known.Message
	if known.Hint != "" {
		message += ": " + known.Hint
	}
	switch known.Code {
	case model.CodeInvalid, model.CodeAmbiguous:
		return http.StatusBadRequest, "invalid", message
	case model.CodeUnauthenticated:
		return http.StatusUnauthorized, "unauthorized", message
	case model.CodePermission:
		return http.StatusForbidden, "forbidden", message
	case model.CodeNotFound:
		return http.StatusNotFound, "not found", message
	case model.CodeTooLarge:
		return http.StatusRequestEntityTooLarge, "request too large", message
	case model.CodeBusy:
		return http.StatusTooManyRequests, "too many requests", message
	case model.CodeDiskFull, model.CodeUnavailable, model.CodeTimeout, model.CodeSlow, model.CodeSuperseded:
		return http.StatusServiceUnavailable, "unavailable", message
	case model.CodeInternal:
		return http.StatusInternalServerError, "internal error", message
	}
	return http.StatusUnprocessableEntity, "unprocessable entity", message
}
