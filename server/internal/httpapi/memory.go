package httpapi

import (
	"context"
	"errors"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kymogram/kymogram/server/internal/query"
	"github.com/kymogram/kymogram/server/internal/share"
)

// answers is the memory that answers may hold until their clients have them, in bytes. Answers that
// a person waits for are small and have a pool of their own: downloads that are
// read slowly do not hold up charts.
type answers struct {
	large, small *share.Pool
	page         int64 // of texts or documents
	stalled      atomic.Uint64
}

// The small pool is an eighth of the large one. An answer is small when many of
// them fit into its caller's part.
const (
	smallPool = 8
	smallMost = 4
)

func newAnswers(all, page int64) *answers {
	const what = "memory for answers"
	return &answers{page: page, large: share.New(what, all, 0), small: share.New(what, max(1, all/smallPool), 0)}
}

// reserve waits for the caller's share of the memory for answers.
func (m *answers) reserve(ctx context.Context, bytes int64) (release func(), err error) {
	if bytes <= m.small.Part()/smallMost {
		return m.small.Acquire(ctx, bytes)
	}
	return m.large.Acquire(ctx, bytes)
}

// Reserve waits for the caller's share of the memory for answers, for reads that do not
// come over HTTP. texts makes it a share for a page of texts or documents.
func (a *API) Reserve(ctx context.Context, bytes int64) (release func(), texts query.Admit, err error) {
	l, err := a.memory.share(ctx, bytes)
	if err != nil {
		return nil, nil, err
	}
	return l.end, l.texts, nil
}

// lease is a caller's share for an answer that may turn out to be of texts.
type lease struct {
	memory *answers
	bytes  int64

	mu      sync.Mutex
	release func()
	ended   bool
}

func (m *answers) share(ctx context.Context, bytes int64) (*lease, error) {
	release, err := m.reserve(ctx, bytes)
	return &lease{memory: m, bytes: bytes, release: release}, err
}

// end may come while texts waits.
func (l *lease) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	l.release()
}

// texts makes it a share for a page of texts or documents. It gives the old one back
// first: who holds some and waits for more may wait for others who do the same.
func (l *lease) texts(ctx context.Context) error {
	l.release()
	release, err := l.memory.large.Acquire(ctx, l.bytes+l.memory.page)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.release = release; l.ended {
		release()
	}
	return nil
}

// Stats are the API's figures, for /metrics.
type Stats struct {
	Bytes   int64  // that answers in the making hold
	Waiting int    // requests that wait for them
	Refused uint64 // requests that got none in time
	Stalled uint64 // answers cut off because their client did not read

	Waits        int64 // event streams and waiting requests
	RefusedWaits uint64
}

// Stats reads them.
func (a *API) Stats() Stats {
	waits := a.waits.Stats()
	large, small := a.memory.large.Stats(), a.memory.small.Stats()
	return Stats{
		Bytes: large.Used + small.Used, Waiting: large.Waiting + small.Waiting,
		Refused: large.Refused + small.Refused, Stalled: a.memory.stalled.Load(),
		Waits: waits.Used, RefusedWaits: waits.Refused,
	}
}

const (
	// answerTime is how long an answer may take to leave in all.
	answerTime = 5 * time.Minute
	// stallPiece is what a client must take in the time of a stall. It is so small
	// that a client which reads at all takes it.
	stallPiece = 16 << 10
)

// moving ends an answer whose client reads nothing: its memory is for others then.
// The client sees a broken connection, never a short answer.
type moving struct {
	http.ResponseWriter
	control *http.ResponseController
	end     time.Time
	stall   time.Duration
}

// moves makes a handler's answers moving.
func (a *API) moves(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(&moving{w, http.NewResponseController(w), time.Now().Add(answerTime), a.options.Stall}, r)
	})
}

// Moves is for answers of other packages that hold a share of [API.Reserve].
func (a *API) Moves(next http.Handler) http.Handler { return a.moves(next) }

// Unwrap is for [http.ResponseController].
func (m *moving) Unwrap() http.ResponseWriter { return m.ResponseWriter }

func (m *moving) Write(p []byte) (written int, err error) {
	for first := true; first || len(p) > 0; first = false {
		deadline := time.Now().Add(m.stall)
		if m.end.Before(deadline) {
			deadline = m.end
		}
		if err := m.control.SetWriteDeadline(deadline); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return written, err
		}
		piece := p[:min(len(p), stallPiece)]
		n, err := m.ResponseWriter.Write(piece)
		written += n
		if err != nil {
			return written, err
		}
		p = p[len(piece):]
	}
	return written, nil
}

// cut ends an answer that failed after it began: the connection is broken off,
// so that the client cannot take half a file for a whole one.
func (a *API) cut(r *http.Request, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		a.memory.stalled.Add(1)
	}
	a.log.InfoContext(r.Context(), "answer cut short", "path", r.URL.Path, "err", err)
	panic(http.ErrAbortHandler)
}
