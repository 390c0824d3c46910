package subtensor

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
	"golang.org/x/crypto/blake2b"

	"github.com/kymogram/kymogram/internal/wallet"
)

// maxRequest is far above an extrinsic in hex.
const maxRequest = 16 << 20

type request struct {
	ID     json.RawMessage   `json:"id"`
	Method string            `json:"method"`
	Params []json.RawMessage `json:"params"`
}

// session is one client.
type session struct {
	node    *Node
	ws      *websocket.Conn
	mu      sync.Mutex
	subs    map[string]context.CancelFunc
	waiting []pending
	work    sync.WaitGroup
}

// ServeHTTP speaks JSON-RPC over WebSocket.
func (n *Node) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		return // Accept has answered
	}
	ws.SetReadLimit(maxRequest)
	ctx, cancel := context.WithCancel(r.Context())
	s := &session{node: n, ws: ws, subs: map[string]context.CancelFunc{}}
	n.mu.Lock()
	n.open[s] = true
	n.mu.Unlock()
	s.serve(ctx)
	cancel()
	n.mu.Lock()
	delete(n.open, s)
	n.mu.Unlock()
	s.work.Wait()
	_ = ws.CloseNow()
}

func (s *session) serve(ctx context.Context) {
	for {
		var raw json.RawMessage
		if wsjson.Read(ctx, s.ws, &raw) != nil {
			return
		}
		var reply any
		var batch []json.RawMessage
		if json.Unmarshal(raw, &batch) == nil {
			list := []any{}
			for _, one := range batch {
				list = append(list, s.reply(ctx, one))
			}
			reply = list
		} else {
			reply = s.reply(ctx, raw)
		}
		if wsjson.Write(ctx, s.ws, reply) != nil {
			return
		}
		s.start()
	}
}

func (s *session) reply(ctx context.Context, raw json.RawMessage) any {
	var q request
	if err := json.Unmarshal(raw, &q); err != nil {
		return map[string]any{"jsonrpc": "2.0", "id": nil, "error": map[string]any{"code": -32700, "message": "Parse error"}}
	}
	result, err := s.answer(ctx, q)
	if err == nil {
		return map[string]any{"jsonrpc": "2.0", "id": q.ID, "result": result}
	}
	refusal := &Refusal{Code: -32603, Message: err.Error()}
	errors.As(err, &refusal)
	body := map[string]any{"code": refusal.Code, "message": refusal.Message}
	if refusal.Data != "" {
		body["data"] = refusal.Data
	}
	return map[string]any{"jsonrpc": "2.0", "id": q.ID, "error": body}
}

func (s *session) answer(ctx context.Context, q request) (any, error) {
	p := params(q.Params)
	switch q.Method {
	case "author_submitAndWatchExtrinsic":
		return s.watch(ctx, p)
	case "chain_subscribeNewHeads", "chain_subscribeNewHead", "chain_subscribeFinalizedHeads", "chain_subscribeAllHeads":
		return s.heads(ctx, q.Method)
	case "state_subscribeRuntimeVersion":
		return s.subscribe(ctx, "state_runtimeVersion", func(ctx context.Context, send func(any) error) {
			if v, err := s.node.runtimeVersion(ctx); err == nil {
				_ = send(v)
			}
		}), nil
	case "author_unwatchExtrinsic", "chain_unsubscribeNewHeads", "chain_unsubscribeFinalizedHeads", "chain_unsubscribeAllHeads", "state_unsubscribeRuntimeVersion":
		return s.unsubscribe(p)
	}
	method, ok := methods()[q.Method]
	if !ok {
		return nil, &Refusal{Code: -32601, Message: "Method not found"}
	}
	return method(ctx, s.node, p)
}

// params are read by place; missing ones are empty.
type params []json.RawMessage

func (p params) text(i int) (out string) {
	if i < len(p) {
		_ = json.Unmarshal(p[i], &out) // null and other kinds read as empty
	}
	return out
}

func (p params) bytes(i int) ([]byte, error) {
	out, err := hex.DecodeString(strings.TrimPrefix(p.text(i), "0x"))
	if err != nil {
		return nil, &Refusal{Code: -32602, Message: "Invalid params", Data: err.Error()}
	}
	return out, nil
}

func shown(b []byte) string { return "0x" + hex.EncodeToString(b) }

func shownOrNull(b []byte) any {
	if b == nil {
		return nil
	}
	return shown(b)
}

// at is the block that a parameter names, the best one when it names none.
func (n *Node) at(p params, i int) (*block, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	raw, err := p.bytes(i)
	best := n.seen()
	if err != nil || len(raw) == 0 {
		return best, err
	}
	if len(raw) == 32 {
		if b := n.byHash[[32]byte(raw)]; b != nil && b.number <= best.number {
			return b, nil
		}
	}
	return nil, &Refusal{Code: unknownBlock, Message: "Client error: UnknownBlock"}
}

// unknownBlock is the code of nodes for a block that they do not have.
const unknownBlock = 4003

type method = func(ctx context.Context, n *Node, p params) (any, error)

func fixed(v any) method {
	return func(context.Context, *Node, params) (any, error) { return v, nil }
}

