package substrate_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"

	"github.com/kymogram/kymogram/internal/substrate"
	"github.com/kymogram/kymogram/internal/wallet"
)

// fake is a node that answers what a test tells it to.
type fake struct {
	t       *testing.T
	mu      sync.Mutex
	answers map[string]any // a value, or an *rpcError
	watch   []any          // statuses of a watched extrinsic
	mute    bool           // once an extrinsic is watched it answers nothing
	healthy int            // how often it is asked for its health before it tells late
	late    any            // the status that comes late
	asked   map[string]int
	conns   []*websocket.Conn
	url     string
	server  *httptest.Server
}

type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    string `json:"data,omitempty"`
}

func hash(b byte) string { return "0x" + strings.Repeat(fmt.Sprintf("%02x", b), 32) }

func newFake(t *testing.T) *fake {
	f := &fake{t: t, asked: map[string]int{}, answers: map[string]any{
		"chain_getBlockHash":      hash(1),
		"state_getRuntimeVersion": version(218),
		"state_getMetadata":       metadata(t, "dev-spec218-v14"),
		"system_accountNextIndex": 7,
		"chain_getFinalizedHead":  hash(1),
		"chain_getHeader":         map[string]any{"number": "0x2a"},
	}}
	f.server = httptest.NewServer(http.HandlerFunc(f.serve))
	f.url = "ws" + strings.TrimPrefix(f.server.URL, "http")
	t.Cleanup(f.stop)
	return f
}

func version(spec int) any { return map[string]any{"specVersion": spec, "transactionVersion": 1} }

func metadata(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile("testdata/" + name + ".scale.gz")
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

func (f *fake) serve(w http.ResponseWriter, r *http.Request) {
	ws, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	f.mu.Lock()
	f.conns = append(f.conns, ws)
	f.mu.Unlock()
	for {
		var q struct {
			ID     int
			Method string
		}
		if wsjson.Read(r.Context(), ws, &q) != nil {
			return
		}
		f.mu.Lock()
		f.asked[q.Method]++
		answer, known := f.answers[q.Method]
		watch := f.watch
		if q.Method == "system_health" && f.healthy > 0 {
			if f.healthy--; f.healthy == 0 {
				f.tell(r.Context(), ws, f.late)
			}
		}
		mute := f.mute && f.asked["author_submitAndWatchExtrinsic"] > 0 && q.Method != "author_submitAndWatchExtrinsic"
		f.mu.Unlock()
		if mute {
			continue
		}
		if change, ok := answer.(func() any); ok {
			answer = change()
		}
		reply := map[string]any{"jsonrpc": "2.0", "id": q.ID, "result": answer}
		if !known {
			answer = &rpcError{Code: -32601, Message: "Method not found"}
		}
		if e, ok := answer.(*rpcError); ok {
			delete(reply, "result")
			reply["error"] = e
		}
		_ = wsjson.Write(r.Context(), ws, reply)
		if q.Method != "author_submitAndWatchExtrinsic" {
			continue
		}
		for _, status := range watch {
			f.tell(r.Context(), ws, status)
		}
	}
}

// tell tells what became of the watched extrinsic.
func (f *fake) tell(ctx context.Context, ws *websocket.Conn, status any) {
	_ = wsjson.Write(ctx, ws, map[string]any{
		"jsonrpc": "2.0", "method": "author_extrinsicUpdate",
		"params": map[string]any{"subscription": "sub", "result": status},
	})
}

func (f *fake) set(method string, answer any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answers[method] = answer
}

func (f *fake) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.conns {
		_ = c.CloseNow()
	}
}

func (f *fake) stop() {
	_ = f.server.Listener.Close()
	f.cut()
}

func client(t *testing.T, urls ...string) *substrate.Client {
	t.Helper()
	c, err := substrate.New(urls, substrate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestFailover(t *testing.T) {
	a, b := newFake(t), newFake(t)
	a.set("where", "a")
	b.set("where", "b")
	c := client(t, "ws://127.0.0.1:1", a.url, b.url)
	where := func() (s string, err error) {
		err = c.Call(t.Context(), &s, "where")
		return s, err
	}
	want := func(name, want string) {
		t.Helper()
		if got, err := where(); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", name, got, err, want)
		}
	}
	want("the first that answers", "a")
	a.cut()
	want("a connection that broke is not the end", "b")
	a.stop()
	b.cut()
	want("back by way of those that are gone", "b")
	b.stop()
	_, err := where()
	var broken *substrate.TransportError
	if !errors.As(err, &broken) || !strings.Contains(err.Error(), strings.TrimPrefix(a.url, "ws://")) || !strings.Contains(err.Error(), "127.0.0.1:1:") {
		t.Errorf("none: %v", err)
	}
}

func TestAnotherChainIsNoSubstitute(t *testing.T) {
	a, b := newFake(t), newFake(t)
	b.set("chain_getBlockHash", hash(2))
	a.set("where", "a")
	b.set("where", "b")
	c := client(t, a.url, b.url)
	var s string
	if err := c.Call(t.Context(), &s, "where"); err != nil || s != "a" {
		t.Fatalf("%q, %v", s, err)
	}
	a.stop()
	if err := c.Call(t.Context(), &s, "where"); err == nil || !strings.Contains(err.Error(), "another chain") {
		t.Errorf("%q, %v", s, err)
	}
}

// An endpoint's address may hold a key: errors show the host only.
func TestErrorsHideKeysOfEndpoints(t *testing.T) {
	c := client(t, "ws://user:word@127.0.0.1:1/key-12345?token=67890")
	err := c.Call(t.Context(), nil, "where")
	for _, secret := range []string{"word", "12345", "67890"} {
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("the error shows %q: %v", secret, err)
		}
	}
}

