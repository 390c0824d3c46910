package metrics

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/net/netutil"

	"github.com/kymogram/kymogram"
	"github.com/kymogram/kymogram/internal/collect"
)

// The limits of an endpoint, which may face a network. A Prometheus keeps one
// connection and scrapes every few seconds.
const (
	maxConnections   = 32
	maxInFlight      = 4
	maxHeaderBytes   = 8 << 10
	scrapesPerSecond = 20
	headerTimeout    = 5 * time.Second
	answerTimeout    = 15 * time.Second
	idleTimeout      = 2 * time.Minute
	stopTimeout      = 2 * time.Second
)

// EndpointOptions are what NewEndpoint takes; the zero value is fine.
type EndpointOptions struct {
	// Version of the program, for kymogram_node_info; this package's when empty.
	Version string
	// NoMachine leaves out the processors, memory, disk, network and cards.
	NoMachine bool
	// Disk is a folder of the file system to tell of; "/" when empty.
	Disk string
	// NvidiaSMI is the program that tells of graphics cards; nvidia-smi of PATH
	// when empty.
	NvidiaSMI string
	// Log hears what cannot be read; slog.Default() when nil.
	Log *slog.Logger
	// Now is the clock; time.Now when nil.
	Now func() time.Time
}

// Endpoint is a node's own metrics: its status, its requests, its machine, its
// validation and scoring, and what is exposed by choice.
type Endpoint struct {
	opts     EndpointOptions
	registry *prometheus.Registry
	node     node
	requests requests
	rate     bucket

	exposed sync.Once
	choice  *Exposition
}

// NewEndpoint makes an endpoint; [Serve] or [Endpoint.Handler] make it answer.
func NewEndpoint(opts EndpointOptions) *Endpoint {
	if opts.Version == "" {
		opts.Version = kymogram.Version
	}
	if opts.Log == nil {
		opts.Log = slog.Default()
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	e := &Endpoint{opts: opts, registry: prometheus.NewRegistry()}
	e.rate = bucket{now: opts.Now, perSecond: scrapesPerSecond, tokens: scrapesPerSecond, at: opts.Now()}
	e.registry.MustRegister(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	e.node = newNode(e.registry, opts)
	e.requests = newRequests(e.registry)
	if !opts.NoMachine {
		e.registry.MustRegister(newMachine(collect.New(collect.Options{Now: opts.Now, Disk: opts.Disk, NvidiaSMI: opts.NvidiaSMI}), opts))
	}
	return e
}

// Register adds families of the program's own.
func (e *Endpoint) Register(c prometheus.Collector) error { return e.registry.Register(c) }

// Exposition is the handler for the groups that this endpoint exposes:
// reg.Configure(e.Exposition(), "train") makes the group "train" public.
func (e *Endpoint) Exposition() *Exposition {
	e.exposed.Do(func() { e.choice = newExposition(e.registry) })
	return e.choice
}

// Handler answers GET and HEAD /metrics, in Prometheus' text format or in
// OpenMetrics, and nothing else.
func (e *Endpoint) Handler() http.Handler {
	scrape := promhttp.HandlerFor(e.registry, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError, EnableOpenMetrics: true, MaxRequestsInFlight: maxInFlight, Timeout: answerTimeout,
		ErrorLog: slog.NewLogLogger(e.opts.Log.Handler(), slog.LevelWarn),
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		switch {
		case r.URL.Path != "/metrics":
			http.Error(w, "only /metrics is here", http.StatusNotFound)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "only GET", http.StatusMethodNotAllowed)
		case !e.rate.take():
			w.Header().Set("Retry-After", "1")
			http.Error(w, "scraped too often: at most "+strconv.Itoa(scrapesPerSecond)+" times a second", http.StatusTooManyRequests)
		default:
			scrape.ServeHTTP(w, r)
		}
	})
}

// Serve answers at addr, such as 127.0.0.1:9464, until ctx ends.
func Serve(ctx context.Context, addr string, e *Endpoint) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("serve metrics: %w", err)
	}
	return e.Serve(ctx, listener)
}

// Serve answers on a listener until ctx ends, and closes it.
func (e *Endpoint) Serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		Handler: e.Handler(), ReadHeaderTimeout: headerTimeout, ReadTimeout: headerTimeout, WriteTimeout: answerTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes, ErrorLog: slog.NewLogLogger(e.opts.Log.Handler(), slog.LevelDebug),
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	e.opts.Log.Info("metrics", "address", "http://"+listener.Addr().String()+"/metrics")
	stopped := context.AfterFunc(ctx, func() {
		limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		if server.Shutdown(limit) != nil {
			_ = server.Close()
		}
	})
	defer stopped()
	if err := server.Serve(netutil.LimitListener(listener, maxConnections)); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve metrics: %w", err)
	}
	return nil
}

// bucket lets a number of scrapes a second pass.
type bucket struct {
	now       func() time.Time
	perSecond float64

	mu     sync.Mutex
	tokens float64
	at     time.Time
}

func (b *bucket) take() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	b.tokens = min(b.perSecond, b.tokens+now.Sub(b.at).Seconds()*b.perSecond)
	b.at = now
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}
