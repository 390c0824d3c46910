package server_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	kymogramv1 "github.com/kymogram/kymogram/gen/kymogram/v1"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/auth"
	"github.com/kymogram/kymogram/server/internal/config"
	"github.com/kymogram/kymogram/server/internal/httpapi"
	"github.com/kymogram/kymogram/server/internal/selfmetrics"
	"github.com/kymogram/kymogram/server/internal/server"
)

// keys is a naive catalog of keys.
type keys struct {
	mu   sync.Mutex
	list []auth.Key
}

func (k *keys) PutKey(_ context.Context, key auth.Key) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.list = append(k.list, key)
	return nil
}

func (k *keys) FindKey(_ context.Context, hash [32]byte) (*auth.Key, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if i := slices.IndexFunc(k.list, func(key auth.Key) bool { return key.SHA256 == hash }); i >= 0 {
		found := k.list[i]
		return &found, nil
	}
	return nil, model.Errorf(model.CodeNotFound, "no such key")
}

func (k *keys) ListKeys(context.Context) ([]auth.Key, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.list), nil
}

func (k *keys) RevokeKey(_ context.Context, id string, now time.Time) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range k.list {
		if k.list[i].ID == id {
			k.list[i].RevokedNs = now.UnixNano()
			return nil
		}
	}
	return model.Errorf(model.CodeNotFound, "there is no key %s", id)
}

func (k *keys) UseKey(context.Context, string, time.Time) error { return nil }

// calls answers the RPCs of the test.
type calls struct {
	kymogramv1.UnimplementedIngestServiceServer
	kymogramv1.UnimplementedRunServiceServer
}

func (calls) GetRun(_ context.Context, r *kymogramv1.GetRunRequest) (*kymogramv1.GetRunResponse, error) {
	switch r.GetId() {
	case "panic":
		panic("a bug")
	case "missing":
		return nil, model.Errorf(model.CodeNotFound, "there is no such run")
	}
	return &kymogramv1.GetRunResponse{Run: &kymogramv1.Run{Id: r.GetId()}}, nil
}

// Stream acks whatever comes.
func (calls) Stream(stream grpc.BidiStreamingServer[kymogramv1.StreamRequest, kymogramv1.StreamResponse]) error {
	for {
		if _, err := stream.Recv(); err != nil {
			return err
		}
		if err := stream.Send(&kymogramv1.StreamResponse{}); err != nil {
			return err
		}
	}
}

type fixture struct {
	t         *testing.T
	keyring   *auth.Keyring
	links     *auth.Links
	listeners *server.Listeners
	parts     server.Parts
	options   server.Options
	server    *server.Server
	logged    *bytes.Buffer
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t: t, keyring: auth.New(&keys{}, time.Now, false), links: auth.NewLinks(time.Now), logged: &bytes.Buffer{}}
	echo := func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Panic") != "" {
			panic("a bug")
		}
		n, err := io.Copy(io.Discard, r.Body)
		if err != nil {
			httpapi.WriteError(w, model.Errorf(model.CodeTooLarge, "%v", err))
			return
		}
		fmt.Fprintf(w, `{"bytes":%d}`, n)
	}
	events := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "open\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
	nothing := http.NotFoundHandler()
	f.parts = server.Parts{
		Keyring: f.keyring, Links: f.links, Metrics: selfmetrics.New("test"), Blobs: nothing, BlobURL: nothing, BlobUpload: nothing, Manual: nothing,
		API: []httpapi.Route{
			{Method: "POST", Pattern: "/api/v1/open", Scope: auth.Ingest, Handler: http.HandlerFunc(echo)},
			{Method: "GET", Pattern: "/api/v1/projects", Scope: auth.Read, Handler: http.HandlerFunc(echo)},
			{Method: "GET", Pattern: "/api/v1/live", Scope: auth.Read, Stream: true, Handler: http.HandlerFunc(events)},
		},
		Page: fstest.MapFS{
			"index.html":         {Data: []byte("<!doctype html><title>Kymogram</title>")},
			"assets/app-abc1.js": {Data: bytes.Repeat([]byte("let a = 1;\n"), 1000)},
		},
		RPC: func(r grpc.ServiceRegistrar) {
			kymogramv1.RegisterIngestServiceServer(r, calls{})
			kymogramv1.RegisterRunServiceServer(r, calls{})
		},
		Ready: func() error { return nil },
	}
	f.options = server.Options{
		Hosts: []string{"kymogram.example"}, MaxBody: 1 << 20, Version: "test", Policy: server.DefaultPolicy(),
		Now: time.Now, Log: slog.New(slog.NewTextHandler(f.logged, nil)),
	}
	return f
}

