package main

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	contract "github.com/kymogram/kymogram/api"
	"github.com/kymogram/kymogram/chain"
	"github.com/kymogram/kymogram/docs"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/auth"
	"github.com/kymogram/kymogram/server/internal/blob"
	"github.com/kymogram/kymogram/server/internal/blob/dir"
	"github.com/kymogram/kymogram/server/internal/blob/s3"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/catalog/postgres"
	"github.com/kymogram/kymogram/server/internal/catalog/sqlite"
	"github.com/kymogram/kymogram/server/internal/config"
	"github.com/kymogram/kymogram/server/internal/data"
	"github.com/kymogram/kymogram/server/internal/discovery"
	"github.com/kymogram/kymogram/server/internal/gauges"
	"github.com/kymogram/kymogram/server/internal/health"
	"github.com/kymogram/kymogram/server/internal/httpapi"
	"github.com/kymogram/kymogram/server/internal/influxql"
	"github.com/kymogram/kymogram/server/internal/ingest"
	"github.com/kymogram/kymogram/server/internal/live"
	"github.com/kymogram/kymogram/server/internal/manual"
	"github.com/kymogram/kymogram/server/internal/network"
	"github.com/kymogram/kymogram/server/internal/promapi"
	"github.com/kymogram/kymogram/server/internal/psql"
	"github.com/kymogram/kymogram/server/internal/query"
	"github.com/kymogram/kymogram/server/internal/receiver/influx"
	"github.com/kymogram/kymogram/server/internal/receiver/native"
	"github.com/kymogram/kymogram/server/internal/receiver/otlp"
	"github.com/kymogram/kymogram/server/internal/receiver/promwrite"
	"github.com/kymogram/kymogram/server/internal/receiver/wandb"
	"github.com/kymogram/kymogram/server/internal/reserve"
	"github.com/kymogram/kymogram/server/internal/selfmetrics"
	"github.com/kymogram/kymogram/server/internal/server"
	"github.com/kymogram/kymogram/server/internal/share"
	"github.com/kymogram/kymogram/server/internal/statelog"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse"
	"github.com/kymogram/kymogram/server/internal/store/local"
	"github.com/kymogram/kymogram/server/internal/summary"
	"github.com/kymogram/kymogram/server/internal/weight"
	"github.com/kymogram/kymogram/web"
)

// node is the parts of a server, opened and wired.
type node struct {
	memory  config.Budget
	config  config.Config
	log     *slog.Logger
	closers []io.Closer // in the order of opening

	engine    store.Engine
	member    *clickhouse.Engine // the engine, where several servers may share it; else nil
	space     ingest.Space       // nil where the engine does not know what runs take
	catalog   catalogs
	file      *sqlite.DB   // the catalog in the data folder, nil where it is in a database
	shared    *postgres.DB // the catalog in a database, which other servers may have too; or nil
	blobs     blobs
	states    *statelog.Log
	subnets   *network.Subnets // nil without a chain
	keyring   *auth.Keyring
	links     *auth.Links
	ingest    *ingest.Service
	query     *query.Service
	live      *live.Hub
	summaries *summary.Keeper
	metrics   *selfmetrics.Metrics
	signer    *blob.Signer
	spare     *reserve.File
}

// openNode opens the data folder and recovers what a crash left.
func openNode(ctx context.Context, c config.Config, log *slog.Logger) (*node, error) {
	n := &node{config: c, log: log}
	if err := data.Claim(c.Data); err != nil {
		return nil, data.Explain(c.Data, err)
	}
	steps := []func(context.Context) error{n.openSpare, n.openStore, n.openCatalog, n.claimPoints, n.openBlobs, n.openStates, n.wire}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return nil, errors.Join(data.Explain(c.Data, err), n.close())
		}
	}
	return n, nil
}

// close closes in reverse order.
func (n *node) close() (err error) {
	for i := len(n.closers) - 1; i >= 0; i-- {
		err = errors.Join(err, n.closers[i].Close())
	}
	n.closers = nil
	return err
}

func (n *node) openStore(ctx context.Context) error {
	if err := n.boundMemory(); err != nil {
		return err
	}
	folder := data.Folder(n.config.Data)
	if n.config.Store != "" {
		return n.joinStore(ctx, folder)
	}
	if err := folder.StoreElsewhere(); err != nil {
		return err
	}
	engine, err := local.Open(ctx, local.Config{
		Dir: folder.Store(), Marks: folder.Marks(), SeriesPerRunLimit: int(n.config.Limits.SeriesPerRun), MemoryBytes: int(n.memory.Store), PageBytes: int(n.memory.Page),
		Now: time.Now, Logger: n.log,
	})
	if err != nil {
		return err
	}
	n.engine, n.space, n.closers = engine, engine, append(n.closers, engine)
	return folder.Live(n.log)
}

