package server

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/config"
	"github.com/kymogram/kymogram/server/internal/httpapi"
	"github.com/kymogram/kymogram/server/internal/share"
)

// What a request's body may take while it is worked on: several times its bytes, and
// never more than largest times the limit of a body. A compressed one unfolds: gzip
// to a thousand times at most, snappy's block format to 22 times.
const (
	plainCost  = 4
	gzipCost   = 1032
	snappyCost = 4 * 22
	largest    = 4
	leastCost  = 64 << 10
)

// callsAtOnce bounds gRPC calls. One caller has a quarter of them.
const callsAtOnce = 8192

// What may hold connections for long, where these are few: the calls of one caller at
// most half of them, files that come or go slowly a quarter in all.
const (
	callsEach = 2 // for each connection; one caller has a quarter of the calls
	filesPart = 4
)

// admissionTime is how long a request waits for memory before it is refused. Its body
// waits with the client meanwhile. It is short, so that clients slow down early.
const admissionTime = 2 * time.Second

// messageTime is the same for a stream: shorter than what the uplink takes for a stall.
const messageTime = 10 * time.Second

// admission bounds the memory of all requests that are worked on. A message takes
// its shares in the order of these fields, so none waits for another that waits for it.
type admission struct {
	limit                        int64 // of one body
	streams, arriving, unfolding *share.Pool
	pool, answers                *share.Pool
	files                        *share.Pool // up- and downloads that go on
}

// newAdmission takes the limit of a body, the memory of the process and how many connections
// there may be. Where memory is small, one large request may take most of what there is for all.
func newAdmission(limit int64, memory config.Budget, connections int) *admission {
	const what = "memory for requests"
	return &admission{
		limit: limit, streams: share.New("calls", min(callsAtOnce, callsEach*int64(connections)), 0),
		arriving: share.NewWide(what, memory.Received, largestMessage, 0), unfolding: share.NewWide(what, memory.Unfolded, largestMessage, 0),
		files:   share.New("files", max(1, int64(connections/filesPart)), 0),
		pool:    share.NewWide(what, memory.Requests, largest*max(limit, largestAnswer), admissionTime),
		answers: share.NewWide("memory for answers", memory.Answers, largestAnswer, 0),
	}
}

// cost is what the body of a request may take.
func (a *admission) cost(r *http.Request) int64 {
	most := largest * a.limit
	if r.ContentLength < 0 || r.ContentLength > a.limit {
		return most
	}
	factor := int64(plainCost)
	switch encoding := strings.ToLower(r.Header.Get("Content-Encoding")); {
	case encoding == "snappy", encoding == "" && strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-protobuf"):
		factor = snappyCost
	case encoding != "" && encoding != "identity":
		factor = gzipCost
	}
	return min(max(leastCost, r.ContentLength*factor), most)
}

// enter waits for the memory of a request, or takes the place of a file.
func (a *admission) enter(r *http.Request, rule Rule) (leave func(), err error) {
	switch {
	case rule.Large:
		return a.files.Try(r.Context(), 1)
	case r.Body == nil || r.Body == http.NoBody:
		return func() {}, nil
	}
	return a.pool.Acquire(r.Context(), a.cost(r))
}

// A body, and a large message of gRPC, must keep coming: so much of it within so long.
const (
	leastRate     = 4 << 10 // bytes a second
	bodyStall     = 10 * time.Second
	arrivingPiece = leastRate * int(bodyStall/time.Second)
)

// deadlines are those of a connection.
type deadlines interface {
	SetReadDeadline(t time.Time) error
	SetWriteDeadline(t time.Time) error
}

// arriving is a request's body. One that comes too slowly ends, so that what is set aside
// for it is for others. Only the time that is spent waiting for it counts.
type arriving struct {
	io.ReadCloser
	control deadlines
	answer  time.Duration // for the answer, once the body is here; 0 is unlimited
	bound   time.Time     // when that began to count
	end     time.Time     // of all of it, unless it is zero
	came    int           // of the piece that comes now
	waited  time.Duration // for that
	slow    bool
	whole   bool // all of it is here
}

