package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kymogram/kymogram/chain"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/auth"
	"github.com/kymogram/kymogram/server/internal/blob"
	"github.com/kymogram/kymogram/server/internal/blob/dir"
	"github.com/kymogram/kymogram/server/internal/catalog/sqlite"
	"github.com/kymogram/kymogram/server/internal/config"
	"github.com/kymogram/kymogram/server/internal/data"
	"github.com/kymogram/kymogram/server/internal/discovery"
	"github.com/kymogram/kymogram/server/internal/doctor"
	"github.com/kymogram/kymogram/server/internal/httpapi"
	"github.com/kymogram/kymogram/server/internal/ingest"
	"github.com/kymogram/kymogram/server/internal/live"
	"github.com/kymogram/kymogram/server/internal/network"
	"github.com/kymogram/kymogram/server/internal/query"
	"github.com/kymogram/kymogram/server/internal/receiver/influx"
	"github.com/kymogram/kymogram/server/internal/receiver/native"
	"github.com/kymogram/kymogram/server/internal/receiver/promwrite"
	"github.com/kymogram/kymogram/server/internal/reserve"
	"github.com/kymogram/kymogram/server/internal/selfmetrics"
	"github.com/kymogram/kymogram/server/internal/server"
	"github.com/kymogram/kymogram/server/internal/statelog"
	"github.com/kymogram/kymogram/server/internal/store/local"
	"github.com/kymogram/kymogram/web"
)

// node is the parts of a server, opened and wired.
type node struct {
	memory  int64 // that the process may take; 0: not known
	config  config.Config
	log     *slog.Logger
	closers []io.Closer // in the order of opening

	engine  *local.Engine
	catalog *sqlite.DB
	blobs   *dir.Store
	states  *statelog.Log
	subnets *network.Subnets // nil without a chain
	keyring *auth.Keyring
	links   *auth.Links
	ingest  *ingest.Service
	query   *query.Service
	live    *live.Hub
	metrics *selfmetrics.Metrics
	signer  *blob.Signer
	spare   *reserve.File
}

// openNode opens the data folder and recovers what a crash left.
func openNode(ctx context.Context, c config.Config, log *slog.Logger) (*node, error) {
	n := &node{config: c, log: log}
	if err := data.Claim(c.Data); err != nil {
		return nil, data.Explain(c.Data, err)
	}
	steps := []func(context.Context) error{n.openStore, n.openCatalog, n.openBlobs, n.openStates, n.wire}
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
	folder := data.Folder(n.config.Data)
	engine, err := local.Open(ctx, local.Config{
		Dir: folder.Store(), Marks: folder.Marks(), SeriesPerRunLimit: int(n.config.Limits.SeriesPerRun), MemoryBytes: n.boundMemory(),
		Now: time.Now, Logger: n.log,
	})
	if err != nil {
		return err
	}
	n.engine, n.closers = engine, append(n.closers, engine)
	return nil
}

// boundMemory makes the program free memory in time, and returns what the store may
// hold. A GOMEMLIMIT that the user set is the limit.
func (n *node) boundMemory() int {
	limit := n.config.Memory.Bytes(os.DirFS("/"))
	if given := debug.SetMemoryLimit(-1); given < math.MaxInt64 {
		limit = given
	} else if limit > 0 {
		debug.SetMemoryLimit(limit)
	}
	n.memory = limit
	store := config.StoreBytes(limit)
	n.log.Info("memory", "limit_mib", limit>>20, "store_mib", store>>20)
	return store
}

func (n *node) openCatalog(ctx context.Context) error {
	folder := data.Folder(n.config.Data)
	db, err := sqlite.OpenWith(ctx, folder.Catalog(), sqlite.Options{Logger: n.log, Mark: folder.CatalogMark()})
	if err != nil {
		return err
	}
	n.catalog, n.closers = db, append(n.closers, db)
	return nil
}

func (n *node) openBlobs(context.Context) error {
	store, err := dir.Open(filepath.Join(n.config.Data, data.BlobFolder))
	if err != nil {
		return err
	}
	n.blobs, n.closers = store, append(n.closers, store)
	secret, err := blob.Secret(filepath.Join(n.config.Data, data.BlobKeyFile))
	if err != nil {
		return err
	}
	n.signer, err = blob.NewSigner(secret, time.Now)
	return err
}

