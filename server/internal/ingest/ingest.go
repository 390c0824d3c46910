// Package ingest is the only write path: it validates, authorises, limits,
// routes and stores what receivers decoded, and knows no protocol.
//
// In: the open of a writer ([Service.Join]; [Service.Open] only asks), its batches
// ([Session.Append]), batches of protocols without writers ([Service.Foreign]),
// and what people change ([Service.UpdateRun]). Out: acks, points in the store,
// updates in the catalog, news for readers.
//
//	batch ─▶ checkStructure ─▶ judge ─▶ owners.claim ─▶ store ─▶ catalog ─▶ ack
//	         all or nothing    some      environments   one       in the
//	                           records   that two       fsync     order of
//	                           refused   writers log              the log
//
// What always holds: what an ack covers is durable, points in the store and updates
// in the store's log and the catalog. A record is stored as a whole, or named in
// the ack as refused for good. The catalog sees the updates of a run in the order
// of the store's log, each once, whatever was killed in between.
//
// Start reading in append.go, the life of a batch. Before it come open.go and
// session.go, behind it verdict.go (what is refused) and run.go (how store and
// catalog keep in step); lifecycle.go is the work in the background.
package ingest

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/store"
)

// Points is where points and updates become durable (a store.Engine).
type Points = store.Writer

// Updates gives back what a crash left between the store and the catalog (a
// store.Engine).
type Updates = store.MetaLog

// Starts tells where a run's series stand (a store.Engine).
type Starts interface {
	Ends(ctx context.Context, run model.RunID, limit int) (starts []model.Start, envs []model.EnvEnd, complete bool, err error)
	ListSeries(ctx context.Context, run model.RunID, f store.SeriesFilter) (page []store.Series, more bool, err error)
	Curve(ctx context.Context, r store.CurveRequest) (store.Series, error)
}

// Roster names the runs that the store keeps (a store.Engine).
type Roster = store.Roster

// Recorder is the catalog.
type Recorder = catalog.Recorder

// Authorizer says whether the caller that ctx carries has a right in a project.
type Authorizer interface {
	// Allow returns nil, or a model.Error with CodePermission or
	// CodeUnauthenticated.
	Allow(ctx context.Context, scope catalog.Scope, workspace, project string) error
}

// Publisher tells readers that a run has news. It must not block.
type Publisher interface {
	Publish(c model.RunChange)
}

// Config is what a user sets; a zero field takes its default.
type Config struct {
	Silence time.Duration // after which a writer counts as gone; default 10 minutes
	Trash   time.Duration // how long a deleted run can be restored; default 7 days
	// Runs that nobody writes to are deleted when their last sign of life is
	// RetentionAge ago, and the oldest ones while all points take more than
	// RetentionBytes; 0 keeps them.
	RetentionAge   time.Duration
	RetentionBytes int64
}

// Deps are the parts that the write path works with.
type Deps struct {
	Points  Points
	Updates Updates
	Shared  store.SharedLog // nil: no other server writes to the store
	Starts  Starts
	Roster  Roster // nil: the catalog is not compared with the store
	Names   Names  // nil: a fork without a step takes what its parent ever has
	Space   Space  // nil: no retention by size
	Blobs   Blobs  // nil: none are deleted
	Catalog Recorder
	Views   catalog.ViewKeeper
	// Artifacts is nil where there are none.
	Artifacts Artifacts
	Auth      Authorizer
	Live      Publisher
	Now       func() time.Time
	Log       *slog.Logger
}

// Service is the write path. It is safe for concurrent use.
type Service struct {
	cfg      Config
	deps     Deps
	runs     runTable
	releases releases
	seen     seen
	streams  streams
	counters counters
	compared comparison
	trash    sync.Mutex    // makes one of a run's place in the catalog and its state's mark
	moves    atomic.Uint64 // into the trash and out of it, under trash; they may have failed
}

// New makes the service. Call [Service.Recover] before the first Open, and
// [Service.Run] for the work in the background.
func New(cfg Config, deps Deps) *Service {
	if cfg.Silence <= 0 {
		cfg.Silence = 10 * time.Minute
	}
	if cfg.Trash <= 0 {
		cfg.Trash = 7 * 24 * time.Hour
	}
	return &Service{
		cfg: cfg, deps: deps,
		runs:     runTable{byID: map[model.RunID]*runState{}},
		releases: releases{open: map[uint64]uint64{}, log: deps.Updates},
		seen:     seen{at: map[model.WriterID]time.Time{}},
		streams:  streams{byWriter: map[model.WriterID]*Session{}},
	}
}

// counters count since the start.
type counters struct {
	batches, points, refused, dropped, failed       atomic.Uint64
	shared, ahead                                   atomic.Uint64
	aheadToldNs                                     atomic.Int64
	retiredAge, retiredSize, sweptBlobs, sweptBytes atomic.Uint64
}

// Stats counts since the start, for /metrics.
type Stats struct {
	Batches uint64 // taken
	Points  uint64 // stored
	Refused uint64 // points refused for good
	Dropped uint64 // points that clients reported as dropped
	Failed  uint64 // batches that were not taken: gaps, a full disk, faults
	Shared  uint64 // pairs of writers found to log one environment at the same time
	Ahead   uint64 // opens of writers that were acknowledged more than is here
	Streams int    // open now

	RetiredAge  uint64 // runs that retention deleted for their age
	RetiredSize uint64 // and for want of space
	SweptBlobs  uint64 // blobs that no run named
	SweptBytes  uint64
}

// Stats reads the counters.
func (s *Service) Stats() Stats {
	c := &s.counters
	return Stats{
		Batches: c.batches.Load(), Points: c.points.Load(), Refused: c.refused.Load(),
		Dropped: c.dropped.Load(), Failed: c.failed.Load(), Shared: c.shared.Load(), Ahead: c.ahead.Load(), Streams: s.streams.len(),
		RetiredAge: c.retiredAge.Load(), RetiredSize: c.retiredSize.Load(), SweptBlobs: c.sweptBlobs.Load(), SweptBytes: c.sweptBytes.Load(),
	}
}

// streams knows the newest session of every writer.
type streams struct {
	mu       sync.Mutex
	byWriter map[model.WriterID]*Session
}

// replace registers a session and ends the writer's older one.
func (t *streams) replace(s *Session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if old := t.byWriter[s.writer]; old != nil {
		close(old.ended)
	}
	t.byWriter[s.writer] = s
}

// remove reports whether s was still the newest.
func (t *streams) remove(s *Session) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byWriter[s.writer] != s {
		return false
	}
	delete(t.byWriter, s.writer)
	return true
}

// find is the newest session of a writer, nil without one.
func (t *streams) find(w model.WriterID) *Session {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byWriter[w]
}

func (t *streams) len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.byWriter)
}
