package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/auth"
	"github.com/kymogram/kymogram/server/internal/config"
	"github.com/kymogram/kymogram/server/internal/httpapi"
	"github.com/kymogram/kymogram/server/internal/selfmetrics"
	"github.com/kymogram/kymogram/server/internal/share"
)

// Time that a stop may take, 5 s in all with the store's close: first calls and
// answers under way finish, then streams are cut; their clients come again.
const (
	drainTime  = 2 * time.Second
	streamTime = 500 * time.Millisecond
)

// idleTimeout closes HTTP connections that nobody uses.
const idleTimeout = 2 * time.Minute

// usualBody is the limit of a body where the operator sets none.
const usualBody = 16 << 20

// loginPath is the page's address for a one-time link; the token is in the
// fragment, which browsers do not send.
const loginPath = "/login#"

// Options are what code sets.
type Options struct {
	TLS     *tls.Config // nil: plain text
	Hosts   []string    // names that this server answers to, besides localhost and IP addresses
	MaxBody int64       // of a request or a message
	Memory  config.Budget
	// Connections bounds them in all, ConnectionsEach those of one address but
	// loopback; 0: what the process's file descriptors allow, and a quarter of it.
	Connections, ConnectionsEach int
	Version                      string
	Policy                       Policy
	Now                          func() time.Time
	Log                          *slog.Logger
}

// Parts are what the server mounts.
type Parts struct {
	Keyring *auth.Keyring
	Links   *auth.Links
	Metrics *selfmetrics.Metrics
	API     []httpapi.Route
	Blobs   http.Handler // GET and PUT
	BlobURL http.Handler // GET and POST
	// BlobUpload takes uploads in parts: HEAD and PATCH.
	BlobUpload http.Handler
	// Receivers are the routes of other systems' protocols, by pattern.
	Receivers []map[string]http.Handler
	Page      fs.FS
	Manual    http.Handler // the documentation
	// RPC registers the receivers and the query services.
	RPC func(grpc.ServiceRegistrar)
	// Ready fails while the store cannot take points.
	Ready func() error
}

// Server listens and answers.
type Server struct {
	options  Options
	parts    Parts
	keyring  *auth.Keyring
	links    *auth.Links
	metrics  *selfmetrics.Metrics
	log      *slog.Logger
	security *security
	hosts    []string

	patterns  []string
	listeners *Listeners
	shared    *splitter // HTTP and gRPC
	calls     *splitter // gRPC alone, nil without one
	http      *http.Server
	other     *http.Server // of calls: redirects to http, nil without calls
	rpc       *grpc.Server
	draining  chan struct{}
	gate      *gate
	admission *admission
	stopping  atomic.Bool
	stalled   atomic.Uint64 // calls whose client read no answer
}

// Listeners are the bound addresses. Binding comes before the data folder is
// opened, so that a port in use is reported at once.
type Listeners struct {
	shared net.Listener
	calls  net.Listener // nil without one
}

// Listen binds the shared address and, unless it is empty, one for gRPC alone.
func Listen(ctx context.Context, shared, calls string) (*Listeners, error) {
	ln, err := listen(ctx, shared, "http")
	if err != nil {
		return nil, err
	}
	out := &Listeners{shared: ln}
	if calls == "" {
		return out, nil
	}
	if out.calls, err = listen(ctx, calls, "grpc"); err != nil {
		_ = ln.Close()
		return nil, err
	}
	return out, nil
}

func listen(ctx context.Context, address, option string) (net.Listener, error) {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	switch {
	case err == nil:
		return ln, nil
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, model.Errorf(model.CodeUnavailable, "the address %s is in use by another program", address).
			WithHint("stop that program, or choose another address with --%s HOST:PORT (port 0 picks a free one)", option)
	case errors.Is(err, syscall.EACCES):
		return nil, model.Errorf(model.CodePermission, "this user may not listen on %s", address).
			WithHint("choose a port above 1023 with --%s HOST:PORT", option)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, model.Errorf(model.CodeInvalid, "this machine has no address %s", address).
			WithHint("listen on 127.0.0.1, on an address of this machine, or on 0.0.0.0 for all of them")
	}
	return nil, model.Errorf(model.CodeInvalid, "cannot listen on %s: %v", address, err).
		WithHint("--%s takes HOST:PORT, such as 127.0.0.1:7070", option)
}

// Close releases the addresses.
func (l *Listeners) Close() {
	_ = l.shared.Close()
	if l.calls != nil {
		_ = l.calls.Close()
	}
}

// HTTP is the shared address as HOST:PORT.
func (l *Listeners) HTTP() string { return l.shared.Addr().String() }

// GRPC is the address for gRPC, the shared one unless it has its own.
func (l *Listeners) GRPC() string {
	if l.calls != nil {
		return l.calls.Addr().String()
	}
	return l.HTTP()
}