func (n *node) openStates(ctx context.Context) error {
	states, err := statelog.OpenWith(ctx, filepath.Join(n.config.Data, data.StateFile), time.Now, n.log)
	if err != nil {
		return err
	}
	states.Heed(n.catalog)
	n.states, n.closers = states, append(n.closers, states)
	return nil
}

// wire connects the parts and brings the catalog up to the store's log.
func (n *node) wire(ctx context.Context) error {
	spare, err := reserve.Open(filepath.Join(n.config.Data, data.ReserveFile), n.log)
	if err != nil {
		return err
	}
	n.spare, n.closers = spare, append(n.closers, spare)
	n.keyring = auth.New(reserve.Keys{Keys: n.catalog, File: spare}, time.Now, n.config.NoAuth)
	n.links = auth.NewLinks(time.Now)
	n.live = live.New(totals{n}, live.Options{Log: n.log})
	n.ingest = ingest.New(ingest.Config{Trash: n.config.Trash, RetentionAge: n.config.Retention.Age, RetentionBytes: n.config.Retention.Bytes}, ingest.Deps{
		Points: n.engine, Updates: n.engine, Starts: n.engine, Roster: n.engine, Space: n.engine, Blobs: n.blobs, Catalog: n.catalog, Names: n.catalog,
		Auth: n.keyring, Live: n.live, Now: time.Now, Log: n.log,
	})
	n.query = query.New(n.engine, n.catalog, n.keyring, n.ingest, query.Limits{})
	n.metrics = selfmetrics.New(version)
	if err := n.metrics.Gauges(n.gauges); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	return n.ingest.Recover(ctx)
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
	options := httpapi.Options{Files: blobs, States: n.states, Waits: server.Waits(int(n.config.Limits.Connections)), Log: n.log}
	if n.config.State.Log {
		key, err := statelog.SigningKey(filepath.Join(n.config.Data, data.LogKeyFile))
		if err != nil {
			return nil, err
		}
		options.Tree = n.states.Tree(key)
	}
	if c := n.config.Chain; len(c.Endpoints) > 0 { // a server without a chain is a valid one
		s, err := chain.Dial(chain.Config{Endpoints: c.Endpoints, Log: n.log})
		if err != nil {
			return nil, err
		}
		options.Discovery = discovery.New(s.List, c.AllowPrivate, time.Now)
		n.subnets = network.NewSubnets(s, c.AllowPrivate, time.Now)
	}
	options.Networks = network.New(n.states, n.catalog, n.subnets, time.Now)
	api := httpapi.New(n.query, n.ingest, n.live, options)
	if err := n.metrics.Gauges(func() []selfmetrics.Gauge { return answers(api.Stats()) }); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	rpc := native.New(n.ingest, n.query, native.Options{RunDocument: httpapi.RunDocument, Reserve: api.Reserve, Log: n.log})
	receivers, err := n.receivers()
	if err != nil {
		return nil, err
	}
	blobPath := func(h blob.Hash) string { return "/api/v1/blobs/" + h.String() }
	srv, err := server.New(listeners, server.Parts{
		Keyring: n.keyring, Links: n.links, Metrics: n.metrics, API: api.Routes(), Page: page,
		Blobs: blobs, BlobUpload: blobs.Upload(), BlobURL: blobs.URL(blobPath, server.WriteJSON),
		Receivers: receivers, RPC: rpc.Register, Ready: newHealth(n).check,
	}, server.Options{
		TLS: secure, Hosts: server.KnownHosts(n.config.Hosts), MaxBody: n.config.Limits.BodyMiB << 20, Memory: n.memory,
		Connections: int(n.config.Limits.Connections), ConnectionsEach: int(n.config.Limits.ConnectionsPerAddress),
		Version: version, Policy: server.DefaultPolicy(), Now: time.Now, Log: n.log,
	})
	if err != nil {
		return nil, err
	}
	return srv, n.metrics.Gauges(func() []selfmetrics.Gauge { return shared(srv.Shared()) })
}