// start runs the server until the test ends.
func (f *fixture) start(grpcAddress string) *fixture {
	f.t.Helper()
	f.listen(grpcAddress)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f.server.Run(ctx) }()
	f.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			f.t.Errorf("run: %v", err)
		}
	})
	return f
}

func (f *fixture) listen(grpcAddress string) {
	f.t.Helper()
	var err error
	if f.listeners, err = server.Listen(f.t.Context(), "127.0.0.1:0", grpcAddress); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(f.listeners.Close)
	if f.server, err = server.New(f.listeners, f.parts, f.options); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) key(scopes ...auth.Scope) (secret, id string) {
	f.t.Helper()
	secret, key, err := f.keyring.Create(f.t.Context(), auth.KeySpec{Name: "test", Scopes: scopes})
	if err != nil {
		f.t.Fatal(err)
	}
	return secret, key.ID
}

type answer struct {
	code   int
	header http.Header
	body   string
}

func (a answer) errorCode() model.Code {
	var doc struct {
		Error model.Error `json:"error"`
	}
	_ = json.Unmarshal([]byte(a.body), &doc)
	return doc.Error.Code
}

func (f *fixture) do(method, path, body string, set ...func(*http.Request)) answer {
	f.t.Helper()
	r, err := http.NewRequestWithContext(f.t.Context(), method, f.server.Address()+path, strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	for _, s := range set {
		s(r)
	}
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}}).Do(r)
	if err != nil {
		f.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, string(text)}
}

func withKey(secret string) func(*http.Request) {
	return withHeader("Authorization", "Bearer "+secret)
}

func withHeader(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

func (f *fixture) dial(address string, creds credentials.TransportCredentials) *grpc.ClientConn {
	f.t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(creds))
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func bearer(ctx context.Context, secret string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+secret)
}

func TestOneAddressServesBothProtocols(t *testing.T) {
	f := newFixture(t).start("")
	secret, _ := f.key(auth.Read)
	if a := f.do("GET", "/healthz", ""); a.code != 200 || a.body != "ok\n" {
		t.Fatalf("%+v", a)
	}
	runs := kymogramv1.NewRunServiceClient(f.dial(f.listeners.HTTP(), insecure.NewCredentials()))
	got, err := runs.GetRun(bearer(t.Context(), secret), &kymogramv1.GetRunRequest{Id: "x"})
	if err != nil || got.GetRun().GetId() != "x" {
		t.Fatalf("%v, %v", got, err)
	}
	var doc map[string]any
	if err := json.Unmarshal([]byte(f.do("GET", "/api/v1/server", "").body), &doc); err != nil {
		t.Fatal(err)
	}
	if doc["http"] != f.listeners.HTTP() || doc["grpc"] != f.listeners.HTTP() || doc["auth"] != true || doc["api"] != 1.0 {
		t.Fatalf("%v", doc)
	}
}

