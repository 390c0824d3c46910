// Package query is the only read path: it selects, pages, aligns and
// down-samples what the store and the catalog hold, and knows no protocol.
//
// In: the run, series, axis and range that a caller names. Out: pages of runs,
// series and points, and buckets; httpapi and the native receiver turn them into
// JSON, Arrow or protobuf.
//
// What always holds: no answer before the caller's right in the run's project was
// checked; every answer is bounded in size and time; a cursor goes on where its
// page ended, without a point twice; no state is kept between requests.
//
// Start reading in points.go: find the run, check the right, find the series and
// its ancestors (fork.go), read a page of the store. buckets.go and series.go do
// the same for curves and lists, match.go filters names.
package query

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/store"
)

// Store is the part of a storage engine that query reads.
type Store interface {
	store.Reader
	store.Selector
	store.Starts
}

// Runs is the part of a catalog that query reads.
type Runs interface {
	catalog.Reader
	// Lookup is GetRun without the details.
	Lookup(ctx context.Context, id model.RunID) (*catalog.Run, error)
}

// Authorizer says whether the caller that ctx carries has a right in a project.
type Authorizer interface {
	// Allow returns nil, or a model.Error with CodePermission or
	// CodeUnauthenticated.
	Allow(ctx context.Context, scope Scope, workspace, project string) error
	// Reach is where the caller's key holds, each empty for everywhere. Allow still decides.
	Reach(ctx context.Context) (workspace, project string)
}

// Spools tells what still lies with the clients.
type Spools interface {
	// Spooled is known only while the writer has a stream.
	Spooled(writer model.WriterID) (points uint64, known bool)
}

// Scope is a right of a key: read, ingest or admin.
type Scope = catalog.Scope

// Limits bound what one request may cost. A zero field takes its default.
type Limits struct {
	Time     time.Duration // of one request; default 30 s
	Parallel int           // store reads at once inside one request; default the number of CPUs
	Page     int64         // bytes of texts and documents in an answer; default 8 MiB
	Points   int           // of a page; default MaxPoints
}

// The largest and the default sizes of answers.
const (
	DefaultRuns   = 100
	MaxRuns       = 1_000
	DefaultSeries = 1_000
	MaxSeries     = 10_000
	DefaultPoints = 10_000
	MaxPoints     = 1_000_000
	DefaultBucket = 1_000
	MaxBuckets    = 100_000
	MaxPreview    = 64
	MaxQueries    = 500 // of one BucketsMany
)

// Service answers reads. It is safe for concurrent use. Between requests it keeps nothing but
// the order of lists that are sorted by values at a step.
type Service struct {
	store  Store
	runs   Runs
	auth   Authorizer
	spools Spools
	limits Limits
	kept   keptSteps
}

// New makes a service.
func New(reader Store, runs Runs, auth Authorizer, spools Spools, limits Limits) *Service {
	if limits.Time <= 0 {
		limits.Time = 30 * time.Second
	}
	if limits.Parallel <= 0 {
		limits.Parallel = runtime.GOMAXPROCS(0)
	}
	if limits.Points <= 0 {
		limits.Points = MaxPoints
	}
	if limits.Page <= 0 {
		limits.Page = 8 << 20
	}
	return &Service{store: reader, runs: runs, auth: auth, spools: spools, limits: limits}
}

var errTooSlow = errors.New("the query's time is up")

// bounded gives a request its time limit; finish turns the end of that time
// into an error that says what to do.
func (s *Service) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, s.limits.Time, errTooSlow)
}

func (s *Service) finish(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(context.Cause(ctx), errTooSlow) {
		return model.Errorf(model.CodeTimeout, "the query took longer than %s", s.limits.Time).
			WithHint("ask for less: a smaller limit, fewer buckets, a narrower range or fewer series")
	}
	return err
}

// Allow fails unless the caller may read the project.
func (s *Service) Allow(ctx context.Context, workspace, project string) error {
	return s.auth.Allow(ctx, catalog.ScopeRead, workspace, project)
}

// AllowWrite fails unless the caller may write to the project.
func (s *Service) AllowWrite(ctx context.Context, workspace, project string) error {
	return s.auth.Allow(ctx, catalog.ScopeIngest, workspace, project)
}

// Rights are what the caller may do with a project.
func (s *Service) Rights(ctx context.Context, workspace, project string) []catalog.Scope {
	return slices.DeleteFunc([]catalog.Scope{catalog.ScopeRead, catalog.ScopeIngest, catalog.ScopeAdmin}, func(scope catalog.Scope) bool {
		return s.auth.Allow(ctx, scope, workspace, project) != nil
	})
}

// Locate finds a run by ULID or alias, in the trash too.
func (s *Service) Locate(ctx context.Context, id model.RunID) (*catalog.Run, error) {
	run, err := s.runs.Lookup(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("find run %s: %w", id, err)
	}
	return run, s.Allow(ctx, run.Workspace, run.Project)
}

// open finds a run that the caller may read and that is not in the trash.
func (s *Service) open(ctx context.Context, id model.RunID) (*catalog.Run, error) {
	run, err := s.Locate(ctx, id)
	if err != nil {
		return nil, err
	}
	if run.DeletedNs != 0 {
		return nil, model.Errorf(model.CodeRunDeleted, "run %s is in the trash since %s", run.ID, time.Unix(0, run.DeletedNs).UTC().Format(time.RFC3339)).
			WithHint("bring it back with `kymogram runs restore %s`", run.ID)
	}
	return run, nil
}

// pageSize checks a limit that the caller gave; 0 means the default.
func pageSize(limit, fallback, most int) (int, error) {
	switch {
	case limit == 0:
		return fallback, nil
	case limit < 1 || limit > most:
		return 0, model.Errorf(model.CodeInvalid, "limit is %d, it must be from 1 to %d", limit, most).
			WithHint("page with limit and cursor")
	}
	return limit, nil
}