// answers is what reads share.
func answers(s httpapi.Stats) []selfmetrics.Gauge {
	return []selfmetrics.Gauge{
		selfmetrics.NewGauge("kymogram_answer_rows", "Rows and buckets that answers in the making hold.", float64(s.Rows)),
		selfmetrics.NewGauge("kymogram_answer_waiting_requests", "Reads that wait for their share of rows.", float64(s.Waiting)),
		selfmetrics.NewGauge("kymogram_event_streams", "Event streams and waiting requests open now.", float64(s.Waits)),
		selfmetrics.NewCounter("kymogram_event_streams_refused_total", "Event streams and waiting requests refused with busy: there were too many.", float64(s.RefusedWaits)),
		selfmetrics.NewCounter("kymogram_answer_refused_total", "Reads refused with busy: they got no share of rows in time.", float64(s.Refused)),
		selfmetrics.NewCounter("kymogram_answer_stalled_total", "Answers cut off because their client read nothing for 5 s.", float64(s.Stalled)),
	}
}

// shared is what connections and requests share.
func shared(s server.Shared) []selfmetrics.Gauge {
	return []selfmetrics.Gauge{
		selfmetrics.NewGauge("kymogram_connections", "Connections open now.", float64(s.Connections)),
		selfmetrics.NewGauge("kymogram_connections_max", "Connections that there may be.", float64(s.MostConnections)),
		selfmetrics.NewCounter("kymogram_connections_refused_total", "Connections refused: too many in all or of their address.", float64(s.RefusedConnections)),
		selfmetrics.NewGauge("kymogram_request_bytes", "Memory that is set aside for requests that are worked on.", float64(s.Requests.Used)),
		selfmetrics.NewGauge("kymogram_request_waiting", "Requests and messages that wait for that memory.", float64(s.Requests.Waiting)),
		selfmetrics.NewGauge("kymogram_request_waiting_bytes", "Memory that they wait for.", float64(s.Requests.WaitingFor)),
		selfmetrics.NewCounter("kymogram_request_refused_total", "Requests and messages refused with busy: they got no memory in time.", float64(s.Requests.Refused)),
		selfmetrics.NewGauge("kymogram_message_bytes", "Memory that is set aside for gRPC messages which are being received.", float64(s.Messages.Used)),
		selfmetrics.NewCounter("kymogram_message_refused_total", "gRPC messages refused with busy: they got no memory in time.", float64(s.Messages.Refused)),
		selfmetrics.NewGauge("kymogram_calls", "gRPC calls that go on now.", float64(s.Calls.Used)),
		selfmetrics.NewCounter("kymogram_calls_refused_total", "gRPC calls refused with busy: there were too many.", float64(s.Calls.Refused)),
		selfmetrics.NewGauge("kymogram_files", "Files that are sent or fetched now.", float64(s.Files.Used)),
		selfmetrics.NewCounter("kymogram_files_refused_total", "Files refused with busy: too many were sent or fetched.", float64(s.Files.Refused)),
		selfmetrics.NewGauge("kymogram_call_answer_bytes", "Memory of large gRPC answers that their clients have not read yet.", float64(s.Answers.Used)),
		selfmetrics.NewCounter("kymogram_call_answer_refused_total", "gRPC answers refused with busy: they got no memory in time.", float64(s.Answers.Refused)),
		selfmetrics.NewCounter("kymogram_calls_stalled_total", "gRPC calls cut off because their client read nothing of the answer for 5 s.", float64(s.StalledCalls)),
	}
}

// receivers take other systems' protocols.
func (n *node) receivers() ([]map[string]http.Handler, error) {
	c, most := n.config, n.config.Limits.BodyMiB<<20
	lines, err := influx.New(n.ingest.Foreign("influx"), influx.Config{Workspace: c.Influx.Workspace, Runs: c.Influx.Runs, Axes: c.Influx.Axes},
		influx.Options{MaxBody: most, Now: time.Now, Log: n.log})
	if err != nil {
		return nil, err
	}
	writes := promwrite.New(n.ingest.Foreign("promwrite"), promwrite.Config{Workspace: c.Promwrite.Workspace, Project: c.Promwrite.Project},
		promwrite.Options{MaxBody: most, Log: n.log})
	if err := n.metrics.Gauges(func() []selfmetrics.Gauge { return unplaced(writes.Totals()) }); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	return []map[string]http.Handler{lines.Handlers(), writes.Handlers()}, nil
}