// boundMemory divides the memory that there is, and makes the program free it in time. A
// GOMEMLIMIT that the user set is the limit.
func (n *node) boundMemory() error {
	given := debug.SetMemoryLimit(-1)
	memory, err := n.config.Budget(os.DirFS("/"), given)
	if err != nil {
		return err
	}
	if n.memory = memory; memory.Limit > 0 && given == math.MaxInt64 {
		debug.SetMemoryLimit(memory.Heap)
	}
	n.log.Info("memory", "limit_mib", memory.Limit>>20, "store_mib", n.memory.Store>>20, "requests_mib", n.memory.Requests>>20)
	return nil
}

func (n *node) openSpare(context.Context) error {
	spare, err := reserve.Open(filepath.Join(n.config.Data, data.ReserveFile), n.log)
	if err != nil {
		return err
	}
	n.spare, n.closers = spare, append(n.closers, spare)
	return nil
}

// openCatalog takes in what a crash left in SQLite's log. On a full disk that has the
// spare's space: reads go on there.
func (n *node) openCatalog(ctx context.Context) error {
	if n.config.Catalog != "" {
		return n.openDatabase(ctx)
	}
	folder := data.Folder(n.config.Data)
	if err := folder.Elsewhere(); err != nil {
		return err
	}
	var db *sqlite.DB
	err := n.spare.Do(func() (err error) {
		db, err = sqlite.OpenWith(ctx, folder.Catalog(), sqlite.Options{Logger: n.log, Mark: folder.CatalogMark(), Cache: n.memory.Catalog})
		return data.Explain(n.config.Data, err)
	})
	if err != nil {
		return err
	}
	n.catalog, n.file, n.closers = db, db, append(n.closers, db)
	return nil
}

// catalogs is a back end of the catalog, and what a server needs of it besides.
type catalogs interface {
	catalog.Catalog
	statelog.Bin
	Probe(ctx context.Context) error
	Damaged() error
}

// openDatabase opens a catalog that is not in the data folder.
func (n *node) openDatabase(ctx context.Context) error {
	folder, place := data.Folder(n.config.Data), psql.Named(n.config.Catalog)
	known, err := folder.MayBeElsewhere(place)
	if err != nil {
		return err
	}
	secret, err := n.secret()
	if err != nil {
		return err
	}
	db, err := postgres.Open(ctx, n.config.Catalog, postgres.Options{Logger: n.log, Cache: n.memory.Catalog / 4, Owner: owner("a catalog", secret), Known: known})
	if err != nil {
		return err
	}
	n.catalog, n.shared, n.closers = db, db, append(n.closers, db)
	return folder.SetElsewhere(place)
}

// secret is that of the data folder, or of the store that several servers share.
func (n *node) secret() ([]byte, error) {
	if n.member != nil {
		return n.member.Secret(), nil
	}
	return blob.Secret(filepath.Join(n.config.Data, data.BlobKeyFile))
}

// owner names who has a data folder's secret, also a restored one, to others.
func owner(of string, secret []byte) string {
	sum := sha256.Sum256(append([]byte("the owner of "+of+"\n"), secret...))
	return hex.EncodeToString(sum[:16])
}

// blobs is a back end of blobs, and what a server needs of it besides.
type blobs interface {
	blob.Store
	ingest.Blobs
	Damaged() uint64
	io.Closer
}

// blobStore is the bucket of the configuration, or the data folder.
func (n *node) blobStore(ctx context.Context, secret []byte) (blobs, error) {
	folder := filepath.Join(n.config.Data, data.BlobFolder)
	if n.config.Blob == "" {
		if err := n.claimFiles(ctx, ""); err != nil {
			return nil, err
		}
		return dir.OpenWith(folder, n.log)
	}
	place, err := s3.Parse(n.config.Blob)
	if err != nil {
		return nil, err
	}
	errThere := errors.New("a file")
	if err := dir.List(ctx, folder, func(dir.Entry) error { return errThere }); errors.Is(err, errThere) {
		return nil, model.Errorf(model.CodeInvalid, "%s holds files, which a server with the bucket %s would not find", folder, place.Bucket).
			WithHint("copy them to s3://%s/%sblobs and move the folder away, or serve without --blob", place.Bucket, place.Prefix)
	} else if err != nil {
		return nil, err
	}
	if err := n.claimFiles(ctx, "s3://"+place.Bucket+"/"+place.Prefix); err != nil {
		return nil, err
	}
	bucket, err := s3.Open(ctx, place, filepath.Join(folder, "tmp"), owner("a bucket", secret))
	if err == nil && n.member != nil {
		bucket.Guarded(n.member.Guard())
	}
	return bucket, err
}

