package chain

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"

	"github.com/kymogram/kymogram/internal/substrate"
)

// lazy is a node in memory, so that a fake clock rules it: what it does not do is the test.
type lazy struct {
	metadata string
	// delay comes before each answer; negative: there is none.
	delay time.Duration
	// deaf answers no call after the extrinsic came, or only that of its health.
	deaf, healthy bool
	// statuses are told of the extrinsic, each after a minute.
	statuses []any
	pool     *rpcRefusal

	mu    sync.Mutex
	conns []net.Conn
	queue chan net.Conn
}

type rpcRefusal struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    string `json:"data"`
}

func readMetadata(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile("../internal/substrate/testdata/dev-spec218-v14.scale.gz")
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	raw, err = io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("0x%x", raw)
}

// Accept, Close and Addr make it a listener of pipes.
func (n *lazy) Accept() (net.Conn, error) {
	c, ok := <-n.queue
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (n *lazy) Close() error   { return nil }
func (n *lazy) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

func (n *lazy) dial(context.Context, string, string) (net.Conn, error) {
	here, there := net.Pipe()
	n.mu.Lock()
	n.conns = append(n.conns, here, there)
	n.mu.Unlock()
	n.queue <- there
	return here, nil
}

func (n *lazy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ws, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer ws.CloseNow()
	var write sync.Mutex
	sent := false
	for {
		var q struct {
			ID     int
			Method string
			Params []any
		}
		if wsjson.Read(r.Context(), ws, &q) != nil {
			return
		}
		if n.delay < 0 || n.deaf && sent && (!n.healthy || q.Method != "system_health") {
			continue
		}
		time.Sleep(n.delay)
		reply := map[string]any{"jsonrpc": "2.0", "id": q.ID, "result": n.answer(q.Method, q.Params)}
		if q.Method == "author_submitAndWatchExtrinsic" && n.pool != nil {
			delete(reply, "result")
			reply["error"] = n.pool
		}
		write.Lock()
		err := wsjson.Write(r.Context(), ws, reply)
		write.Unlock()
		if err != nil {
			return
		}
		if q.Method != "author_submitAndWatchExtrinsic" || n.pool != nil {
			continue
		}
		sent = true
		go func() {
			for _, status := range n.statuses {
				time.Sleep(time.Minute)
				write.Lock()
				_ = wsjson.Write(r.Context(), ws, map[string]any{
					"jsonrpc": "2.0", "method": "author_extrinsicUpdate",
					"params": map[string]any{"subscription": "s", "result": status},
				})
				write.Unlock()
			}
		}()
	}
}

func (n *lazy) answer(method string, params []any) any {
	hash := "0x" + strings.Repeat("07", 32)
	switch method {
	case "state_getRuntimeVersion":
		return map[string]any{"specVersion": 218, "transactionVersion": 1}
	case "state_getMetadata":
		return n.metadata
	case "chain_getHeader":
		return map[string]any{"number": "0x100"} // and so for ever
	case "chain_getBlockHash", "chain_getFinalizedHead":
		return hash
	case "chain_getBlock":
		return nil // it has none of the blocks that it names
	case "state_call":
		return "0x00000000"
	case "author_submitAndWatchExtrinsic":
		return "s"
	case "system_health":
		return map[string]any{"peers": 1}
	}
	return nil
}

// Whatever a node does or leaves out, a look ends within the era and a minute, and the error
// says what is known. The clock is a fake one.
func TestEveryLookEndsInTime(t *testing.T) {
	const era = 64 * 12 * time.Second
	metadata := readMetadata(t)
	block := map[string]any{"inBlock": "0x" + strings.Repeat("09", 32)}
	endless := make([]any, 100)
	for i := range endless {
		endless[i] = "ready"
	}
	for name, node := range map[string]*lazy{
		"silent from the start":                {delay: -1},
		"silent once it has the extrinsic":     {deaf: true},
		"a proxy that swallows the notes":      {deaf: true, healthy: true},
		"each answer takes 29 s":               {delay: 29 * time.Second},
		"each answer takes 31 s":               {delay: 31 * time.Second},
		"each answer takes 5 s":                {delay: 5 * time.Second},
		"ready, ready, ready":                  {statuses: endless},
		"a block that no node has":             {statuses: []any{block}},
		"blocks that forks take back":          {statuses: []any{block, map[string]any{"retracted": block["inBlock"]}, block, "ready"}},
		"a pool that prefers another for ever": {pool: &rpcRefusal{1014, "Priority is too low", ""}},
		"a pool where it is outdated for ever": {pool: &rpcRefusal{1010, "Invalid Transaction", "Transaction is outdated"}},
		"slow, and another is preferred":       {delay: 5 * time.Second, pool: &rpcRefusal{1014, "Priority is too low", ""}},
	} {
		for _, exact := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%v", name, exact), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					n := &lazy{metadata: metadata, delay: node.delay, deaf: node.deaf, healthy: node.healthy, statuses: node.statuses, pool: node.pool, queue: make(chan net.Conn, 64)}
					server := &http.Server{Handler: n}
					go func() { _ = server.Serve(n) }()
					s, err := Dial(Config{Endpoints: []string{"ws://lazy"}, ExternalIP: netip.MustParseAddr("8.8.8.8"), Version: 183})
					if err != nil {
						t.Fatal(err)
					}
					transport := &http.Transport{DialContext: n.dial}
					if s.client, err = substrate.New([]string{"ws://lazy"}, substrate.Options{HTTP: &http.Client{Transport: transport}}); err != nil {
						t.Fatal(err)
					}
					w, err := SeedWallet([32]byte{'w'})
					if err != nil {
						t.Fatal(err)
					}
					began := time.Now()
					if exact {
						_, err = s.DoServePrometheus(t.Context(), w, NewCallParams(1, netip.MustParseAddr("8.8.8.8"), 9101, 183), true, false)
					} else {
						g := s.Registrar(w, Lifecycle{Netuid: 1, Port: 9101})
						err = g.InitPrometheus(t.Context())
						if r := g.Status().Result; r != Unreachable && r != Refused {
							t.Errorf("the look ended %s", r)
						}
					}
					took := time.Since(began)
					if err == nil || took > era+time.Minute {
						t.Errorf("it took %s: %v", took, err)
					}
					t.Logf("%s: %v", took, err)
					s.Close()
					transport.CloseIdleConnections()
					close(n.queue)
					_ = server.Close()
					n.mu.Lock()
					for _, c := range n.conns {
						_ = c.Close()
					}
					n.mu.Unlock()
					time.Sleep(2 * time.Hour) // the node's own goroutines end
				})
			})
		}
	}
}