func TestAnAddressForGRPCAlone(t *testing.T) {
	f := newFixture(t).start("127.0.0.1:0")
	secret, _ := f.key(auth.Read)
	for _, address := range []string{f.listeners.HTTP(), f.listeners.GRPC()} {
		runs := kymogramv1.NewRunServiceClient(f.dial(address, insecure.NewCredentials()))
		if _, err := runs.GetRun(bearer(t.Context(), secret), &kymogramv1.GetRunRequest{Id: "x"}); err != nil {
			t.Fatalf("%s: %v", address, err)
		}
	}
	// Who speaks HTTP there is told where it is answered.
	stay := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for path, want := range map[string]string{"/healthz": "/healthz", "/api/v1/runs?limit=1": "/api/v1/runs?limit=1", "//elsewhere/x": "//elsewhere/x"} {
		response, err := stay.Post("http://"+f.listeners.GRPC()+path, "text/plain", strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if got := response.Header.Get("Location"); response.StatusCode != http.StatusPermanentRedirect || got != "http://"+f.listeners.HTTP()+want {
			t.Errorf("%s: %s to %q", path, response.Status, got)
		}
	}
}

func TestOneAddressUnderTLS(t *testing.T) {
	f, dir := newFixture(t), filepath.Join(t.TempDir(), "tls")
	config, err := server.SelfTLS(dir, []string{"localhost", "127.0.0.1"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	f.options.TLS = config
	f.start("")
	pool := x509.NewCertPool()
	raw, err := os.ReadFile(filepath.Join(dir, server.CAFile))
	if err != nil || !pool.AppendCertsFromPEM(raw) {
		t.Fatalf("the authority's file: %v", err)
	}
	trust := &tls.Config{RootCAs: pool}
	// Clients that offer http/1.1 too get it: browsers, and net/http.
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: trust.Clone(), ForceAttemptHTTP2: true, DisableKeepAlives: true}}
	response, err := client.Get(f.server.Address() + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.ProtoMajor != 1 || response.Header.Get("Strict-Transport-Security") == "" {
		t.Fatalf("%s %v", response.Proto, response.Header)
	}
	secret, _ := f.key(auth.Read)
	runs := kymogramv1.NewRunServiceClient(f.dial(f.listeners.HTTP(), credentials.NewTLS(trust)))
	if _, err := runs.GetRun(bearer(t.Context(), secret), &kymogramv1.GetRunRequest{Id: "x"}); err != nil {
		t.Fatal(err)
	}
}

func TestSelfTLSIsKeptAndRenewed(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	leaf := func(at time.Time, hosts ...string) string {
		t.Helper()
		c, err := server.SelfTLS(dir, hosts, at)
		if err != nil {
			t.Fatal(err)
		}
		return c.Certificates[0].Leaf.SerialNumber.String()
	}
	first := leaf(now, "localhost")
	if leaf(now, "localhost") != first {
		t.Error("a good certificate was replaced")
	}
	second := leaf(now, "localhost", "other.example")
	if second == first {
		t.Error("a certificate without the name was kept")
	}
	if leaf(now.Add(300*24*time.Hour), "localhost") == second {
		t.Error("an old certificate was kept")
	}
	info, err := os.Stat(filepath.Join(dir, "ca.key"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

func TestWhatHasNoPolicyIsRefused(t *testing.T) {
	tests := map[string]func(*fixture){
		"GET /api/v1/secret": func(f *fixture) {
			f.parts.API = append(f.parts.API, httpapi.Route{Method: "GET", Pattern: "/api/v1/secret", Handler: http.NotFoundHandler()})
		},
		"differs from the policy": func(f *fixture) { f.parts.API[0].Scope = auth.Read },
		"registered twice":        func(f *fixture) { f.parts.API = append(f.parts.API, f.parts.API[0]) },
		"/kymogram.v1.RunService/DeleteRun": func(f *fixture) {
			delete(f.options.Policy.RPC, "/kymogram.v1.RunService/DeleteRun")
		},
		"/kymogram.v1.RunService/GetRun": func(f *fixture) {
			f.options.Policy.RPC["/kymogram.v1.RunService/GetRun"] = server.Rule{}
		},
	}
	for want, change := range tests {
		t.Run(want, func(t *testing.T) {
			f := newFixture(t)
			change(f)
			l, err := server.Listen(t.Context(), "127.0.0.1:0", "")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			if _, err := server.New(l, f.parts, f.options); err == nil || !strings.Contains(err.Error(), want) {
				t.Fatalf("%v, want it to name %q", err, want)
			}
		})
	}
}

func TestScopesOverHTTP(t *testing.T) {
	f := newFixture(t).start("")
	read, _ := f.key(auth.Read)
	admin, id := f.key(auth.Admin)
	for _, step := range []struct {
		name, method, path string
		set                func(*http.Request)
		code               int
	}{
		{"no key", "GET", "/api/v1/projects", withHeader("X", "y"), 401},
		{"not a bearer", "GET", "/api/v1/projects", withHeader("Authorization", "Basic eDp5"), 401},
		{"wrong key", "GET", "/api/v1/projects", withKey(strings.Repeat("0", 40)), 401},
		{"read", "GET", "/api/v1/projects", withKey(read), 200},
		{"read on ingest", "POST", "/api/v1/open", withKey(read), 403},
		{"read on keys", "GET", "/api/v1/keys", withKey(read), 403},
		{"admin", "POST", "/api/v1/open", withKey(admin), 200},
		{"metrics without key", "GET", "/metrics", withHeader("X", "y"), 401},
		{"metrics", "GET", "/metrics", withKey(read), 200},
		{"HEAD is GET", "HEAD", "/api/v1/projects", withHeader("X", "y"), 401},
		{"encoded path", "GET", "/api/v1/%70rojects", withHeader("X", "y"), 401},
		{"revoke", "DELETE", "/api/v1/keys/" + id, withKey(admin), 204},
		{"revoked", "GET", "/api/v1/projects", withKey(admin), 401},
	} {
		if a := f.do(step.method, step.path, "", step.set); a.code != step.code {
			t.Errorf("%s: %d %s, want %d", step.name, a.code, a.body, step.code)
		}
	}
}

func TestRPCErrors(t *testing.T) {
	f := newFixture(t).start("")
	secret, _ := f.key(auth.Read)
	runs := kymogramv1.NewRunServiceClient(f.dial(f.listeners.HTTP(), insecure.NewCredentials()))
	for id, want := range map[string]codes.Code{"missing": codes.NotFound, "panic": codes.Internal} {
		_, err := runs.GetRun(bearer(t.Context(), secret), &kymogramv1.GetRunRequest{Id: id})
		if status.Code(err) != want {
			t.Errorf("%s: %v, want %s", id, err, want)
		}
	}
	_, err := runs.GetRun(bearer(t.Context(), secret), &kymogramv1.GetRunRequest{Id: strings.Repeat("x", 2<<20)})
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a large message: %v", err)
	}
}

func TestARevokedKeyEndsItsStreams(t *testing.T) {
	f := newFixture(t).start("")
	secret, id := f.key(auth.Ingest, auth.Read)
	stream, err := kymogramv1.NewIngestServiceClient(f.dial(f.listeners.HTTP(), insecure.NewCredentials())).Stream(bearer(t.Context(), secret))
	if err != nil {
		t.Fatal(err)
	}
	exchange := func() error {
		if err := stream.Send(&kymogramv1.StreamRequest{}); err != nil {
			return err
		}
		_, err := stream.Recv()
		return err
	}
	if err := exchange(); err != nil {
		t.Fatal(err)
	}
	events := f.openEvents(secret)
	if err := f.keyring.Revoke(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if err := exchange(); status.Code(err) != codes.Unauthenticated {
		t.Errorf("the stream of a revoked key: %v", err)
	}
	if _, err := io.ReadAll(events); err != nil {
		t.Errorf("the events of a revoked key did not end: %v", err)
	}
}

// openEvents returns the event stream after its first line.
func (f *fixture) openEvents(secret string) io.Reader {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), 10*time.Second)
	f.t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, f.server.Address()+"/api/v1/live", nil)
	if err != nil {
		f.t.Fatal(err)
	}
	withKey(secret)(r)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = response.Body.Close() })
	lines := bufio.NewReader(response.Body)
	if line, err := lines.ReadString('\n'); err != nil || line != "open\n" {
		f.t.Fatalf("%q, %v", line, err)
	}
	return lines
}