// unplaced is what remote writes held besides points.
func unplaced(t promwrite.Totals) []selfmetrics.Gauge {
	counter := func(kind string, v uint64) selfmetrics.Gauge {
		return selfmetrics.NewCounter("kymogram_promwrite_unplaced_"+kind+"_total", "Of remote writes: "+kind+" that have no place here.", float64(v))
	}
	return []selfmetrics.Gauge{counter("exemplars", t.Exemplars), counter("metadata", t.Metadata), counter("histograms", t.Histograms)}
}

func (n *node) fail(w http.ResponseWriter, r *http.Request, err error) { server.Fail(w, r, n.log, err) }

// run works until ctx ends: the server stops first, then the background.
func (n *node) run(ctx context.Context, srv *server.Server) error {
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	group, working := errgroup.WithContext(background)
	group.Go(func() error { return n.engine.Run(working) })
	group.Go(func() error { return n.catalog.Run(working) })
	group.Go(func() error { return n.ingest.Run(working) })
	group.Go(func() error { return n.spare.Run(working) })
	group.Go(func() error { return n.live.Run(working) })
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

// shareKey makes the admin key on the first start and puts it where this user's
// clients look.
func (n *node) shareKey(ctx context.Context, srv *server.Server, io stdio) error {
	if n.config.NoAuth {
		return nil
	}
	secret, err := n.keyring.Bootstrap(ctx, n.config.Data, n.config.AdminKey)
	if err != nil || secret == "" {
		return err
	}
	path := auth.CredentialsPath(io.env)
	if path == "" {
		n.log.Warn("no folder for credentials: HOME and XDG_CONFIG_HOME are not set")
		return nil
	}
	if err := auth.SaveCredentials(path, secret, addresses(srv.Address())...); err != nil {
		n.log.Warn("clients will not find the admin key by themselves", "err", err, "key", filepath.Join(n.config.Data, auth.AdminKeyFile))
	}
	return nil
}

// addresses are the ways in which this user's clients may write one address.
func addresses(page string) []string {
	out := []string{page}
	scheme, bound, _ := strings.Cut(page, "://")
	host, port, err := net.SplitHostPort(bound)
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsLoopback() {
		out = append(out, scheme+"://"+net.JoinHostPort("localhost", port))
	}
	return out
}

// gauges are what the engine and the write path know of themselves.
func (n *node) gauges() []selfmetrics.Gauge {
	e, w, h, r, s := n.engine.Stats(), n.ingest.Stats(), n.catalog.Health(), n.states.Stats(), n.states.Health()
	recovered, err := n.catalog.Nameless(context.Background())
	if err != nil {
		n.log.Warn("cannot count the recovered runs", "err", err)
	}
	held, given := n.spare.Stats()
	return []selfmetrics.Gauge{
		selfmetrics.NewGauge("kymogram_reserve_bytes", "Bytes of the disk that are kept for revoking keys and signing in.", float64(held)),
		selfmetrics.NewCounter("kymogram_reserve_given_total", "Times that some of them were given up on a full disk.", float64(given)),
		selfmetrics.NewGauge("kymogram_store_runs", "Runs that the engine keeps.", float64(e.Runs)),
		selfmetrics.NewGauge("kymogram_store_series", "Series that the engine keeps.", float64(e.Series)),
		selfmetrics.NewGauge("kymogram_store_points", "Points that the engine keeps, superseded ones included.", float64(e.Points)),
		selfmetrics.NewGauge("kymogram_store_disk_bytes", "Bytes of the engine's folder.", float64(e.DiskBytes)),
		selfmetrics.NewGauge("kymogram_store_live_bytes", "Bytes of the points of runs that are not deleted: what retention.bytes limits.", float64(n.engine.LiveBytes())),
		selfmetrics.NewGauge("kymogram_store_memory_bytes", "Bytes of memory that the engine counts: points in no segment, and what is loaded of runs in use.", float64(e.MemoryBytes)),
		selfmetrics.NewCounter("kymogram_store_memory_refused_total", "Batches refused because memory is short; their clients send again.", float64(e.MemoryRefused)),
		selfmetrics.NewGauge("kymogram_store_wal_bytes", "Bytes of the engine's log.", float64(e.WALBytes)),
		selfmetrics.NewCounter("kymogram_store_quarantined_total", "Damaged files or ranges set aside since the start.", float64(e.Quarantined)),
		selfmetrics.NewCounter("kymogram_store_lost_records_total", "Batches in damaged ranges of the log, met at the start; ledgers tell of those from clients with sequences.", float64(e.LostRecords)),
		selfmetrics.NewGauge("kymogram_store_poisoned", "1 after a failed sync: restart.", number(e.Poisoned)),
		selfmetrics.NewGauge("kymogram_store_disk_full", "1 while writes are refused for want of space.", number(e.DiskFull)),
		selfmetrics.NewCounter("kymogram_catalog_repairs_total", "Times that the start made the catalog or its mirror anew, since one of them was damaged.", number(h.Rebuilt != "")+number(h.Renewed != "")),
		selfmetrics.NewCounter("kymogram_catalog_caught_up_total", "Changes that the start took from the catalog's mirror, since a crash or damage had kept them from the catalog.", float64(h.CaughtUp)),
		selfmetrics.NewGauge("kymogram_catalog_damaged", "1 after a damaged page of the catalog was met: restart, and it is repaired.", number(n.catalog.Damaged() != nil)),
		selfmetrics.NewGauge("kymogram_catalog_older", "1 when the start found the catalog and its mirror older than they were: later changes are gone, and keys revoked since may be valid again.", number(h.Older != "")),
		selfmetrics.NewGauge("kymogram_catalog_mirror_bytes", "Bytes of the catalog's mirror.", float64(n.catalog.MirrorBytes())),
		selfmetrics.NewGauge(doctor.RecoveredRuns, "Runs that the catalog had lost and that are still without their names.", float64(recovered)),
		selfmetrics.NewCounter("kymogram_ingest_batches_total", "Batches taken.", float64(w.Batches)),
		selfmetrics.NewCounter("kymogram_ingest_points_total", "Points stored.", float64(w.Points)),
		selfmetrics.NewCounter("kymogram_ingest_refused_points_total", "Points refused for good.", float64(w.Refused)),
		selfmetrics.NewCounter("kymogram_ingest_dropped_points_total", "Points that clients said they dropped.", float64(w.Dropped)),
		selfmetrics.NewCounter("kymogram_ingest_shared_environments_total", "Pairs of writers found to log one RL environment at the same time.", float64(w.Shared)),
		selfmetrics.NewCounter("kymogram_ingest_failed_batches_total", "Batches not taken; their clients send again.", float64(w.Failed)),
		selfmetrics.NewCounter("kymogram_retention_age_runs_total", "Runs deleted for their age (retention.age).", float64(w.RetiredAge)),
		selfmetrics.NewCounter("kymogram_retention_size_runs_total", "Runs deleted for want of space (retention.bytes).", float64(w.RetiredSize)),
		selfmetrics.NewCounter("kymogram_retention_blobs_total", "Files deleted that no run named any more.", float64(w.SweptBlobs)),
		selfmetrics.NewCounter("kymogram_retention_blob_bytes_total", "Bytes of those files.", float64(w.SweptBytes)),
		selfmetrics.NewCounter("kymogram_state_records_total", "Signed state records taken.", float64(r.Taken)),
		selfmetrics.NewCounter("kymogram_state_refused_total", "State records refused for good: signature, place, time or size.", float64(r.Refused)),
		selfmetrics.NewCounter("kymogram_state_conflicts_total", "State records that did not follow the newest one; their signers sign again.", float64(r.Conflicts)),
		selfmetrics.NewCounter("kymogram_state_forks_total", "State records with a sequence that was taken before, kept as evidence.", float64(r.Forks)),
		selfmetrics.NewCounter("kymogram_state_repairs_total", "Times that the start made the state records or their mirror anew, since one of them was damaged.", number(s.Rebuilt != "")+number(s.Renewed != "")),
		selfmetrics.NewCounter("kymogram_state_caught_up_total", "Changes that the start took from the mirror of the state records, since a crash or damage had kept them from the file.", float64(s.CaughtUp)),
		selfmetrics.NewGauge("kymogram_state_damaged", "1 while no state record can be read or taken: its file is damaged, and the log says what to do.", number(n.states.Broken() != nil)),
		selfmetrics.NewGauge("kymogram_ingest_streams", "Writers' streams open now.", float64(w.Streams)),
	}
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
