package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
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
	"github.com/kymogram/kymogram/server/internal/discovery"
	"github.com/kymogram/kymogram/server/internal/doctor"
	"github.com/kymogram/kymogram/server/internal/httpapi"
	"github.com/kymogram/kymogram/server/internal/ingest"
	"github.com/kymogram/kymogram/server/internal/live"
	"github.com/kymogram/kymogram/server/internal/query"
	"github.com/kymogram/kymogram/server/internal/receiver/influx"
	"github.com/kymogram/kymogram/server/internal/receiver/native"
	"github.com/kymogram/kymogram/server/internal/receiver/promwrite"
	"github.com/kymogram/kymogram/server/internal/selfmetrics"
	"github.com/kymogram/kymogram/server/internal/server"
	"github.com/kymogram/kymogram/server/internal/store/local"
	"github.com/kymogram/kymogram/web"
)

// The data folder. Its lock and version are the store's.
const (
	storeFolder = "store"
	blobFolder  = "blobs"
	catalogFile = "catalog.db"
	blobKeyFile = "blob.key"
)

// node is the parts of a server, opened and wired.
type node struct {
	config  config.Config
	log     *slog.Logger
	closers []io.Closer // in the order of opening

	engine  *local.Engine
	catalog *sqlite.DB
	blobs   *dir.Store
	keyring *auth.Keyring
	links   *auth.Links
	ingest  *ingest.Service
	query   *query.Service
	live    *live.Hub
	metrics *selfmetrics.Metrics
	signer  *blob.Signer
}