// New assembles a server. It fails when a route or a method has no policy.
func New(listeners *Listeners, parts Parts, options Options) (*Server, error) {
	if options.Memory == (config.Budget{}) {
		options.Memory = config.Divide(0, options.MaxBody)
	}
	s := &Server{
		options: options, parts: parts, listeners: listeners,
		keyring: parts.Keyring, links: parts.Links, metrics: parts.Metrics, log: options.Log,
		hosts: options.Hosts, draining: make(chan struct{}),
		gate: newGate(options.Connections, options.ConnectionsEach), admission: newAdmission(options.MaxBody, options.Memory, connections(options.Connections)),
	}
	if most := largest * options.MaxBody; options.Memory.Requests < most {
		s.log.Warn("the memory limit is too small for the largest requests; raise memory.limit_mib, or lower limits.body_mib",
			"requests_mib", options.Memory.Requests>>20, "largest_mib", most>>20)
	}
	if usual := config.Divide(options.Memory.Limit, usualBody).Requests; options.Memory.Requests > usual {
		s.log.Warn("limits.body_mib is large: requests may hold more memory together",
			"body_mib", options.MaxBody>>20, "requests_mib", options.Memory.Requests>>20, "usual_mib", usual>>20)
	}
	s.security = newSecurity(options.Log, parts.Metrics, options.Now)
	s.keyring.OnFirstUse(func(ctx context.Context, key auth.Key) {
		s.security.note(ctx, eventKeyUsed, "", "key", key.ID, "name", key.Name)
	})
	s.rpc = s.newRPC()
	parts.RPC(registrar{s.rpc})
	routes, patterns, err := s.routes()
	s.patterns = patterns
	if err := errors.Join(err, s.checkRPC()); err != nil {
		return nil, fmt.Errorf("assemble the server: %w", err)
	}
	s.http = s.newHTTP(routes)
	s.shared = newSplitter(listeners.shared, options.TLS, s.gate, s.log)
	if listeners.calls != nil {
		s.calls = newSplitter(listeners.calls, options.TLS, s.gate, s.log)
		s.other = s.newHTTP(http.HandlerFunc(s.toShared))
	}
	return s, nil
}

func (s *Server) newHTTP(h http.Handler) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Server{
		Handler: h, Protocols: protocols,
		ReadHeaderTimeout: helloTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: 64 << 10,
		ErrorLog:    slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		ConnContext: withConnection,
		ConnState: func(conn net.Conn, to http.ConnState) {
			if to == http.StateActive {
				s.gate.touch(enteredOf(conn))
			}
		},
	}
}

// routes mounts everything behind the policy.
func (s *Server) routes() (h http.Handler, patterns []string, err error) {
	m := &mux{
		mux: http.NewServeMux(), rules: s.options.Policy.HTTP, patterns: map[string]bool{},
		keyring: s.keyring, security: s.security, metrics: s.metrics, log: s.log, maxBody: s.options.MaxBody, draining: s.draining, admission: s.admission, gate: s.gate,
	}
	page, err := newPage(s.parts.Page)
	if err != nil {
		return nil, nil, err
	}
	m.handle("GET /", page)
	m.handle("GET /docs", s.parts.Manual)
	m.handle("GET /docs/{path...}", s.parts.Manual)
	m.handle("GET /healthz", http.HandlerFunc(healthy))
	m.handle("GET /readyz", s.handler(s.ready))
	m.handle("GET /metrics", s.metrics.Handler())
	m.handle("GET /api/v1/server", s.handler(s.describe))
	m.handle("POST /api/v1/session", s.handler(s.signIn))
	m.handle("DELETE /api/v1/session", s.handler(s.signOut))
	m.handle("GET /api/v1/keys", s.handler(s.listKeys))
	m.handle("POST /api/v1/keys", s.handler(s.createKey))
	m.handle("DELETE /api/v1/keys/{id}", s.handler(s.revokeKey))
	m.handle("POST /api/v1/links", s.handler(s.createLink))
	m.handle("POST /api/v1/session/key", s.handler(s.tradeLink))
	m.handle("GET /api/v1/key", s.handler(s.ownKey))
	m.handle("DELETE /api/v1/key", s.handler(s.endOwnKey))
	m.handle("GET /api/v1/blobs/{sha256}", s.parts.Blobs)
	m.handle("PUT /api/v1/blobs/{sha256}", s.parts.Blobs)
	m.handle("HEAD /api/v1/blobs/{sha256}/upload", s.parts.BlobUpload)
	m.handle("PATCH /api/v1/blobs/{sha256}/upload", s.parts.BlobUpload)
	m.handle("GET /api/v1/blobs/{sha256}/url", s.parts.BlobURL)
	m.handle("POST /api/v1/blobs/{sha256}/url", s.parts.BlobURL)
	for _, route := range s.parts.API {
		m.mount(route)
	}
	for _, receiver := range s.parts.Receivers {
		for pattern, h := range receiver {
			m.handle(pattern, h)
		}
	}
	return s.outer(m), slices.Sorted(maps.Keys(m.patterns)), m.err
}

// Shared are the figures of what callers share, for /metrics.
type Shared struct {
	Connections, MostConnections int
	RefusedConnections           uint64
	ClosedConnections            uint64      // for others
	Requests, Messages, Answers  share.Stats // bytes of memory; the last two of gRPC
	Calls                        share.Stats // of gRPC, that go on
	Files                        share.Stats // up- and downloads of files that go on
	StalledCalls                 uint64      // whose client read nothing
}

