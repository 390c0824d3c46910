// Package httpapi is the JSON API: it turns requests into queries and their
// answers into JSON, CSV, Arrow or Parquet, and feeds the page's event stream.
//
// It reads through query and writes only through ingest. It neither
// authenticates nor listens: package server mounts its [Route] list behind its
// policy, and query and ingest ask who the caller is once they know the project.
// api/openapi.yaml is the contract; a test compares the two.
//
// Start reading at [API.Routes]. A read goes params.go (strict) → query → table.go
// (columns) → encode.go, csv.go or arrow.go; documents of runs are in rundoc.go.
package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/query"
	"github.com/kymogram/kymogram/server/internal/share"
)

// Ingest is the write path, implemented by package ingest. It authorises.
type Ingest interface {
	Runs
	Views
}

// Runs is the write path of runs.
type Runs interface {
	Open(ctx context.Context, r model.OpenRequest) (*model.OpenResult, error)
	// UpdateRun changes a run's names and tags.
	UpdateRun(ctx context.Context, run model.RunID, updates []model.Update) error
	// DeleteRun moves a run to the trash, or frees it now.
	DeleteRun(ctx context.Context, run model.RunID, now bool) error
	RestoreRun(ctx context.Context, run model.RunID) error
	// Writable finds a run that the caller may write to.
	Writable(ctx context.Context, run model.RunID) (*catalog.Run, error)
}

// Options are what code sets; a zero field takes its default.
type Options struct {
	// Memory bounds the bytes that all answers in the making hold together, a quarter
	// of them for one caller; small answers have an eighth more. A request waits for
	// its share. What is counted for it is in package query.
	Memory int64 // default 256 MiB
	// Page is what a page of texts or documents takes.
	Page int64 // default 16 MiB
	// Stall is how long a client may read nothing of an answer that holds memory.
	Stall time.Duration // default 5 s
	// Heartbeat is the time between signs of life on an event stream: a page tells after
	// two of them that the connection hangs. One takes 8 bytes.
	Heartbeat time.Duration // default 2 s
	// Waits is how many event streams and requests that wait for news there may be, a
	// quarter of them for one caller: each holds a connection.
	Waits     int64     // default 4,096
	Files     Files     // nil: renderings and files are listed and cannot be read
	Discovery Discovery // nil: the server knows no chain
	States    States
	Tree      TreeLog // nil: the server keeps no Merkle log
	Networks  Networks
	Log       *slog.Logger
}

// API holds the handlers.
type API struct {
	query   *query.Service
	ingest  Ingest
	live    Live
	options Options
	memory  *answers
	waits   *share.Pool // event streams, and requests that wait for news
	buffers sync.Pool   // of *[]byte, those of answers that have ended
	log     *slog.Logger
}

// New makes the API.
func New(q *query.Service, ingest Ingest, live Live, options Options) *API {
	if options.Memory <= 0 {
		options.Memory = 256 << 20
	}
	if options.Page <= 0 {
		options.Page = 16 << 20
	}
	if options.Stall <= 0 {
		options.Stall = 5 * time.Second
	}
	if options.Heartbeat <= 0 {
		options.Heartbeat = 2 * time.Second
	}
	if options.Waits <= 0 {
		options.Waits = mostWaits
	}
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	return &API{
		query: q, ingest: ingest, live: live, options: options, log: options.Log,
		memory: newAnswers(options.Memory, options.Page), waits: share.New("event streams and waiting requests", options.Waits, 0),
	}
}

// Route is one method and pattern of the API, for http.ServeMux.
type Route struct {
	Method, Pattern string
	Scope           query.Scope // the right that a caller needs in some project
	Stream          bool        // answers without end: no write deadline
	Handler         http.Handler
}