func TestStopEndsStreamsInTime(t *testing.T) {
	f := newFixture(t)
	f.listen("127.0.0.1:0")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f.server.Run(ctx) }()
	secret, _ := f.key(auth.Admin)
	stream, err := kymogramv1.NewIngestServiceClient(f.dial(f.listeners.GRPC(), insecure.NewCredentials())).Stream(bearer(t.Context(), secret))
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&kymogramv1.StreamRequest{}); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	events := f.openEvents(secret)
	silent, err := net.Dial("tcp", f.listeners.HTTP()) // has not said what it speaks
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	began := time.Now()
	cancel()
	if err := <-done; err != nil {
		t.Fatalf("run: %v", err)
	}
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("the stop took %s", took)
	}
	if _, err := io.ReadAll(events); err != nil {
		t.Errorf("the events did not end: %v", err)
	}
	if _, err := stream.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("the stream: %v, want Unavailable, so that the client comes again", err)
	}
	// Another process may have the port by now; only this server takes the key.
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+f.listeners.HTTP()+"/api/v1/keys", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+secret)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	response, err := client.Do(r)
	if err == nil {
		response.Body.Close()
	}
	if os.IsTimeout(err) || err == nil && response.StatusCode == http.StatusOK {
		t.Errorf("the address still answers: %v", err)
	}
}