func TestUpgradeIsNoticed(t *testing.T) {
	f := newFake(t)
	c := client(t, f.url)
	read := func() int {
		t.Helper()
		r, err := c.Runtime(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return r.Metadata.Version
	}
	if first, second := read(), read(); first != 14 || second != 14 || f.asked["state_getMetadata"] != 1 {
		t.Errorf("metadata was read %d times", f.asked["state_getMetadata"])
	}
	f.set("state_getRuntimeVersion", version(365))
	f.set("state_getMetadata", metadata(t, "finney-spec365-v16"))
	if read() != 16 || f.asked["state_getMetadata"] != 2 {
		t.Error("the upgrade was not noticed")
	}
}

// account is one whose seed is "k" and zeros.
func account(t *testing.T) substrate.Account {
	t.Helper()
	key, err := wallet.NewKey([32]byte{'k'})
	if err != nil {
		t.Fatal(err)
	}
	return substrate.Account{Public: key.Account(), Address: key.Account().String(), Signer: key}
}

// A node that upgrades between signing and sending says that the signature is bad:
// then, and only then, it is signed and sent again.
func TestUpgradeWhileSubmitting(t *testing.T) {
	f := newFake(t)
	bad := &rpcError{1010, "Invalid Transaction", "Transaction has a bad signature"}
	f.set("author_submitExtrinsic", bad)
	c := client(t, f.url)
	submit := func() error {
		args := map[string]any{"netuid": 1, "version": 1, "ip": 1, "port": 1, "ip_type": 4}
		_, err := c.Submit(t.Context(), account(t), "SubtensorModule", "serve_prometheus", args, substrate.WaitNone)
		return err
	}
	var refused *substrate.PoolError
	if err := submit(); !errors.As(err, &refused) || refused.Kind != "BadProof" || f.asked["author_submitExtrinsic"] != 1 {
		t.Errorf("without an upgrade: %v after %d", err, f.asked["author_submitExtrinsic"])
	}
	first := true
	f.set("author_submitExtrinsic", func() any {
		if first {
			first = false
			f.set("state_getRuntimeVersion", version(219))
			return bad
		}
		return hash(9)
	})
	if err := submit(); err != nil || f.asked["author_submitExtrinsic"] != 3 {
		t.Errorf("with an upgrade: %v after %d", err, f.asked["author_submitExtrinsic"])
	}
}

func TestNonceHasTwoNames(t *testing.T) {
	f := newFake(t)
	c := client(t, f.url)
	if n, err := c.Nonce(t.Context(), "5D"); err != nil || n != 7 {
		t.Errorf("%d, %v", n, err)
	}
	f.mu.Lock()
	delete(f.answers, "system_accountNextIndex")
	f.mu.Unlock()
	f.set("account_nextIndex", 8)
	if n, err := c.Nonce(t.Context(), "5D"); err != nil || n != 8 {
		t.Errorf("%d, %v", n, err)
	}
}

// What nodes say in their own words, by name.
func TestPoolRefusals(t *testing.T) {
	f := newFake(t)
	c := client(t, f.url)
	for _, want := range []struct {
		code       int
		data, kind string
	}{
		{1010, "Transaction has a bad signature", "BadProof"},
		{1010, "Transaction is outdated", "Stale"},
		{1010, "Transaction will be valid in the future", "Future"},
		{1010, "Inability to pay some fees (e.g. account balance too low)", "Payment"},
		{1010, "Transaction call is not expected", "Call"},
		{1010, "Invalid signing address", "BadSigner"},
		{1010, "something new", "Invalid"},
		{1010, "Custom error: 12", "Custom"},
		{1011, "Custom error: 3", "Custom"},
		{1012, "", "Banned"},
		{1013, "[0x00]", "AlreadyImported"},
		{1014, "The transaction has too low priority to replace another transaction already in the pool.", "LowPriority"},
		{1016, "", "Dropped"},
	} {
		f.set("author_submitExtrinsic", &rpcError{want.code, "Refused", want.data})
		_, err := c.SubmitSigned(t.Context(), []byte{1}, substrate.WaitNone)
		var refused *substrate.PoolError
		if !errors.As(err, &refused) || refused.Kind != want.kind || (refused.Custom != nil) != (want.kind == "Custom") {
			t.Errorf("%+v: %v", want, err)
		}
	}
	f.set("author_submitExtrinsic", &rpcError{-32000, "busy", ""})
	_, err := c.SubmitSigned(t.Context(), []byte{1}, substrate.WaitNone)
	var refused *substrate.PoolError
	var answer *substrate.RPCError
	if errors.As(err, &refused) || !errors.As(err, &answer) || answer.Code != -32000 {
		t.Errorf("another error: %v", err)
	}
}

func TestWatchedExtrinsicsThatComeToNothing(t *testing.T) {
	for _, status := range []string{`"dropped"`, `"invalid"`, `{"usurped":"` + hash(3) + `"}`, `{"finalityTimeout":"` + hash(3) + `"}`} {
		f := newFake(t)
		f.set("author_submitAndWatchExtrinsic", "sub")
		f.watch = []any{"ready", json.RawMessage(`{"broadcast":["peer"]}`), json.RawMessage(status)}
		_, err := client(t, f.url).SubmitSigned(t.Context(), []byte{1}, substrate.WaitFinalization)
		var refused *substrate.PoolError
		if !errors.As(err, &refused) || !strings.Contains(strings.ToLower(status), strings.ToLower(refused.Kind)) {
			t.Errorf("%s: %v", status, err)
		}
	}
}

// A block that a fork gave up does not count: the one that is final does.
func TestRetractedBlocks(t *testing.T) {
	f := newFake(t)
	f.set("author_submitAndWatchExtrinsic", "sub")
	f.set("chain_getBlock", map[string]any{"block": map[string]any{"extrinsics": []string{"0x01"}}})
	// One event: System.ExtrinsicSuccess of extrinsic 0.
	f.set("state_getStorage", "0x04000000000000000000000000")
	f.watch = []any{
		json.RawMessage(`{"inBlock":"` + hash(3) + `"}`), json.RawMessage(`{"retracted":"` + hash(3) + `"}`),
		json.RawMessage(`{"inBlock":"` + hash(4) + `"}`), json.RawMessage(`{"finalized":"` + hash(4) + `"}`),
	}
	receipt, err := client(t, f.url).SubmitSigned(t.Context(), []byte{1}, substrate.WaitFinalization)
	if err != nil || receipt.Block.String() != hash(4) || !receipt.Finalized {
		t.Errorf("%+v, %v", receipt, err)
	}
}

// A node that says nothing more is given up; the connection stays open.
func TestSilentNode(t *testing.T) {
	f := newFake(t)
	f.set("author_submitAndWatchExtrinsic", "sub")
	f.watch, f.mute = []any{"ready"}, true
	c, err := substrate.New([]string{f.url}, substrate.Options{Silence: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	receipt, err := c.SubmitSigned(t.Context(), []byte{1}, substrate.WaitFinalization)
	var broken *substrate.TransportError
	if !errors.As(err, &broken) || !strings.Contains(err.Error(), "said nothing for 300ms") || receipt.Block != nil {
		t.Errorf("%+v, %v", receipt, err)
	}
	if f.asked["system_health"] != 1 || f.asked["author_submitAndWatchExtrinsic"] != 1 {
		t.Errorf("asked %v", f.asked)
	}
}

// One that has nothing to tell for long, and answers, is waited for.
func TestSlowFinality(t *testing.T) {
	f := newFake(t)
	f.set("author_submitAndWatchExtrinsic", "sub")
	f.set("system_health", map[string]any{"peers": 1})
	f.set("chain_getBlock", map[string]any{"block": map[string]any{"extrinsics": []string{"0x01"}}})
	f.set("state_getStorage", "0x04000000000000000000000000") // System.ExtrinsicSuccess of extrinsic 0
	f.watch, f.healthy, f.late = []any{"ready"}, 5, json.RawMessage(`{"finalized":"`+hash(4)+`"}`)
	c, err := substrate.New([]string{f.url}, substrate.Options{Silence: 3 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	receipt, err := c.SubmitSigned(t.Context(), []byte{1}, substrate.WaitFinalization)
	if err != nil || !receipt.Finalized || f.asked["system_health"] != 5 {
		t.Errorf("%+v, %v, %v", receipt, err, f.asked)
	}
}