// openNode opens the data folder and recovers what a crash left.
func openNode(ctx context.Context, c config.Config, log *slog.Logger) (*node, error) {
	n := &node{config: c, log: log}
	steps := []func(context.Context) error{n.claimFolder, n.openStore, n.openCatalog, n.openBlobs, n.wire}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return nil, errors.Join(explainFault(c.Data, err), n.close())
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

// claimFolder makes the data folder and checks that it can be written.
func (n *node) claimFolder(context.Context) error {
	err := os.MkdirAll(n.config.Data, 0o700)
	if err == nil {
		err = probe(n.config.Data)
	}
	if err == nil {
		return nil
	}
	refused := model.Errorf(model.CodeInvalid, "cannot use the data folder %s: %v", n.config.Data, err)
	if errors.Is(err, fs.ErrPermission) {
		return refused.WithHint("give this user the folder (chown), or choose another with --data DIR")
	}
	return refused.WithHint("choose a folder on a writable disk with --data DIR")
}

// probe writes a file: permissions alone do not tell of read-only mounts.
func probe(folder string) error {
	f, err := os.CreateTemp(folder, ".probe-*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

func (n *node) openStore(ctx context.Context) error {
	engine, err := local.Open(ctx, local.Config{
		Dir: filepath.Join(n.config.Data, storeFolder), SeriesPerRunLimit: int(n.config.Limits.SeriesPerRun),
		Now: time.Now, Logger: n.log,
	})
	if err != nil {
		return err
	}
	n.engine, n.closers = engine, append(n.closers, engine)
	return nil
}

func (n *node) openCatalog(ctx context.Context) error {
	db, err := sqlite.Open(ctx, filepath.Join(n.config.Data, catalogFile))
	if err != nil {
		return err
	}
	n.catalog, n.closers = db, append(n.closers, db)
	return nil
}

func (n *node) openBlobs(context.Context) error {
	store, err := dir.Open(filepath.Join(n.config.Data, blobFolder))
	if err != nil {
		return err
	}
	n.blobs, n.closers = store, append(n.closers, store)
	secret, err := blobSecret(filepath.Join(n.config.Data, blobKeyFile))
	if err != nil {
		return err
	}
	n.signer, err = blob.NewSigner(secret, time.Now)
	return err
}

// blobSecret reads the secret of signed URLs; the first start makes it. A file
// that a crash cut short is made anew: URLs signed by it end.
func blobSecret(path string) ([]byte, error) {
	const size = 32
	secret, err := os.ReadFile(path)
	if err == nil && len(secret) == size {
		return secret, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the secret of blob URLs: %w", err)
	}
	secret = make([]byte, size)
	_, _ = rand.Read(secret) // never fails, see crypto/rand
	if err := os.WriteFile(path, secret, 0o600); err != nil {
		return nil, fmt.Errorf("write the secret of blob URLs: %w", err)
	}
	return secret, nil
}

// wire connects the parts and brings the catalog up to the store's log.
func (n *node) wire(ctx context.Context) error {
	n.keyring = auth.New(n.catalog, time.Now, n.config.NoAuth)
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
	rpc := native.New(n.ingest, n.query, native.Options{RunDocument: httpapi.RunDocument, Log: n.log})
	blobs := blob.NewHandler(n.blobs, n.signer, n.config.Limits.BlobMiB<<20, n.fail)
	options := httpapi.Options{Files: blobs, Log: n.log}
	if d, err := newDiscovery(n.config.Chain, n.log); err != nil {
		return nil, err
	} else if d != nil {
		options.Discovery = d
	}
	api := httpapi.New(n.query, n.ingest, n.live, options)
	receivers, err := n.receivers()
	if err != nil {
		return nil, err
	}
	blobPath := func(h blob.Hash) string { return "/api/v1/blobs/" + h.String() }
	return server.New(listeners, server.Parts{
		Keyring: n.keyring, Links: n.links, Metrics: n.metrics, API: api.Routes(), Page: page,
		Blobs: blobs, BlobUpload: blobs.Upload(), BlobURL: blobs.URL(blobPath, server.WriteJSON),
		Receivers: receivers, RPC: rpc.Register, Ready: n.ready,
	}, server.Options{
		TLS: secure, Hosts: knownHosts(n.config), MaxBody: n.config.Limits.BodyMiB << 20,
		Version: version, Policy: server.DefaultPolicy(), Now: time.Now, Log: n.log,
	})
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
		return selfmetrics.Gauge{Name: "kymogram_promwrite_unplaced_" + kind + "_total", Help: "Of remote writes: " + kind + " that have no place here.", Value: float64(v), Counter: true}
	}
	return []selfmetrics.Gauge{counter("exemplars", t.Exemplars), counter("metadata", t.Metadata), counter("histograms", t.Histograms)}
}

func (n *node) fail(w http.ResponseWriter, r *http.Request, err error) { server.Fail(w, r, n.log, err) }

// ready fails while points cannot be taken.
func (n *node) ready() error {
	stats := n.engine.Stats()
	switch {
	case stats.Poisoned:
		return model.Errorf(model.CodeUnavailable, "the store stopped after the disk failed a write").
			WithHint("check the disk and restart the server; what was acknowledged is safe")
	case stats.DiskFull:
		return model.Errorf(model.CodeDiskFull, "the disk is full; reads work").WithHint("free space; the server goes on by itself")
	}
	return nil
}

// run works until ctx ends: the server stops first, then the background.
func (n *node) run(ctx context.Context, srv *server.Server) error {
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	group, working := errgroup.WithContext(background)
	group.Go(func() error { return n.engine.Run(working) })
	group.Go(func() error { return n.ingest.Run(working) })
	group.Go(func() error { return n.live.Run(working) })
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
	e, w := n.engine.Stats(), n.ingest.Stats()
	recovered, err := n.catalog.Nameless(context.Background())
	if err != nil {
		n.log.Warn("cannot count the recovered runs", "err", err)
	}
	gauge := func(name, help string, v float64) selfmetrics.Gauge {
		return selfmetrics.Gauge{Name: name, Help: help, Value: v}
	}
	counter := func(name, help string, v float64) selfmetrics.Gauge {
		return selfmetrics.Gauge{Name: name, Help: help, Value: v, Counter: true}
	}
	return []selfmetrics.Gauge{
		gauge("kymogram_store_runs", "Runs that the engine keeps.", float64(e.Runs)),
		gauge("kymogram_store_series", "Series that the engine keeps.", float64(e.Series)),
		gauge("kymogram_store_points", "Points that the engine keeps, superseded ones included.", float64(e.Points)),
		gauge("kymogram_store_disk_bytes", "Bytes of the engine's folder.", float64(e.DiskBytes)),
		gauge("kymogram_store_live_bytes", "Bytes of the points of runs that are not deleted: what retention.bytes limits.", float64(n.engine.LiveBytes())),
		gauge("kymogram_store_wal_bytes", "Bytes of the engine's log.", float64(e.WALBytes)),
		counter("kymogram_store_quarantined_total", "Damaged files or ranges set aside since the start.", float64(e.Quarantined)),
		counter("kymogram_store_lost_records_total", "Batches in damaged ranges of the log, met at the start; ledgers tell of those from clients with sequences.", float64(e.LostRecords)),
		gauge("kymogram_store_poisoned", "1 after a failed sync: restart.", number(e.Poisoned)),
		gauge("kymogram_store_disk_full", "1 while writes are refused for want of space.", number(e.DiskFull)),
		gauge(doctor.RecoveredRuns, "Runs that the catalog had lost and that are still without their names.", float64(recovered)),
		counter("kymogram_ingest_batches_total", "Batches taken.", float64(w.Batches)),
		counter("kymogram_ingest_points_total", "Points stored.", float64(w.Points)),
		counter("kymogram_ingest_refused_points_total", "Points refused for good.", float64(w.Refused)),
		counter("kymogram_ingest_dropped_points_total", "Points that clients said they dropped.", float64(w.Dropped)),
		counter("kymogram_ingest_shared_environments_total", "Pairs of writers found to log one RL environment at the same time.", float64(w.Shared)),
		counter("kymogram_ingest_failed_batches_total", "Batches not taken; their clients send again.", float64(w.Failed)),
		counter("kymogram_retention_age_runs_total", "Runs deleted for their age (retention.age).", float64(w.RetiredAge)),
		counter("kymogram_retention_size_runs_total", "Runs deleted for want of space (retention.bytes).", float64(w.RetiredSize)),
		counter("kymogram_retention_blobs_total", "Files deleted that no run named any more.", float64(w.SweptBlobs)),
		counter("kymogram_retention_blob_bytes_total", "Bytes of those files.", float64(w.SweptBytes)),
		gauge("kymogram_ingest_streams", "Writers' streams open now.", float64(w.Streams)),
	}
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// newDiscovery is nil without a chain.
func newDiscovery(c config.Chain, log *slog.Logger) (*discovery.Discovery, error) {
	if len(c.Endpoints) == 0 {
		return nil, nil //nolint:nilnil // a server without a chain is a valid one
	}
	s, err := chain.Dial(chain.Config{Endpoints: c.Endpoints, Log: log})
	if err != nil {
		return nil, err
	}
	return discovery.New(s.List, c.AllowPrivate, time.Now), nil
}