// Shared reads them.
func (s *Server) Shared() Shared {
	open, most, refused, closed := s.gate.figures()
	a := s.admission
	return Shared{
		Connections: open, MostConnections: most, RefusedConnections: refused, ClosedConnections: closed,
		Requests: a.pool.Stats(), Messages: a.arriving.Stats(), Answers: a.answers.Stats(),
		Calls: a.streams.Stats(), Files: a.files.Stats(), StalledCalls: s.stalled.Load(),
	}
}

// Routes lists the patterns that are mounted.
func (s *Server) Routes() []string { return s.patterns }

// Methods lists the full names of the gRPC methods that are registered.
func (s *Server) Methods() []string {
	var names []string
	for service, info := range s.rpc.GetServiceInfo() {
		for _, m := range info.Methods {
			names = append(names, "/"+service+"/"+m.Name)
		}
	}
	slices.Sort(names)
	return names
}

func healthy(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte("ok\n"))
}

func (s *Server) ready(w http.ResponseWriter, r *http.Request) error {
	if s.stopping.Load() {
		return model.Errorf(model.CodeUnavailable, "the server is stopping")
	}
	if err := s.parts.Ready(); err != nil {
		return err
	}
	healthy(w, r)
	return nil
}

// describe announces the server; it needs no key and tells no secret.
func (s *Server) describe(w http.ResponseWriter, _ *http.Request) error {
	WriteJSON(w, http.StatusOK, map[string]any{
		"name": "kymogram", "version": s.options.Version, "api": 1,
		"http": s.listeners.HTTP(), "grpc": s.listeners.GRPC(), "tls": s.options.TLS != nil,
		"auth": !s.keyring.Open(), "time_ns": s.options.Now().UnixNano(),
	})
	return nil
}

// Address is the page's address.
func (s *Server) Address() string { return PageAddress(s.listeners.HTTP(), s.options.TLS != nil) }

// LoginLink makes a one-time link to the page.
func (s *Server) LoginLink() string {
	token, _ := s.links.Issue()
	return s.Address() + loginPath + token
}

// PageAddress is the URL of a bound address; one for all interfaces is reached
// through loopback.
func PageAddress(bound string, secure bool) string {
	scheme := "http://"
	if secure {
		scheme = "https://"
	}
	host, port, err := net.SplitHostPort(bound)
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
		bound = net.JoinHostPort("127.0.0.1", port)
	}
	return scheme + bound
}

// Run answers until ctx ends, then drains and stops in a few seconds.
func (s *Server) Run(ctx context.Context) error {
	group, serving := errgroup.WithContext(ctx)
	group.Go(func() error { return s.shared.Run(serving) })
	group.Go(func() error { return ended(s.http.Serve(s.shared.http)) })
	group.Go(func() error { return ended(s.rpc.Serve(s.shared.grpc)) })
	if s.calls != nil {
		group.Go(func() error { return s.calls.Run(serving) })
		group.Go(func() error { return ended(s.rpc.Serve(s.calls.grpc)) })
		group.Go(func() error { return ended(s.other.Serve(s.calls.http)) })
	}
	group.Go(func() error {
		<-serving.Done()
		s.stop()
		return nil
	})
	return group.Wait()
}

// ended drops the errors by which a server says that it was stopped.
func ended(err error) error {
	if errors.Is(err, http.ErrServerClosed) || errors.Is(err, grpc.ErrServerStopped) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// toShared tells who speaks HTTP to the address for gRPC alone where HTTP is answered.
func (s *Server) toShared(w http.ResponseWriter, r *http.Request) {
	host, port, _ := net.SplitHostPort(s.listeners.HTTP())
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = (&url.URL{Host: r.Host}).Hostname()
	}
	to := url.URL{Scheme: "http", Host: net.JoinHostPort(host, port), Path: r.URL.Path, RawQuery: r.URL.RawQuery}
	if s.options.TLS != nil {
		to.Scheme = "https"
	}
	w.Header().Set("Location", to.String())
	w.Header().Set("Connection", "close")
	w.WriteHeader(http.StatusPermanentRedirect)
	_, _ = fmt.Fprintf(w, "this address is for gRPC alone; HTTP is answered at %s://%s\n", to.Scheme, to.Host)
}

// stop lets work under way finish, then cuts the streams. A batch that was cut
// was not acknowledged: its client sends it again.
func (s *Server) stop() {
	s.stopping.Store(true)
	close(s.draining)
	ctx, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	var group errgroup.Group
	group.Go(func() error {
		if s.other != nil {
			_ = s.other.Close()
		}
		if s.http.Shutdown(ctx) != nil {
			return s.http.Close()
		}
		return nil
	})
	group.Go(func() error {
		cut := time.AfterFunc(streamTime, s.rpc.Stop)
		defer cut.Stop()
		s.rpc.GracefulStop()
		return nil
	})
	if err := group.Wait(); err != nil {
		s.log.Warn("stop", "err", err)
	}
}