func methods() map[string]method {
	head := func(_ context.Context, n *Node, _ params) (any, error) {
		n.mu.Lock()
		defer n.mu.Unlock()
		return shown(n.seen().hash[:]), nil
	}
	return map[string]method{
		"system_chain":      fixed("Bittensor"),
		"system_name":       fixed("kymogram subtensor testkit"),
		"system_version":    fixed("0"),
		"system_properties": fixed(map[string]any{"ss58Format": 42, "tokenDecimals": 9, "tokenSymbol": "TAO"}),
		"system_health":     fixed(map[string]any{"peers": 0, "isSyncing": false, "shouldHavePeers": false}),
		"rpc_methods": func(context.Context, *Node, params) (any, error) {
			return map[string]any{"methods": slices.Sorted(maps.Keys(methods()))}, nil
		},
		"chain_getHead": head, "chain_getFinalizedHead": head, "chain_getFinalisedHead": head,
		"chain_getBlockHash":       blockHash,
		"chain_getHeader":          blockHeader,
		"chain_getBlock":           wholeBlock,
		"state_getMetadata":        func(ctx context.Context, n *Node, p params) (any, error) { return n.metadata(ctx, p) },
		"state_call":               stateCall,
		"state_getStorage":         getStorage,
		"state_getStorageAt":       getStorage,
		"state_getKeysPaged":       keysPaged,
		"state_getKeysPagedAt":     keysPaged,
		"state_queryStorageAt":     queryStorage,
		"state_getStorageSize":     storageSize,
		"account_nextIndex":        nextIndex,
		"system_accountNextIndex":  nextIndex,
		"state_getRuntimeVersion":  func(ctx context.Context, n *Node, _ params) (any, error) { return n.runtimeVersion(ctx) },
		"chain_getRuntimeVersion":  func(ctx context.Context, n *Node, _ params) (any, error) { return n.runtimeVersion(ctx) },
		"author_submitExtrinsic":   submitExtrinsic,
		"author_pendingExtrinsics": fixed([]any{}),
		"dev_newBlock":             newBlock,
	}
}

func blockHash(_ context.Context, n *Node, p params) (any, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(p) == 0 || string(p[0]) == "null" {
		return shown(n.seen().hash[:]), nil
	}
	var number uint64
	if text := p.text(0); text != "" {
		var err error
		if number, err = strconv.ParseUint(text, 0, 64); err != nil {
			return nil, &Refusal{Code: -32602, Message: "Invalid params", Data: err.Error()}
		}
	} else if err := json.Unmarshal(p[0], &number); err != nil {
		return nil, &Refusal{Code: -32602, Message: "Invalid params", Data: err.Error()}
	}
	if number > uint64(n.seen().number) {
		return nil, nil
	}
	return shown(n.blocks[number].hash[:]), nil
}

// header shows a header; its digest's items stay encoded.
func header(b *block) any {
	if b == nil {
		return nil
	}
	_, size := readCompact(b.header[32:])
	rest := b.header[32+size:]
	logs := []string{}
	items, at := readCompact(rest[64:])
	digest := rest[64+at:]
	for range items {
		// An item is its kind, an engine of 4 bytes, and a vector.
		n, prefix := readCompact(digest[5:])
		end := 5 + prefix + n
		logs = append(logs, shown(digest[:end]))
		digest = digest[end:]
	}
	return map[string]any{
		"parentHash": shown(b.header[:32]), "number": fmt.Sprintf("0x%x", b.number),
		"stateRoot": shown(rest[:32]), "extrinsicsRoot": shown(rest[32:64]), "digest": map[string]any{"logs": logs},
	}
}

// known is at, without a block where this node has none: what is null to a real one.
func (n *Node) known(p params) (*block, error) {
	b, err := n.at(p, 0)
	var refusal *Refusal
	if errors.As(err, &refusal) && refusal.Code == unknownBlock {
		return nil, nil
	}
	return b, err
}

func blockHeader(_ context.Context, n *Node, p params) (any, error) {
	b, err := n.known(p)
	return header(b), err
}

func wholeBlock(_ context.Context, n *Node, p params) (any, error) {
	b, err := n.known(p)
	if err != nil || b == nil {
		return nil, err
	}
	list := []string{}
	for _, one := range b.extrinsics {
		list = append(list, shown(one))
	}
	return map[string]any{"block": map[string]any{"header": header(b), "extrinsics": list}, "justifications": nil}, nil
}

func (n *Node) callAt(ctx context.Context, b *block, entry string, input []byte) ([]byte, error) {
	return n.code.call(ctx, newState(b.state), entry, input)
}

func (n *Node) metadata(ctx context.Context, p params) (any, error) {
	b, err := n.at(p, 0)
	if err != nil {
		return nil, err
	}
	raw, err := n.callAt(ctx, b, "Metadata_metadata", nil)
	if err != nil {
		return nil, err
	}
	_, size := readCompact(raw) // the answer is a vector of bytes
	return shown(raw[size:]), nil
}

