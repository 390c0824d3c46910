package server

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/kymogram/kymogram/internal/model"
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

// What all requests together may take, so that with the store and the answers of HTTP
// the process stays below 1 GiB. One caller has a quarter of each.
const (
	workedOn      = 512 << 20
	arrivingBytes = 64 << 20 // of gRPC messages that are being received
	unfoldedBytes = 32 << 20 // of those that were compressed, until they are admitted
	answerBytes   = 64 << 20 // of gRPC answers that are not read yet
	callsAtOnce   = 8192
)

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

// requestShare is the part of the process's memory that requests may take.
const requestShare = 3

// requestBytes is what all requests may take. It is enough for the largest body of each of
// four callers, also where the operator allows very large ones, but no more than a third
// of the process's memory. The largest body of one caller has room in any case: then
// enough is false where that is more than a third.
func requestBytes(body, memory int64) (size int64, enough bool) {
	size = max(workedOn, 4*largest*body)
	if memory <= 0 {
		return size, true
	}
	third := memory / requestShare
	return min(size, max(third, largest*body)), third >= largest*body
}

// newAdmission takes the limit of a body, the process's memory (0 if unknown) and how
// many connections there may be.
func newAdmission(limit, memory int64, connections int) *admission {
	const what = "memory for requests"
	size, _ := requestBytes(limit, memory)
	return &admission{
		limit: limit, streams: share.New("calls", min(callsAtOnce, callsEach*int64(connections)), 0),
		arriving: share.New(what, arrivingBytes, 0), unfolding: share.New(what, unfoldedBytes, 0),
		files: share.New("files", max(1, int64(connections/filesPart)), 0),
		pool:  share.NewWide(what, size, largest*limit, admissionTime), answers: share.New("memory for answers", answerBytes, 0),
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

// bodyStall is how long a client may send nothing of a body that memory is set aside for.
const bodyStall = 10 * time.Second

// arriving is such a body. What does not come ends the request, and its memory is for others.
type arriving struct {
	io.ReadCloser
	control *http.ResponseController
	end     time.Time
}

func (a *arriving) Read(p []byte) (int, error) {
	deadline := time.Now().Add(bodyStall)
	if a.end.Before(deadline) {
		deadline = a.end
	}
	if err := a.control.SetReadDeadline(deadline); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return 0, err
	}
	n, err := a.ReadCloser.Read(p)
	if err != nil {
		// net/http reads on, to see the client leave: that may take as long as before.
		_ = a.control.SetReadDeadline(a.end)
	}
	return n, err
}

// refuse answers a request that found no memory. Prometheus drops what is answered with
// 429, so other systems' clients get 503.
func (m *mux) refuse(w http.ResponseWriter, r *http.Request, rule Rule, err error) {
	var e *model.Error
	if rule.Foreign && errors.As(err, &e) && e.Code == model.CodeBusy {
		httpapi.Retry(w.Header(), e.Code)
		as := *e
		as.Code = model.CodeUnavailable
		err = &as
	}
	Fail(w, r, m.log, err)
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
