package substrate

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// staleAfter is how long an unused connection is trusted: nobody reads it, so
// nothing answers a node's pings, and a router may have forgotten it.
const staleAfter = 20 * time.Second

// Options are what code sets.
type Options struct {
	Now func() time.Time
	Log *slog.Logger
	// Silence is how long a node may say nothing while an extrinsic is watched; 0: 30 s.
	Silence time.Duration
	// HTTP opens connections; nil: http.DefaultClient.
	HTTP *http.Client
	// Sleep waits between tries; nil is the real thing.
	Sleep func(ctx context.Context, d time.Duration) error
}

// Client talks to one chain through one or more nodes. It is safe for concurrent
// use; calls wait for one another.
type Client struct {
	endpoints []string
	now       func() time.Time
	log       *slog.Logger
	silence   time.Duration
	http      *http.Client
	sleep     func(ctx context.Context, d time.Duration) error

	turn    chan struct{} // holds one token: who has it uses what follows
	conn    *conn
	used    time.Time
	at      int // the endpoint in use
	genesis *Hash
	runtime *Runtime
}

// Runtime is the chain's code as it is now.
type Runtime struct {
	SpecVersion uint32
	TxVersion   uint32
	Genesis     Hash
	Metadata    *Metadata
}

// New makes a client of the chain that all endpoints serve (ws:// or wss://); the
// first that answers is used, and the next when it stops. It connects on demand.
func New(endpoints []string, o Options) (*Client, error) {
	if len(endpoints) == 0 {
		return nil, errors.New("no endpoint: name the WebSocket address of a node")
	}
	for _, e := range endpoints {
		if err := checkEndpoint(e); err != nil {
			return nil, err
		}
	}
	c := &Client{endpoints: endpoints, now: o.Now, log: o.Log, silence: cmp.Or(o.Silence, maxSilence), http: o.HTTP, sleep: o.Sleep, turn: make(chan struct{}, 1)}
	if c.now == nil {
		c.now = time.Now
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	if c.sleep == nil {
		c.sleep = sleep
	}
	c.turn <- struct{}{}
	return c, nil
}

// Close ends the connection; the client can be used again.
func (c *Client) Close() {
	<-c.turn
	c.drop()
	c.turn <- struct{}{}
}

func (c *Client) drop() {
	if c.conn != nil {
		c.conn.close()
		c.conn = nil
	}
}

// with runs an idempotent act on the connection, and once more on every other
// endpoint while connections fail.
func (c *Client) with(ctx context.Context, act func(*conn) error) error {
	select {
	case <-c.turn:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { c.turn <- struct{}{} }()
	if c.conn != nil && c.now().Sub(c.used) > staleAfter {
		c.drop()
	}
	var failures []error
	// One try more than endpoints: the kept connection may have died unseen.
	for range len(c.endpoints) + 1 {
		err := c.try(ctx, act)
		var broken *TransportError
		if !errors.As(err, &broken) {
			return err
		}
		c.drop()
		c.log.Debug("endpoint failed", "endpoint", broken.Endpoint, "err", broken.Err)
		failures = append(failures, err)
		c.at = (c.at + 1) % len(c.endpoints)
	}
	return joined(failures)
}

// joined names every endpoint once.
func joined(failures []error) error {
	seen := map[string]bool{}
	var texts []string
	for _, err := range failures {
		if text := err.Error(); !seen[text] {
			seen[text] = true
			texts = append(texts, text)
		}
	}
	return &TransportError{Endpoint: "no node answers", Err: errors.New(strings.Join(texts, "; "))}
}

func (c *Client) try(ctx context.Context, act func(*conn) error) error {
	if c.conn == nil {
		opened, err := c.open(ctx, c.endpoints[c.at])
		if err != nil {
			return err
		}
		c.conn = opened
	}
	err := act(c.conn)
	c.used = c.now()
	if ctx.Err() != nil {
		c.drop() // an unread answer may still come
	}
	return err
}

// open connects and makes sure that the node serves the chain that the first one
// served.
func (c *Client) open(ctx context.Context, endpoint string) (*conn, error) {
	opened, err := dial(ctx, endpoint, c.http)
	if err != nil {
		return nil, err
	}
	opened.silence = c.silence
	var genesis Hash
	if err := opened.call(ctx, &genesis, "chain_getBlockHash", 0); err != nil {
		opened.close()
		var refused *RPCError
		if errors.As(err, &refused) {
			err = &TransportError{Endpoint: shown(endpoint), Err: refused}
		}
		return nil, err
	}
	if c.genesis != nil && *c.genesis != genesis {
		opened.close()
		return nil, &TransportError{Endpoint: shown(endpoint), Err: fmt.Errorf("it serves another chain (genesis %s, not %s)", genesis, *c.genesis)}
	}
	c.genesis = &genesis
	return opened, nil
}

// Call makes a call that may be repeated: when a connection breaks, and while the node
// does not have the block that it is about.
func (c *Client) Call(ctx context.Context, out any, method string, params ...any) error {
	return c.patient(ctx, func() error {
		return c.with(ctx, func(conn *conn) error { return conn.call(ctx, out, method, params...) })
	})
}

// A balancer may give each call to another node, and nodes are some blocks apart. A block
// that one node named is asked for until the last of them must have it.
const (
	lagPause = 3 * time.Second
	lagTries = 21 // five blocks of 12 s
)

var errNoBlock = errors.New("the node does not have the block (yet)")

func (c *Client) patient(ctx context.Context, act func() error) error {
	for try := 1; ; try++ {
		err := act()
		if try == lagTries || !unknownBlock(err) {
			return err
		}
		if err := c.sleep(ctx, lagPause); err != nil {
			return err
		}
	}
}

// unknownBlock reads the words that nodes have for it. A block that was known, and whose
// state is thrown away, does not come back.
func unknownBlock(err error) bool {
	var refused *RPCError
	if !errors.As(err, &refused) {
		return errors.Is(err, errNoBlock)
	}
	text := strings.ToLower(refused.Error())
	return !strings.Contains(text, "discarded") &&
		(strings.Contains(text, "unknownblock") || strings.Contains(text, "unknown block") || strings.Contains(text, "header was not found"))
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Runtime is the chain's code now. The metadata is read again whenever the chain
// was upgraded.
func (c *Client) Runtime(ctx context.Context) (r *Runtime, err error) {
	err = c.with(ctx, func(conn *conn) error {
		r, err = c.readRuntime(ctx, conn)
		return err
	})
	return r, err
}

func (c *Client) readRuntime(ctx context.Context, conn *conn) (*Runtime, error) {
	var version struct {
		SpecVersion        uint32 `json:"specVersion"`
		TransactionVersion uint32 `json:"transactionVersion"`
	}
	if err := conn.call(ctx, &version, "state_getRuntimeVersion"); err != nil {
		return nil, err
	}
	if c.runtime != nil && c.runtime.SpecVersion == version.SpecVersion && c.runtime.TxVersion == version.TransactionVersion {
		return c.runtime, nil
	}
	var raw Bytes
	if err := conn.call(ctx, &raw, "state_getMetadata"); err != nil {
		return nil, err
	}
	metadata, err := DecodeMetadata(raw)
	if err != nil {
		return nil, err
	}
	if c.runtime != nil {
		c.log.Info("the chain was upgraded", "from", c.runtime.SpecVersion, "to", version.SpecVersion)
	}
	c.runtime = &Runtime{version.SpecVersion, version.TransactionVersion, *c.genesis, metadata}
	return c.runtime, nil
}

// Head is a block at the end of the chain.
type Head struct {
	Hash   Hash
	Number uint64
}

// Head is the best block.
func (c *Client) Head(ctx context.Context) (Head, error) { return c.head(ctx, "chain_getBlockHash") }

// head is the block that a method names.
func (c *Client) head(ctx context.Context, method string) (h Head, err error) {
	if err := c.Call(ctx, &h.Hash, method); err != nil {
		return h, err
	}
	err = c.patient(ctx, func() error {
		var header *struct {
			Number hexNumber `json:"number"`
		}
		if err := c.Call(ctx, &header, "chain_getHeader", h.Hash); err != nil {
			return err
		}
		if header == nil {
			return errNoBlock
		}
		h.Number = uint64(header.Number)
		return nil
	})
	return h, err
}

// The era of what is signed here.
const (
	eraBlocks = 64
	// birthBehind puts the birth block behind the last final one, so that a node that is
	// some blocks late has it too.
	birthBehind = 5
	// Lifetime is how long an extrinsic can be waited for: its era in blocks of 12 seconds.
	Lifetime = eraBlocks * 12 * time.Second
)

// era begins at a final block: no fork takes it back.
func (c *Client) era(ctx context.Context) (Era, error) {
	final, err := c.head(ctx, "chain_getFinalizedHead")
	if err != nil {
		return Era{}, err
	}
	birth := Head{Number: final.Number - min(final.Number, birthBehind)}
	err = c.patient(ctx, func() error {
		var hash *Hash
		if err := c.Call(ctx, &hash, "chain_getBlockHash", birth.Number); err != nil {
			return err
		}
		if hash == nil {
			return errNoBlock
		}
		birth.Hash = *hash
		return nil
	})
	return Era{Period: eraBlocks, Birth: birth}, err
}

// Storage reads a value as it was after a block (nil: the best); nil when there
// is none.
func (c *Client) Storage(ctx context.Context, key []byte, at *Hash) ([]byte, error) {
	var raw *Bytes
	params := []any{Bytes(key)}
	if at != nil {
		params = append(params, *at)
	}
	if err := c.Call(ctx, &raw, "state_getStorage", params...); err != nil || raw == nil {
		return nil, err
	}
	return append([]byte{}, *raw...), nil
}

// Pair is a storage key and what is kept there.
type Pair struct{ Key, Value []byte }

// pageSize is how many keys are asked for at once; nodes give at most 1000.
const pageSize = 512

// Pairs reads everything under a prefix as it was after a block.
func (c *Client) Pairs(ctx context.Context, prefix []byte, at Hash) (out []Pair, err error) {
	start := Bytes(prefix)
	for {
		var keys []Bytes
		if err := c.Call(ctx, &keys, "state_getKeysPaged", Bytes(prefix), pageSize, start, at); err != nil {
			return nil, err
		}
		if len(keys) > 0 {
			page, err := c.values(ctx, keys, at)
			if err != nil {
				return nil, err
			}
			out = append(out, page...)
			start = keys[len(keys)-1]
		}
		if len(keys) < pageSize {
			return out, nil
		}
	}
}

// Values reads what is kept under keys as it was after a block; a key without a
// value is left out.
func (c *Client) Values(ctx context.Context, keys [][]byte, at Hash) (out []Pair, err error) {
	for page := range slices.Chunk(keys, pageSize) {
		shown := make([]Bytes, 0, len(page))
		for _, key := range page {
			shown = append(shown, key)
		}
		found, err := c.values(ctx, shown, at)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	return out, nil
}

func (c *Client) values(ctx context.Context, keys []Bytes, at Hash) (out []Pair, err error) {
	var sets []struct {
		Changes [][2]*Bytes `json:"changes"`
	}
	if err := c.Call(ctx, &sets, "state_queryStorageAt", keys, at); err != nil {
		return nil, err
	}
	for _, set := range sets {
		for _, change := range set.Changes {
			if change[0] != nil && change[1] != nil {
				out = append(out, Pair{*change[0], *change[1]})
			}
		}
	}
	return out, nil
}

// Nonce is the number of the account's next extrinsic, those waiting included.
// Nodes know it under one of two names.
func (c *Client) Nonce(ctx context.Context, address string) (nonce uint32, err error) {
	err = c.Call(ctx, &nonce, "system_accountNextIndex", address)
	var refused *RPCError
	if errors.As(err, &refused) && refused.Code == methodNotFound {
		err = c.Call(ctx, &nonce, "account_nextIndex", address)
	}
	return nonce, err
}

// NonceAt is the number of the account's next extrinsic as a block left it: what waits in a
// pool does not count. Of two that are signed with one such number at most one is included.
func (c *Client) NonceAt(ctx context.Context, public [32]byte, at Hash) (uint32, error) {
	var raw Bytes
	if err := c.Call(ctx, &raw, "state_call", "AccountNonceApi_account_nonce", Bytes(public[:]), at); err != nil {
		return 0, err
	}
	if len(raw) < 4 {
		return 0, errors.New("the chain's number of the next extrinsic has an unknown form")
	}
	return binary.LittleEndian.Uint32(raw), nil
}

const methodNotFound = -32601

// Bytes are written as 0x and hex.
type Bytes []byte

// MarshalJSON writes 0x and hex.
func (b Bytes) MarshalJSON() ([]byte, error) { return json.Marshal("0x" + hex.EncodeToString(b)) }

// UnmarshalJSON reads 0x and hex.
func (b *Bytes) UnmarshalJSON(raw []byte) error {
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return err
	}
	digits, ok := strings.CutPrefix(text, "0x")
	if !ok {
		return errors.New("hex without 0x")
	}
	out, err := hex.DecodeString(digits)
	*b = out
	return err
}

// String is 0x and hex.
func (h Hash) String() string { return "0x" + hex.EncodeToString(h[:]) }

// MarshalJSON is String.
func (h Hash) MarshalJSON() ([]byte, error) { return Bytes(h[:]).MarshalJSON() }

// UnmarshalJSON reads 32 bytes of hex.
func (h *Hash) UnmarshalJSON(raw []byte) error {
	var b Bytes
	if err := b.UnmarshalJSON(raw); err != nil {
		return err
	}
	if len(b) != len(h) {
		return fmt.Errorf("a hash has 32 bytes, not %d", len(b))
	}
	copy(h[:], b)
	return nil
}

// hexNumber is a number that nodes write as 0x and hex.
type hexNumber uint64

func (n *hexNumber) UnmarshalJSON(raw []byte) error {
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return err
	}
	v, err := strconv.ParseUint(text, 0, 64)
	*n = hexNumber(v)
	return err
}
