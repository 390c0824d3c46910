package ingest

import (
	"context"
	"sync"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
)

// recheck is how old a permission may get: a revoked key ends a stream within it
// (docs/design/points.md).
const recheck = time.Second

// Session is one stream of one writer. Its methods may be called from several
// goroutines; batches are stored in the order of the calls only when the caller
// waits for each.
type Session struct {
	Opened model.OpenResult

	service            *Service
	run                *runState
	owner              *owner
	writer             model.WriterID
	attempt            uint32
	workspace, project string
	ended              chan struct{} // closed when a newer stream took over

	mu      sync.Mutex
	allowed time.Time // when the right was last looked at
	closed  bool
	spooled *uint64 // what the client last reported; nil: unknown
	told    int     // of the run's shared environments
}

// Superseded is closed when a newer stream of the writer took over.
func (s *Session) Superseded() <-chan struct{} { return s.ended }

// Close ends the session; the writer stays open. Safe to call twice.
func (s *Session) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	if s.service.streams.remove(s) && s.spooled != nil {
		s.service.publish(s.run.id, s.workspace, s.project) // it is not known any more
	}
	s.service.runs.release(s.run)
}

// Heartbeat is a sign of life of an idle writer.
func (s *Session) Heartbeat() { s.service.seen.record(s.writer, s.service.deps.Now()) }

// shared tells who else logs the writer's environments, each once.
func (s *Session) shared() (with []model.SharedWith) {
	s.mu.Lock()
	defer s.mu.Unlock()
	with, s.told = s.run.owners.news(s.writer, s.told)
	return with
}

// Spooled notes how many points the client says are still in its spool; nil when
// it does not know. It lives as long as the session.
func (s *Session) Spooled(points *uint64) {
	s.mu.Lock()
	before := s.spooled
	s.spooled = points
	s.mu.Unlock()
	if (before == nil) != (points == nil) || before != nil && *before != *points {
		s.service.publish(s.run.id, s.workspace, s.project)
	}
}

// Spooled is what the writer's client last reported of its spool. It is known
// only while the writer has a stream.
func (s *Service) Spooled(writer model.WriterID) (points uint64, known bool) {
	session := s.streams.find(writer)
	if session == nil {
		return 0, false
	}
	session.mu.Lock()
	defer session.mu.Unlock()
	if session.spooled == nil {
		return 0, false
	}
	return *session.spooled, true
}

// Gone says that the writer's process ended without a close; signal is what ended it,
// and when, where that is known.
func (s *Session) Gone(ctx context.Context, signal string, timeNs int64) error {
	if signal == "" || timeNs <= 0 {
		timeNs = s.service.deps.Now().UnixNano()
	}
	_, err := s.Append(ctx, &model.Batch{Updates: []model.Update{{Op: model.OpGone, Signal: signal, TimeNs: timeNs}}})
	return err
}

// admit checks that the session may still write.
func (s *Session) admit(ctx context.Context) error {
	select {
	case <-s.ended:
		return errSuperseded()
	default:
	}
	now := s.service.deps.Now()
	s.mu.Lock()
	due := now.Sub(s.allowed) >= recheck
	s.mu.Unlock()
	if !due {
		return nil
	}
	if err := s.service.deps.Auth.Allow(ctx, catalog.ScopeIngest, s.workspace, s.project); err != nil {
		return err
	}
	s.mu.Lock()
	s.allowed = now
	s.mu.Unlock()
	return nil
}

func errSuperseded() *model.Error {
	return model.Errorf(model.CodeSuperseded, "a newer stream of this writer took over").
		WithHint("One process at a time delivers a writer.")
}

// Writer is the writer that the session is of.
func (s *Session) Writer() model.WriterID { return s.writer }