func (n *node) openBlobs(ctx context.Context) error {
	secret, err := n.secret()
	if err != nil {
		return err
	}
	files, err := n.blobStore(ctx, secret)
	if err != nil {
		return err
	}
	n.blobs, n.closers = files, append(n.closers, files)
	n.signer, err = blob.NewSigner(secret, time.Now)
	return err
}

func (n *node) openStates(ctx context.Context) error {
	states, err := n.stateLog(ctx)
	if err != nil {
		return err
	}
	states.Heed(n.catalog)
	n.states, n.closers = states, append(n.closers, states)
	return nil
}

// stateLog is where signed records are: in the data folder, or with what servers share.
func (n *node) stateLog(ctx context.Context) (*statelog.Log, error) {
	if n.member == nil {
		folder := data.Folder(n.config.Data)
		return statelog.OpenWith(ctx, folder.States(), folder.StateMark(), time.Now, n.log)
	}
	states, err := statelog.OpenShared(ctx, n.config.Catalog, time.Now, n.log)
	if err == nil {
		states.Tell(n.shared.PublishRecords)
	}
	return states, err
}

// wire connects the parts and brings the catalog up to the store's log.
func (n *node) wire(ctx context.Context) error {
	n.keyring = auth.New(reserve.Keys{Keys: n.catalog, File: n.spare}, time.Now, n.config.NoAuth)
	n.links = auth.NewLinks(time.Now)
	n.live = live.New(totals{n}, live.Options{Log: n.log})
	n.summaries = summary.NewKeeper(n.engine, n.catalog, time.Now, n.log)
	if n.member != nil {
		n.summaries.Shared()
	}
	n.ingest = ingest.New(ingest.Config{Trash: n.config.Trash, RetentionAge: n.config.Retention.Age, RetentionBytes: n.config.Retention.Bytes}, ingest.Deps{
		Points: n.engine, Updates: n.engine, Starts: n.engine, Roster: n.engine, Shared: n.sharedLog(), Space: n.space, Blobs: n.blobs, Catalog: n.catalog, Views: n.catalog, Artifacts: n.catalog, Names: n.catalog,
		Auth: n.keyring, Live: news{n.live, n.summaries, n.shared}, Now: time.Now, Log: n.log,
	})
	n.query = query.New(n.engine, n.catalog, n.keyring, n.ingest, query.Limits{Page: n.memory.Page / 2, Points: query.RowsIn(n.memory.Read())})
	n.metrics = selfmetrics.New(version)
	if err := n.metrics.Gauges(n.gauges); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	return n.ingest.Recover(ctx)
}

// news goes to readers, here and at other servers, and to what is kept of runs for their lists.
type news struct {
	live      *live.Hub
	summaries *summary.Keeper
	shared    *postgres.DB
}

func (n news) Publish(c model.RunChange) {
	n.live.Publish(c)
	n.summaries.Publish(c)
	if n.shared != nil {
		n.shared.Publish(c)
	}
}

// totals tells live where a run stands.
type totals struct{ *node }

func (t totals) Totals(ctx context.Context, id model.RunID) (live.Summary, error) {
	run, err := t.catalog.Lookup(ctx, id)
	if err != nil {
		return live.Summary{}, err
	}
	stats, err := t.engine.RunStats(ctx, id)
	if err != nil && model.CodeOf(err) != model.CodeNotFound {
		return live.Summary{}, err
	}
	return live.Summary{Points: stats.Stored, Series: stats.Series, LastNs: run.LastNs, Status: run.Status}, nil
}

