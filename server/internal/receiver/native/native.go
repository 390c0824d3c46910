// Package native serves Kymogram's own gRPC protocol (api/kymogram/v1): the
// ingest stream of a writer, runs, and reads by column.
//
// It turns protobuf into model.Batch for package ingest and answers of package
// query into protobuf, and nothing else. Who may call what is decided by the
// server's interceptors and, once the project is known, by ingest and query.
package native

import (
	"context"
	"log/slog"

	"google.golang.org/grpc"

	kymogramv1 "github.com/kymogram/kymogram/gen/kymogram/v1"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/ingest"
	"github.com/kymogram/kymogram/server/internal/query"
)

// Ingest is the write path (package ingest).
type Ingest interface {
	Join(ctx context.Context, r model.OpenRequest) (*ingest.Session, error)
	DeleteRun(ctx context.Context, id model.RunID, now bool) error
}

// Query is the read path (package query).
type Query interface {
	Runs(ctx context.Context, r query.RunsRequest) (*query.RunsPage, error)
	Run(ctx context.Context, id model.RunID, texts query.Admit) (*query.RunDetail, error)
	Series(ctx context.Context, r query.SeriesRequest) (*query.SeriesPage, error)
	Points(ctx context.Context, r query.PointsRequest) (*query.PointsPage, error)
	Buckets(ctx context.Context, r query.BucketsRequest) (*query.BucketsResult, error)
}

// Options are what code sets.
type Options struct {
	// RunDocument is the JSON document of GET /api/v1/runs/{id}; model.CodeTooLarge
	// where it has more than most bytes.
	RunDocument func(d *query.RunDetail, most int) ([]byte, error)
	// Reserve waits for the caller's share of the memory for answers; nil:
	// there is no limit. texts is for a page of texts or documents.
	Reserve func(ctx context.Context, bytes int64) (release func(), texts query.Admit, err error)
	// Definitions is the memory for the series definitions of all streams.
	Definitions *Definitions
	Log         *slog.Logger
}

// Receiver holds the three services.
type Receiver struct {
	ingest  Ingest
	query   Query
	options Options
}

// New makes the receiver.
func New(in Ingest, q Query, options Options) *Receiver {
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	if options.Reserve == nil {
		options.Reserve = func(context.Context, int64) (func(), query.Admit, error) { return func() {}, nil, nil }
	}
	if options.Definitions == nil {
		options.Definitions = NewDefinitions(definitionBytes)
	}
	return &Receiver{ingest: in, query: q, options: options}
}

// Register adds the services to a server.
func (r *Receiver) Register(to grpc.ServiceRegistrar) {
	kymogramv1.RegisterIngestServiceServer(to, &ingestService{Receiver: r})
	kymogramv1.RegisterRunServiceServer(to, &runService{Receiver: r})
	kymogramv1.RegisterQueryServiceServer(to, &queryService{Receiver: r})
}