func stateCall(ctx context.Context, n *Node, p params) (any, error) {
	b, err := n.at(p, 2)
	if err != nil {
		return nil, err
	}
	input, err := p.bytes(1)
	if err != nil {
		return nil, err
	}
	raw, err := n.callAt(ctx, b, p.text(0), input)
	return shown(raw), err
}

func getStorage(_ context.Context, n *Node, p params) (any, error) {
	b, err := n.at(p, 1)
	if err != nil {
		return nil, err
	}
	key, err := p.bytes(0)
	return shownOrNull(b.state[string(key)]), err
}

func storageSize(_ context.Context, n *Node, p params) (any, error) {
	b, err := n.at(p, 1)
	if err != nil {
		return nil, err
	}
	key, err := p.bytes(0)
	return len(b.state[string(key)]), err
}

func keysPaged(_ context.Context, n *Node, p params) (any, error) {
	b, err := n.at(p, 3)
	if err != nil {
		return nil, err
	}
	prefix, err := p.bytes(0)
	if err != nil {
		return nil, err
	}
	after, err := p.bytes(2)
	if err != nil {
		return nil, err
	}
	var count int
	if len(p) > 1 {
		_ = json.Unmarshal(p[1], &count)
	}
	out := []string{}
	for _, key := range slices.Sorted(maps.Keys(b.state)) {
		if strings.HasPrefix(key, string(prefix)) && key > string(after) && len(out) < count {
			out = append(out, shown([]byte(key)))
		}
	}
	return out, nil
}

func queryStorage(_ context.Context, n *Node, p params) (any, error) {
	b, err := n.at(p, 1)
	if err != nil {
		return nil, err
	}
	var keys []string
	if len(p) > 0 {
		_ = json.Unmarshal(p[0], &keys)
	}
	changes := [][2]any{}
	for _, key := range keys {
		raw, err := hex.DecodeString(strings.TrimPrefix(key, "0x"))
		if err != nil {
			return nil, &Refusal{Code: -32602, Message: "Invalid params", Data: err.Error()}
		}
		changes = append(changes, [2]any{key, shownOrNull(b.state[string(raw)])})
	}
	return []any{map[string]any{"block": shown(b.hash[:]), "changes": changes}}, nil
}

func nextIndex(ctx context.Context, n *Node, p params) (any, error) {
	account, _, err := wallet.ParseAddress(p.text(0))
	if err != nil {
		return nil, &Refusal{Code: -32602, Message: "Invalid params", Data: err.Error()}
	}
	b, err := n.at(nil, 0)
	if err != nil {
		return nil, err
	}
	raw, err := n.callAt(ctx, b, "AccountNonceApi_account_nonce", account[:])
	if err != nil {
		return nil, err
	}
	return binary.LittleEndian.Uint32(raw), nil
}

// runtimeVersion reads what Core_version answers: names, versions, the APIs.
func (n *Node) runtimeVersion(ctx context.Context) (any, error) {
	b, err := n.at(nil, 0)
	if err != nil {
		return nil, err
	}
	raw, err := n.callAt(ctx, b, "Core_version", nil)
	if err != nil {
		return nil, err
	}
	text := func() string {
		size, prefix := readCompact(raw)
		out := string(raw[prefix : prefix+size])
		raw = raw[prefix+size:]
		return out
	}
	number := func() uint32 {
		out := binary.LittleEndian.Uint32(raw)
		raw = raw[4:]
		return out
	}
	v := map[string]any{"specName": text(), "implName": text()}
	v["authoringVersion"], v["specVersion"], v["implVersion"] = number(), number(), number()
	count, prefix := readCompact(raw)
	raw = raw[prefix:]
	apis := [][2]any{}
	for range count {
		id := shown(raw[:8])
		raw = raw[8:]
		apis = append(apis, [2]any{id, number()})
	}
	v["apis"], v["transactionVersion"] = apis, number()
	v["stateVersion"] = raw[0]
	return v, nil
}

func submitExtrinsic(ctx context.Context, n *Node, p params) (any, error) {
	raw, err := p.bytes(0)
	if err != nil {
		return nil, err
	}
	if _, err := n.submit(ctx, raw); err != nil {
		return nil, err
	}
	hash := blake2b.Sum256(raw)
	return shown(hash[:]), nil
}

// newBlock makes blocks on demand: {"count": n}, one by default.
func newBlock(ctx context.Context, n *Node, p params) (any, error) {
	options := struct {
		Count int `json:"count"`
	}{Count: 1}
	if len(p) > 0 {
		_ = json.Unmarshal(p[0], &options)
	}
	if err := n.Produce(ctx, options.Count); err != nil {
		return nil, err
	}
	return n.Number(), nil
}

// Cut breaks every connection, as a node does that restarts.
func (n *Node) Cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut()
}

func (n *Node) cut() {
	for s := range n.open {
		_ = s.ws.CloseNow()
	}
}

// CutAfterNext breaks every connection once the next extrinsic is in its block,
// before its sender hears of it.
func (n *Node) CutAfterNext() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cutNext = true
}

// HoldNext leaves the next extrinsic in the pool and breaks every connection; it
// gets its block just before the extrinsic after it is looked at.
func (n *Node) HoldNext() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.holdNext = true
}