func TestReadyFollowsTheStore(t *testing.T) {
	f := newFixture(t)
	var broken error
	f.parts.Ready = func() error { return broken }
	f.start("")
	if a := f.do("GET", "/readyz", ""); a.code != 200 {
		t.Fatalf("%+v", a)
	}
	broken = model.Errorf(model.CodeDiskFull, "the disk is full")
	if a := f.do("GET", "/readyz", ""); a.code != http.StatusInsufficientStorage || a.errorCode() != model.CodeDiskFull {
		t.Fatalf("%+v", a)
	}
}

func TestHostsAndOrigins(t *testing.T) {
	f := newFixture(t).start("")
	admin, _ := f.key(auth.Admin)
	host := func(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }
	for name, code := range map[string]int{
		"127.0.0.1:80": 200, "[::1]:7070": 200, "localhost": 200, "LOCALHOST:1": 200, "kymogram.example:7070": 200, "kymogram.example.": 200,
		"evil.example": 403, "localhost.evil.example": 403, "127.0.0.1.nip.io": 403, "xkymogram.example": 403,
	} {
		if a := f.do("GET", "/api/v1/projects", "", withKey(admin), host(name)); a.code != code {
			t.Errorf("host %s: %d %s, want %d", name, a.code, a.body, code)
		}
	}
	own := f.server.Address()
	for name, test := range map[string]struct {
		set  []func(*http.Request)
		code int
	}{
		"no origin: no browser":  {nil, 200},
		"its own page":           {[]func(*http.Request){withHeader("Origin", own)}, 200},
		"another page":           {[]func(*http.Request){withHeader("Origin", "https://evil.example")}, 403},
		"another port":           {[]func(*http.Request){withHeader("Origin", "http://127.0.0.1:1")}, 403},
		"a sandboxed page":       {[]func(*http.Request){withHeader("Origin", "null")}, 403},
		"another site by header": {[]func(*http.Request){withHeader("Sec-Fetch-Site", "cross-site")}, 403},
	} {
		if a := f.do("POST", "/api/v1/open", "{}", append(test.set, withKey(admin))...); a.code != test.code {
			t.Errorf("%s: %d %s, want %d", name, a.code, a.body, test.code)
		}
		if a := f.do("GET", "/api/v1/projects", "", append(test.set, withKey(admin))...); a.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: other pages may read the answer", name)
		}
	}
}

func TestEveryAnswerIsGuarded(t *testing.T) {
	f := newFixture(t).start("")
	for _, path := range []string{"/", "/assets/app-abc1.js", "/api/v1/projects", "/api/v1/nothing", "/metrics"} {
		a := f.do("GET", path, "")
		csp := a.header.Get("Content-Security-Policy")
		if !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") ||
			a.header.Get("X-Content-Type-Options") != "nosniff" || a.header.Get("X-Request-Id") == "" {
			t.Errorf("%s: %v", path, a.header)
		}
	}
}