// mount builds the server around the parts.
func (n *node) mount(listeners *server.Listeners, secure *tls.Config) (*server.Server, error) {
	page, err := web.Dist()
	if err != nil {
		return nil, fmt.Errorf("open the page: %w", err)
	}
	blobs := blob.NewHandler(n.blobs, n.signer, n.config.Limits.BlobMiB<<20, n.query.MayReadBlob, n.fail)
	options := httpapi.Options{Memory: n.memory.Reads, Page: n.memory.Page, Files: blobs, Waits: server.Waits(int(n.config.Limits.Connections)), Log: n.log}
	if n.config.State.Log {
		tree, err := n.states.OpenTree(context.Background(), filepath.Join(n.config.Data, data.LogKeyFile))
		if err != nil {
			return nil, err
		}
		options.Tree = tree
	}
	if c := n.config.Chain; len(c.Endpoints) > 0 { // a server without a chain is a valid one
		s, err := chain.Dial(chain.Config{Endpoints: c.Endpoints, Log: n.log})
		if err != nil {
			return nil, err
		}
		options.Discovery = discovery.New(s.List, c.AllowPrivate, time.Now)
		n.subnets = network.NewSubnets(s, c.AllowPrivate, time.Now)
	}
	options.States, options.Networks = n.states, network.New(n.states, n.catalog, n.subnets, time.Now)
	api := httpapi.New(n.query, n.ingest, n.live, options)
	if err := n.metrics.Gauges(func() []selfmetrics.Gauge { return gauges.Answers(api.Stats()) }); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	definitions := native.NewDefinitions(n.memory.Definitions)
	rpc := native.New(n.ingest, n.query, native.Options{RunDocument: httpapi.RunDocument, Reserve: api.Reserve, Definitions: definitions, Log: n.log})
	receivers, telemetry, err := n.receivers()
	if err != nil {
		return nil, err
	}
	receivers = append(receivers, n.languages(api))
	blobPath := func(h blob.Hash) string { return "/api/v1/blobs/" + h.String() }
	srv, err := server.New(listeners, server.Parts{
		Keyring: n.keyring, Links: n.links, Metrics: n.metrics, API: api.Routes(), Page: page, Manual: manual.New(docs.Files, contract.Files),
		Blobs: blobs, BlobUpload: blobs.Upload(), BlobURL: blobs.URL(blobPath, server.WriteJSON),
		Receivers: receivers, RPC: func(to grpc.ServiceRegistrar) { rpc.Register(to); telemetry(to) }, Ready: n.health().Check,
	}, server.Options{
		TLS: secure, Hosts: server.KnownHosts(n.config.Hosts), MaxBody: n.config.Limits.BodyMiB << 20, Memory: n.memory,
		Connections: int(n.config.Limits.Connections), ConnectionsEach: int(n.config.Limits.ConnectionsPerAddress),
		Version: version, Policy: server.DefaultPolicy(), Now: time.Now, Log: n.log,
	})
	if err != nil {
		return nil, err
	}
	return srv, n.metrics.Gauges(func() []selfmetrics.Gauge {
		return slices.Concat(gauges.Shared(srv.Shared()), gauges.Definitions(definitions.Stats()))
	})
}

// receivers take other systems' protocols; rpc registers the part of them that is gRPC.
func (n *node) receivers() (routes []map[string]http.Handler, rpc func(grpc.ServiceRegistrar), err error) {
	c, most := n.config, n.config.Limits.BodyMiB<<20
	work := share.NewWide("memory for points", n.memory.Requests, weight.Times*most, 0)
	rules := influx.Config{Workspace: c.Influx.Workspace, Runs: c.Influx.Runs, Axes: c.Influx.Axes, Attributes: c.Influx.Attributes}
	lines, err := influx.New(n.ingest.Foreign("influx"), rules,
		influx.Options{MaxBody: most, Work: work, Now: time.Now, Log: n.log, Version: version, Ready: n.health().Check, Projects: n.projects})
	if err != nil {
		return nil, nil, err
	}
	writes := promwrite.New(n.ingest.Foreign("promwrite"), promwrite.Config{Workspace: c.Promwrite.Workspace, Project: c.Promwrite.Project},
		promwrite.Options{MaxBody: most, Work: work, Log: n.log})
	exports, err := otlp.New(n.ingest.Foreign("otlp"), otlp.Config{Workspace: c.OTLP.Workspace, Project: c.OTLP.Project, Runs: c.OTLP.Runs},
		otlp.Options{MaxBody: most, Work: work, Now: time.Now, Log: n.log})
	if err != nil {
		return nil, nil, err
	}
	if err := n.metrics.Gauges(func() []selfmetrics.Gauge {
		return append(gauges.Unplaced(writes.Totals(), exports.Totals()), gauges.Points(work.Stats())...)
	}); err != nil {
		return nil, nil, fmt.Errorf("register metrics: %w", err)
	}
	runs := wandb.New(n.ingest, n.query, wandb.Options{
		MaxBody: most, MaxFile: c.Limits.BlobMiB << 20, Work: work, Blobs: n.blobs, Signer: n.signer, Now: time.Now, Log: n.log,
	})
	return []map[string]http.Handler{lines.Handlers(), writes.Handlers(), exports.Handlers(), runs.Handlers()}, exports.Register, nil
}

