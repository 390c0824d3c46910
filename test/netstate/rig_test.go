package netstate_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	_ "modernc.org/sqlite" // the driver of the tests

	"github.com/kymogram/kymogram"
	"github.com/kymogram/kymogram/chain"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/state"
	"github.com/kymogram/kymogram/internal/testkit/clickhouse"
	"github.com/kymogram/kymogram/internal/testkit/postgres"
	"github.com/kymogram/kymogram/netstate"
	"github.com/kymogram/kymogram/test/rig"
)

const netuid = 27

// network is a real server between participants, behind a proxy that sees and may
// change what they send and read.
type network struct {
	*testing.T
	server *rig.Server
	url    string // of the proxy

	away   atomic.Bool // the server does not answer
	older  atomic.Bool // it is one of before lists without payloads
	mu     sync.Mutex
	sent   []*state.Envelope                         // every record that anybody posted, taken or not
	answer func(r *http.Request, body []byte) []byte // rewrites answers; nil: none
}

func newNetwork(t *testing.T) *network {
	t.Helper()
	n := &network{T: t, server: rig.New(t).Serve(t, append([]string{"--no-auth"}, store(t)...)...)}
	target, err := url.Parse(n.server.Address)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.ModifyResponse = n.rewrite
	proxy.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n.away.Load() {
			panic(http.ErrAbortHandler)
		}
		if n.older.Load() && r.URL.Query().Has("bare") {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":{"code":"invalid_argument","message":"unknown parameter \"bare\""}}`)
			return
		}
		n.note(r)
		r.Header.Del("Accept-Encoding")
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	n.url = front.URL
	return n
}

// store is where the server keeps points and records: in its folder, or where several servers
// would share them.
func store(t *testing.T) []string {
	t.Helper()
	if os.Getenv("NETSTATE_STORE") == "" {
		return nil
	}
	points := clickhouse.Any(t)
	return []string{"--store", "clickhouse://default@" + strings.Join(points.Addrs, ",") + "/" + points.Database(t), "--catalog", postgres.Any(t).URL(t)}
}

// needsFolder skips what makes a backup of the server's folder.
func needsFolder(t *testing.T) {
	t.Helper()
	if os.Getenv("NETSTATE_STORE") != "" {
		t.Skip("it backs up and restores a data folder; with NETSTATE_STORE records are in PostgreSQL")
	}
}

func (n *network) note(r *http.Request) {
	if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/state") {
		return
	}
	body, _ := io.ReadAll(r.Body) // of a process that was killed: cut short
	r.Body = io.NopCloser(bytes.NewReader(body))
	e, err := state.ReadEnvelope(bytes.NewReader(body))
	if err != nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sent = append(n.sent, e)
}

func (n *network) rewrite(r *http.Response) error {
	n.mu.Lock()
	answer := n.answer
	n.mu.Unlock()
	if answer == nil {
		return nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	body = answer(r.Request, body)
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	r.Header.Del("Content-Length")
	return nil
}

func (n *network) lie(answer func(r *http.Request, body []byte) []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.answer = answer
}

// posted are the records that were sent so far.
func (n *network) posted() []*state.Envelope {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]*state.Envelope{}, n.sent...)
}

func seedWallet(t testing.TB, name string) *chain.Wallet {
	t.Helper()
	var seed [32]byte
	copy(seed[:], name)
	w, err := chain.SeedWallet(seed)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func openDb(t testing.TB, path string) *netstate.ComputeDb {
	t.Helper()
	pool, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	d, err := netstate.OpenComputeDb(context.Background(), pool)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close(); _ = pool.Close() })
	return d
}

// options are those of a participant with a folder of its own.
func (n *network) options(name, role string) netstate.Options {
	folder := n.TempDir()
	return netstate.Options{
		DB: openDb(n, filepath.Join(folder, "database.db")), Wallet: seedWallet(n, name), Role: role, Netuid: netuid, Server: n.url,
		Run: runOptions(n.server.Address, filepath.Join(folder, "spool")), Log: slog.New(slog.DiscardHandler),
	}
}

// runOptions send the points past the proxy, which speaks no gRPC.
func runOptions(server, spool string) kymogram.Options {
	return kymogram.Options{Server: server, SpoolDir: spool, NoEnvironment: true, NoSystemMetrics: true, CloseTimeout: 5 * time.Second, Log: slog.New(slog.DiscardHandler)}
}

// join lets a participant in; change may be nil.
func (n *network) join(name, role string, change func(*netstate.Options)) *netstate.Node {
	n.Helper()
	o := n.options(name, role)
	if change != nil {
		change(&o)
	}
	node, err := netstate.Join(n.Context(), o)
	if err != nil {
		n.Fatalf("%s joins: %v", name, err)
	}
	n.Cleanup(func() { _ = node.Close(context.Background()) })
	return node
}

func (n *network) must(err error) {
	n.Helper()
	if err != nil {
		n.Fatal(err)
	}
}

func hotkey(t testing.TB, name string) string { return seedWallet(t, name).Hotkey() }

// subnet is a chain that says what a test wants.
type subnet struct {
	mu      sync.Mutex
	graph   chain.Metagraph
	failing error
}

func (s *subnet) Metagraph(context.Context, int) (*chain.Metagraph, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failing != nil {
		return nil, s.failing
	}
	out := s.graph
	return &out, nil
}

func (s *subnet) Block(context.Context) (uint64, error) { return s.graph.Block, s.failing }

func wantCode(t *testing.T, err error, code model.Code, says string) {
	t.Helper()
	if model.CodeOf(err) != code || !strings.Contains(err.Error(), says) {
		t.Errorf("%v (%s), want %s: …%s…", err, model.CodeOf(err), code, says)
	}
}

func text(t testing.TB, v any) string {
	t.Helper()
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestMain(m *testing.M) {
	if path := os.Getenv("NETSTATE_CHILD"); path != "" {
		child(path)
		return
	}
	os.Exit(m.Run())
}

func unmarshal(doc string, into any) error { return json.Unmarshal([]byte(doc), into) }

// noteOf is how much a database keeps of what a hotkey signed last.
func noteOf(t testing.TB, path, hotkey string) (size int) {
	t.Helper()
	pool, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	err = pool.QueryRowContext(context.Background(), "SELECT COALESCE(SUM(length(envelope)), 0) FROM state_seen WHERE place LIKE ?", "%"+hotkey+"%").Scan(&size)
	if err != nil {
		t.Fatal(err)
	}
	return size
}

// execDb changes a database behind everybody's back.
func execDb(t testing.TB, path, query string) {
	t.Helper()
	pool, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	done, err := pool.ExecContext(context.Background(), query)
	if err != nil {
		t.Fatal(err)
	}
	if rows, _ := done.RowsAffected(); rows == 0 {
		t.Fatalf("%s changed nothing", query)
	}
}