func TestThePage(t *testing.T) {
	f := newFixture(t).start("")
	visit := withHeader("Accept", "text/html,*/*")
	if a := f.do("GET", "/default/digits/run.1", "", visit); a.code != 200 || !strings.Contains(a.body, "Kymogram") || a.header.Get("Cache-Control") != "no-cache" {
		t.Errorf("an address of the page: %+v", a)
	}
	if a := f.do("GET", "/missing.js", "", withHeader("Accept", "*/*")); a.code != 404 {
		t.Errorf("a missing file: %d", a.code)
	}
	if a := f.do("GET", "/api/v1/missing", "", visit); a.code != 404 || a.errorCode() != model.CodeNotFound {
		t.Errorf("a missing route: %+v", a)
	}
	for path, hint := range map[string]string{
		"/api/v2/query": "there is no Flux", "/v1/traces": "only metrics", "/prometheus/llm/api/v1/query": "/prometheus/WORKSPACE/PROJECT/", "/nothing": "/docs",
	} {
		if a := f.do("POST", path, ""); a.code != 404 || a.errorCode() != model.CodeNotFound || !strings.Contains(a.body, hint) {
			t.Errorf("a write to %s: %+v", path, a)
		}
	}
	if a := f.do("POST", "/healthz", ""); a.code != http.StatusMethodNotAllowed || a.header.Get("Allow") == "" {
		t.Errorf("another method of a route: %+v", a)
	}
	plain := f.do("GET", "/assets/app-abc1.js", "")
	small := f.do("GET", "/assets/app-abc1.js", "", withHeader("Accept-Encoding", "gzip"))
	if len(plain.body) != 11_000 || small.header.Get("Content-Encoding") != "gzip" || len(small.body) > 1000 {
		t.Errorf("%d and %d bytes, %v", len(plain.body), len(small.body), small.header)
	}
	if !strings.Contains(plain.header.Get("Cache-Control"), "immutable") {
		t.Errorf("%v", plain.header)
	}
	again := f.do("GET", "/", "", withHeader("If-None-Match", f.do("GET", "/", "").header.Get("ETag")))
	if again.code != http.StatusNotModified {
		t.Errorf("the same page again: %d", again.code)
	}
	for _, path := range []string{"/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/assets/..%2f..%2fgo.mod", "/assets/..;/x"} {
		if a := f.do("GET", path, ""); strings.Contains(a.body, "root:") || strings.Contains(a.body, "module ") || a.code == 200 {
			t.Errorf("%s: %+v", path, a)
		}
	}
}

func TestLimitsAndPanics(t *testing.T) {
	f := newFixture(t).start("")
	secret, _ := f.key(auth.Admin)
	if a := f.do("POST", "/api/v1/open", strings.Repeat("x", 1<<20), withKey(secret)); a.code != 200 {
		t.Errorf("a body at the limit: %+v", a)
	}
	if a := f.do("POST", "/api/v1/open", strings.Repeat("x", 1<<20+1), withKey(secret)); a.code != 413 || a.errorCode() != model.CodeTooLarge {
		t.Errorf("a body over the limit: %+v", a)
	}
	chunked := func(r *http.Request) { r.ContentLength = -1 }
	if a := f.do("POST", "/api/v1/open", strings.Repeat("x", 1<<20+1), withKey(secret), chunked); a.code != 413 {
		t.Errorf("a body over the limit without a length: %+v", a)
	}
	a := f.do("POST", "/api/v1/open", "", withKey(secret), withHeader("X-Panic", "1"))
	if a.code != 500 || a.errorCode() != model.CodeInternal || strings.Contains(a.body, "a bug") {
		t.Errorf("a panic: %+v", a)
	}
	if !strings.Contains(f.logged.String(), a.header.Get("X-Request-Id")) || strings.Contains(f.logged.String(), secret) {
		t.Errorf("the log: %s", f.logged)
	}
	if a := f.do("GET", "/healthz", ""); a.code != 200 {
		t.Errorf("after a panic: %+v", a)
	}
}