// languages answer other systems' queries.
func (n *node) languages(api *httpapi.API) map[string]http.Handler {
	reserve := func(ctx context.Context, bytes int64) (func(), error) {
		release, _, err := api.Reserve(ctx, bytes)
		return release, err
	}
	routes := influxql.New(n.query, influxql.Options{
		Workspace: n.config.Influx.Workspace, Memory: n.memory.Read(), Now: time.Now, Version: version, Log: n.log, Reserve: reserve,
	}).Handlers()
	maps.Copy(routes, promapi.New(n.query, promapi.Options{Memory: n.memory.Read(), Reserve: reserve, Now: time.Now, Version: version, Log: n.log}).Handlers())
	for pattern, route := range routes {
		routes[pattern] = api.Moves(route)
	}
	return routes
}

// projects lists what there is to write to.
func (n *node) projects(ctx context.Context, cursor string) (places []ingest.Place, next string, err error) {
	page, next, err := n.catalog.ListProjects(ctx, query.MaxRuns, cursor)
	for _, p := range page {
		places = append(places, ingest.Place{Workspace: p.Workspace, Project: p.Name})
	}
	return places, next, err
}

// health is asked whether points can be taken.
func (n *node) health() *health.Health {
	parts := health.Parts{Folder: n.config.Data, Store: n.engine, Catalog: n.catalog, Log: n.log}
	if n.member != nil {
		parts.Points = n.member.Probe
	}
	return health.New(parts)
}

func (n *node) fail(w http.ResponseWriter, r *http.Request, err error) { server.Fail(w, r, n.log, err) }

// run works until ctx ends: the server stops first, then the background.
func (n *node) run(ctx context.Context, srv *server.Server) error {
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	group, working := errgroup.WithContext(background)
	group.Go(func() error { return n.engine.Run(working) })
	if n.file != nil {
		group.Go(func() error { return n.file.Run(working) })
	}
	if n.shared != nil {
		group.Go(func() error { return n.shared.Follow(working, n.hear) })
	}
	group.Go(func() error { return n.ingest.Run(working) })
	group.Go(func() error { return n.spare.Run(working) })
	group.Go(func() error { return n.live.Run(working) })
	group.Go(func() error { return n.summaries.Run(working) })
	if n.subnets != nil {
		group.Go(func() error { return n.subnets.Run(working) })
	}
	group.Go(func() error {
		defer stop()
		serving, end := context.WithCancel(ctx)
		defer end()
		defer context.AfterFunc(working, end)()
		defer context.AfterFunc(serving, func() { n.log.Info("stopping") })()
		return srv.Run(serving)
	})
	return group.Wait()
}

// gauges are what the parts know of themselves.
func (n *node) gauges() []selfmetrics.Gauge {
	recovered, err := n.catalog.Nameless(context.Background())
	if err != nil {
		n.log.Warn("cannot count the recovered runs", "err", err)
	}
	var file sqlite.Health
	var mirror int64
	if n.file != nil {
		file, mirror = n.file.Health(), n.file.MirrorBytes()
	}
	stats := n.engine.Stats()
	live := stats.DiskBytes
	if n.space != nil {
		live = n.space.LiveBytes()
	}
	all := slices.Concat(
		gauges.Reserve(n.spare.Stats()),
		gauges.Store(stats, live),
		gauges.Catalog(file, n.catalog.Damaged() != nil, mirror, recovered),
		gauges.Ingest(n.ingest.Stats()),
		gauges.Files(n.blobs.Damaged()),
	)
	all = append(all, n.logGauges()...)
	all = append(all, gauges.States(n.states.Stats(), n.states.Health(), n.states.Broken() != nil)...)
	return append(all, n.sharedGauges()...)
}

// sharedGauges are what is known of the parts that several servers may share.
func (n *node) sharedGauges() (all []selfmetrics.Gauge) {
	if n.member != nil {
		all = append(all, gauges.Cluster(n.member.Work())...)
	}
	if n.shared != nil {
		all = append(all, gauges.Database(n.shared.Stats())...)
	}
	if bucket, is := n.blobs.(*s3.Store); is {
		all = append(all, gauges.Bucket(bucket.Requests())...)
	}
	return all
}