// Routes lists every route, for the server's policy and mux.
func (a *API) Routes() []Route {
	routes := []Route{
		a.route("POST", "/api/v1/open", "ingest", a.open),
		a.route("GET", "/api/v1/projects", "read", a.projects),
		a.route("GET", "/api/v1/projects/{workspace}/{project}/runs", "read", a.runs),
		a.route("GET", "/api/v1/projects/{workspace}/{project}/groups", "read", a.groups),
		a.route("POST", "/api/v1/edits", "ingest", a.edits),
		a.route("POST", "/api/v1/deletions", "admin", a.deletions),
		a.route("POST", "/api/v1/restorations", "admin", a.restorations),
		a.route("GET", "/api/v1/resolve", "read", a.resolve),
		a.route("GET", "/api/v1/runs/{id}", "read", a.run),
		a.route("PATCH", "/api/v1/runs/{id}", "ingest", a.patchRun),
		a.route("DELETE", "/api/v1/runs/{id}", "admin", a.deleteRun),
		a.route("POST", "/api/v1/runs/{id}/restore", "admin", a.restoreRun),
		a.route("GET", "/api/v1/runs/{id}/series", "read", a.series),
		a.route("GET", "/api/v1/runs/{id}/points", "read", a.points),
		a.route("GET", "/api/v1/runs/{id}/buckets", "read", a.buckets),
		a.route("POST", "/api/v1/buckets", "read", a.bucketsMany),
		a.route("POST", "/api/v1/overviews", "read", a.overviews),
		a.route("POST", "/api/v1/kymograph", "read", a.kymograph),
		a.route("GET", "/api/v1/runs/{id}/renderings", "read", a.renderings),
		a.route("POST", "/api/v1/runs/{id}/renderings", "ingest", a.addRendering),
		a.route("GET", "/api/v1/runs/{id}/files", "read", a.files),
		a.route("GET", "/sd/bittensor", "read", a.bittensor),
		a.route("GET", "/api/v1/runs/{id}/state", "read", a.state),
		a.route("POST", "/api/v1/runs/{id}/state", "ingest", a.putState),
		a.route("GET", "/api/v1/runs/{id}/state/history", "read", a.stateHistory),
		a.route("GET", "/api/v1/projects/{workspace}/{project}/log/head", "read", a.treeHead),
		a.route("GET", "/api/v1/projects/{workspace}/{project}/log/proof", "read", a.treeProof),
		a.route("GET", "/api/v1/projects/{workspace}/{project}/log/leaves", "read", a.treeLeaves),
		a.route("GET", "/api/v1/projects/{workspace}/{project}/log/consistency", "read", a.treeConsistency),
		a.route("POST", "/api/v1/projects/{workspace}/{project}/log/witness", "ingest", a.treeWitness),
		a.route("GET", "/api/v1/projects/{workspace}/{project}/views", "read", a.views),
		a.route("GET", "/api/v1/projects/{workspace}/{project}/views/{name}", "read", a.view),
		a.route("PUT", "/api/v1/projects/{workspace}/{project}/views/{name}", "ingest", a.putView),
		a.route("DELETE", "/api/v1/projects/{workspace}/{project}/views/{name}", "ingest", a.deleteView),
	}
	waits := a.route("GET", "/api/v1/projects/{workspace}/{project}/state", "read", a.states)
	waits.Stream = true // ended by a stop, so that none waits for it
	draws := a.route("GET", "/api/v1/projects/{workspace}/{project}/network", "read", a.network)
	draws.Stream = true
	routes = append(routes, waits, draws)
	wrap := compressor()
	for i := range routes {
		routes[i].Handler = a.moves(wrap(routes[i].Handler))
	}
	// Bytes with ranges: never compressed.
	routes = append(routes, a.route("GET", "/api/v1/runs/{id}/renderings/{rendering}/video", "read", a.video),
		a.route("GET", "/api/v1/runs/{id}/files/{name...}", "read", a.file))
	stream := a.route("GET", "/api/v1/live", "read", a.stream)
	stream.Stream = true // never compressed: an event leaves at once
	return append(routes, stream)
}

type handler func(w http.ResponseWriter, r *http.Request) error

func (a *API) route(method, pattern string, scope query.Scope, h handler) Route {
	return Route{Method: method, Pattern: pattern, Scope: scope, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store") // answers change and are for one key
		if err := h(w, r); err != nil {
			a.fail(w, r, err)
		}
	})}
}