func TestSignIn(t *testing.T) {
	f := newFixture(t).start("")
	_, token, ok := strings.Cut(f.server.LoginLink(), "/login#")
	if !ok {
		t.Fatal("no token in the link")
	}
	body := fmt.Sprintf(`{"token":%q}`, token)
	a := f.do("POST", "/api/v1/session", body)
	cookie := a.header.Get("Set-Cookie")
	// Two servers of one machine differ in the port alone, which cookies do not know.
	named := server.CookieName + "_" + f.server.Address()[strings.LastIndexByte(f.server.Address(), ':')+1:] + "="
	for _, want := range []string{named, "HttpOnly", "SameSite=Strict", "Path=/"} {
		if !strings.Contains(cookie, want) {
			t.Fatalf("the cookie %q lacks %s", cookie, want)
		}
	}
	pair, _, _ := strings.Cut(cookie, ";")
	if a := f.do("GET", "/api/v1/projects", "", withHeader("Cookie", pair)); a.code != 200 {
		t.Errorf("with the cookie: %+v", a)
	}
	if a := f.do("POST", "/api/v1/open", "{}", withHeader("Cookie", pair), withHeader("Origin", "https://evil.example")); a.code != 403 {
		t.Errorf("another page with the cookie: %+v", a)
	}
	for name, body := range map[string]string{"used": body, "made up": `{"token":"x"}`, "empty": `{}`} {
		if a := f.do("POST", "/api/v1/session", body); a.code != 401 || a.header.Get("Set-Cookie") != "" {
			t.Errorf("%s: %+v", name, a)
		}
	}
	for _, bad := range []string{"", "[]", `{"token":1}`, `{"x":1}`, `{"token":"a"}{}`, strings.Repeat("[", 50_000)} {
		if a := f.do("POST", "/api/v1/session", bad); a.code != 400 {
			t.Errorf("%.20q: %+v", bad, a)
		}
	}
}

func TestKeysOverHTTP(t *testing.T) {
	f := newFixture(t).start("")
	admin, _ := f.key(auth.Admin)
	a := f.do("POST", "/api/v1/keys", `{"name":"n","scopes":["read"],"workspace":"w","project":"p","expires_seconds":60}`, withKey(admin))
	var made auth.Document
	if err := json.Unmarshal([]byte(a.body), &made); err != nil || a.code != 201 || len(made.Key) != 40 {
		t.Fatalf("%+v, %v", a, err)
	}
	if a := f.do("GET", "/api/v1/keys", "", withKey(admin)); a.code != 200 || strings.Contains(a.body, made.Key) || !strings.Contains(a.body, made.ID) {
		t.Errorf("%+v", a)
	}
	if a := f.do("POST", "/api/v1/keys", `{"name":"","scopes":["read"]}`, withKey(admin)); a.code != 400 {
		t.Errorf("%+v", a)
	}
	if a := f.do("DELETE", "/api/v1/keys/nope", "", withKey(admin)); a.code != 404 {
		t.Errorf("%+v", a)
	}
	// The admin of one project may not make keys for all.
	secret, _, err := f.keyring.Create(t.Context(), auth.KeySpec{Name: "p", Scopes: []auth.Scope{auth.Admin}, Workspace: "w", Project: "p"})
	if err != nil {
		t.Fatal(err)
	}
	if a := f.do("POST", "/api/v1/keys", `{"name":"n","scopes":["admin"]}`, withKey(secret)); a.code != 403 {
		t.Errorf("%+v", a)
	}
}

func TestListenErrorsSayWhatToDo(t *testing.T) {
	f := newFixture(t).start("")
	for name, test := range map[string]struct{ http, grpc, want string }{
		"in use":      {f.listeners.HTTP(), "", "in use"},
		"grpc in use": {"127.0.0.1:0", f.listeners.HTTP(), "in use"},
		"not ours":    {"192.0.2.1:0", "", "no address"},
		"bad port":    {"127.0.0.1:99999", "", "cannot listen"},
	} {
		_, err := server.Listen(t.Context(), test.http, test.grpc)
		var e *model.Error
		if !errors.As(err, &e) || !strings.Contains(e.Message, test.want) || e.Hint == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A limit of bodies that raises what requests may hold is named at the start, and one
// that memory has no room for.
func TestALargeBodyLimitIsNamed(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		body, memory int64
		want         string
	}{
		{16 * mib, 0, ""},
		{32 * mib, 2048 * mib, ""},
		{33 * mib, 4096 * mib, "limits.body_mib is large"},
		{100 * mib, 8192 * mib, "limits.body_mib is large"},
		{64 * mib, 300 * mib, "the memory limit is too small"},
		{16 * mib, 200 * mib, ""},
	} {
		f := newFixture(t)
		f.options.MaxBody, f.options.Memory = c.body, config.Divide(c.memory, c.body)
		f.listen("")
		if said := f.logged.String(); (said == "") != (c.want == "") || !strings.Contains(said, c.want) {
			t.Errorf("%d MiB of %d MiB: %q, want %q", c.body/mib, c.memory/mib, said, c.want)
		}
	}
}