// nearly is what an answer may have less time than it should.
const nearly = time.Second

func (a *arriving) Read(p []byte) (int, error) {
	if a.slow {
		return 0, tooSlow()
	}
	begun := time.Now()
	deadline := begun.Add(bodyStall - a.waited)
	if !a.end.IsZero() && a.end.Before(deadline) {
		deadline = a.end
	}
	if err := a.control.SetReadDeadline(deadline); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return 0, err
	}
	n, err := a.ReadCloser.Read(p)
	a.waited += time.Since(begun)
	if a.came += n; a.came >= arrivingPiece {
		a.came, a.waited = 0, 0
	}
	return n, a.ended(err)
}

// ended is what became of a body whose reading gave an error. The deadline of a slow one
// stays, so that nobody waits for its rest.
func (a *arriving) ended(err error) error {
	if err == nil {
		return nil
	}
	if now := time.Now(); a.answer > 0 && now.Sub(a.bound) > nearly {
		a.bound = now
		_ = a.control.SetWriteDeadline(now.Add(a.answer))
	}
	a.whole = errors.Is(err, io.EOF)
	if a.slow = errors.Is(err, os.ErrDeadlineExceeded); a.slow {
		return tooSlow()
	}
	_ = a.control.SetReadDeadline(time.Time{}) // net/http reads on, to see the client leave
	return err
}

func tooSlow() error {
	return model.Errorf(model.CodeSlow, "the request's body came too slowly").
		WithHint("At least %d KiB of it must arrive every %v. Send it again, or in smaller parts.", arrivingPiece>>10, bodyStall)
}

// refuse answers a request that found no memory, or no turn to look its key up. Prometheus drops what is answered with
// 429, so other systems' clients get 503.
func (m *mux) refuse(w http.ResponseWriter, r *http.Request, rule Rule, err error) {
	var e *model.Error
	if rule.Foreign && errors.As(err, &e) && e.Code == model.CodeBusy {
		httpapi.Retry(w.Header(), e.Code)
		as := *e
		as.Code = model.CodeUnavailable
		err = &as
	}
	if rule.GraphQL {
		w = &graphQL{ResponseWriter: w, err: err}
	}
	Fail(w, r, m.log, err)
}

// graphQL writes the body of a refusal as the SDK of W&B reads it. All else of the answer stays.
type graphQL struct {
	http.ResponseWriter
	err error
}

// Unwrap is for [http.ResponseController] and those who count refusals.
func (g *graphQL) Unwrap() http.ResponseWriter { return g.ResponseWriter }

func (g *graphQL) Write(body []byte) (int, error) {
	e := model.Shown(g.err)
	if e == nil {
		return g.ResponseWriter.Write(body)
	}
	message := e.Message
	if causeOf(e.Code) != "" {
		message += ": set WANDB_API_KEY to a key of `kymogram key create --name wandb --scope ingest,read`"
	} else if e.Hint != "" {
		message += ": " + e.Hint
	}
	doc, err := json.Marshal(map[string]any{"error": message, "errors": []map[string]string{{"message": message}}})
	if err != nil {
		return 0, err
	}
	if _, err := g.ResponseWriter.Write(doc); err != nil {
		return 0, err
	}
	return len(body), nil
}

// leases are those of a stream's messages that were received and not answered yet.
type leases struct {
	mu   sync.Mutex
	open []func()
}

// message waits for the memory of a large message of a stream. The stream is not read
// meanwhile, so its client waits, too.
func (a *admission) message(ctx context.Context, l *leases, cost int) error {
	if cost < leastCost {
		return nil
	}
	leave, err := a.pool.AcquireWithin(ctx, messageTime, int64(cost))
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = append(l.open, leave)
	return nil
}

// answered gives the memory of the oldest message back.
func (l *leases) answered() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.open) > 0 {
		l.open[0]()
		l.open = l.open[1:]
	}
}

func (l *leases) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, leave := range l.open {
		leave()
	}
	l.open = nil
}
