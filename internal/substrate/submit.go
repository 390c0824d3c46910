package substrate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Wait says how far a submission is followed.
type Wait int

// The waits. WaitNone knows only that the node's pool took the extrinsic.
const (
	WaitNone Wait = iota
	WaitInclusion
	WaitFinalization
)

// Receipt is what became of an extrinsic.
type Receipt struct {
	Extrinsic Hash
	// Block holds it; nil while only the pool has it.
	Block     *Hash
	Finalized bool
	// Events are those that the extrinsic caused.
	Events []Event
	// Values are what Submission.Reads holds after Block, nil where there is nothing.
	Values [][]byte
}

// PoolError is a refusal before any block: the extrinsic did not happen.
type PoolError struct {
	Kind    string // BadProof, Stale, Future, Payment, Custom, Dropped, …
	Custom  *uint8 // of Kind Custom: the chain's own number
	Message string
	// Late says that the pool had taken it before.
	Late bool
}

func (e *PoolError) Error() string {
	if e.Custom != nil {
		return fmt.Sprintf("%s: custom error %d", e.Message, *e.Custom)
	}
	return fmt.Sprintf("%s: %s", e.Kind, e.Message)
}

// The codes with which nodes refuse an extrinsic.
const (
	codeInvalid   = 1010
	codeUnknown   = 1011
	codeBanned    = 1012
	codeImported  = 1013
	codeLow       = 1014
	codeDropped   = 1016
	codeForbidden = 1018
)

// poolError is a node's refusal of an extrinsic, nil for other errors.
func poolError(e *RPCError) *PoolError {
	out := &PoolError{Message: e.Message}
	if text := e.detail(); text != "" {
		out.Message += ": " + text
	}
	switch e.Code {
	case codeInvalid, codeUnknown:
		out.Kind = invalidity(e.detail())
		if text, ok := strings.CutPrefix(e.detail(), "Custom error: "); ok {
			if n, err := strconv.ParseUint(text, 10, 8); err == nil {
				custom := uint8(n)
				out.Kind, out.Custom, out.Message = "Custom", &custom, e.Message
			}
		}
	case codeBanned:
		out.Kind = "Banned"
	case codeImported:
		out.Kind = "AlreadyImported"
	case codeLow:
		out.Kind = "LowPriority"
	case codeDropped:
		out.Kind = "Dropped"
	case codeForbidden:
		out.Kind = "Forbidden"
	default:
		return nil
	}
	return out
}

// invalidity names the runtime's reason after the text that nodes give for it.
func invalidity(text string) string {
	switch text {
	case "Transaction has a bad signature":
		return "BadProof"
	case "Transaction is outdated":
		return "Stale"
	case "Transaction will be valid in the future":
		return "Future"
	case "Inability to pay some fees (e.g. account balance too low)", "Inability to pay some fees , e.g. account balance too low":
		return "Payment"
	case "Transaction call is not expected":
		return "Call"
	case "Transaction has an ancient birth block":
		return "AncientBirthBlock"
	case "Transaction would exhaust the block limits":
		return "ExhaustsResources"
	case "Invalid signing address":
		return "BadSigner"
	}
	return "Invalid"
}

// Account is who signs and under which address nodes know it.
type Account struct {
	Public  [32]byte
	Address string
	Signer  Signer
}

// Submission is a call to sign, to send and to follow.
type Submission struct {
	Pallet, Call string
	Args         map[string]any
	Wait         Wait
	// At is the block whose number of the next extrinsic is signed; nil: the next in the
	// node's pool.
	At *Hash
	// Reads are storage keys to read after the block that holds the extrinsic.
	Reads [][]byte
}

// Submit is Send without more.
func (c *Client) Submit(ctx context.Context, from Account, pallet, call string, args map[string]any, wait Wait) (*Receipt, error) {
	return c.Send(ctx, from, Submission{Pallet: pallet, Call: call, Args: args, Wait: wait})
}

// Send signs a call and sends it, once: a broken connection is an error, since the chain
// may have taken the extrinsic. A runtime that was upgraded in between makes a bad
// signature, and only then it signs and sends again. It waits no longer than the extrinsic
// lives.
func (c *Client) Send(ctx context.Context, from Account, s Submission) (*Receipt, error) {
	for again := false; ; again = true {
		runtime, err := c.Runtime(ctx)
		if err != nil {
			return nil, err
		}
		extrinsic, err := c.sign(ctx, runtime, from, s)
		if err != nil {
			return nil, err
		}
		receipt, err := c.send(ctx, runtime, extrinsic, s)
		var refused *PoolError
		if again || !errors.As(err, &refused) || refused.Kind != "BadProof" || !c.upgraded(ctx, runtime) {
			return receipt, err
		}
	}
}

func (c *Client) upgraded(ctx context.Context, from *Runtime) bool {
	now, err := c.Runtime(ctx)
	return err == nil && now != from
}

func (c *Client) sign(ctx context.Context, r *Runtime, from Account, s Submission) ([]byte, error) {
	body, err := r.Metadata.Call(s.Pallet, s.Call, s.Args)
	if err != nil {
		return nil, err
	}
	var nonce uint32
	if s.At == nil {
		nonce, err = c.Nonce(ctx, from.Address)
	} else {
		nonce, err = c.NonceAt(ctx, from.Public, *s.At)
	}
	if err != nil {
		return nil, err
	}
	era, err := c.era(ctx)
	if err != nil {
		return nil, err
	}
	return r.Metadata.SignExtrinsic(body, from.Public, from.Signer,
		Signing{SpecVersion: r.SpecVersion, TxVersion: r.TxVersion, Genesis: r.Genesis, Nonce: nonce, Era: era})
}

// SubmitSigned sends an extrinsic that is signed already.
func (c *Client) SubmitSigned(ctx context.Context, extrinsic []byte, wait Wait) (*Receipt, error) {
	r, err := c.Runtime(ctx)
	if err != nil {
		return nil, err
	}
	return c.send(ctx, r, extrinsic, Submission{Wait: wait})
}

// send has a connection of its own: watching may take minutes, and other calls go on.
func (c *Client) send(ctx context.Context, r *Runtime, extrinsic []byte, s Submission) (*Receipt, error) {
	own, err := c.openOwn(ctx)
	if err != nil {
		return nil, err
	}
	defer own.close()
	receipt := &Receipt{Extrinsic: ExtrinsicHash(extrinsic)}
	if err = c.hand(ctx, own, extrinsic, s.Wait, receipt); err == nil && receipt.Block != nil {
		err = c.judge(ctx, own, r, extrinsic, s.Reads, receipt)
	}
	var broken *TransportError
	if errors.As(err, &broken) {
		broken.Sent = true
	}
	var refused *RPCError
	if errors.As(err, &refused) {
		if pool := poolError(refused); pool != nil {
			return nil, pool
		}
	}
	return receipt, err
}

// hand gives the extrinsic to the node, and follows it as long as it can live.
func (c *Client) hand(ctx context.Context, own *conn, extrinsic []byte, wait Wait, receipt *Receipt) error {
	if wait == WaitNone {
		return own.call(ctx, nil, "author_submitExtrinsic", Bytes(extrinsic))
	}
	living, cancel := context.WithTimeout(ctx, Lifetime)
	defer cancel()
	err := follow(living, own, extrinsic, wait, receipt)
	if err != nil && living.Err() != nil && ctx.Err() == nil {
		return &TransportError{Endpoint: shown(own.endpoint), Err: fmt.Errorf("the node told of no block within %s, and the extrinsic cannot get into one any more", Lifetime)}
	}
	return err
}

// openOwn connects to the endpoint in use, once the shared connection proved it.
func (c *Client) openOwn(ctx context.Context) (own *conn, err error) {
	err = c.with(ctx, func(shared *conn) error {
		own, err = c.open(ctx, shared.endpoint)
		return err
	})
	return own, err
}

// follow submits and watches until the extrinsic is as far as asked.
func follow(ctx context.Context, own *conn, extrinsic []byte, wait Wait, receipt *Receipt) error {
	var subscription json.RawMessage
	if err := own.call(ctx, &subscription, "author_submitAndWatchExtrinsic", Bytes(extrinsic)); err != nil {
		return err
	}
	for {
		raw, err := own.next(ctx, subscription)
		if err != nil {
			return err
		}
		status, block := readStatus(raw)
		switch status {
		case "inBlock":
			receipt.Block = block
			if wait == WaitInclusion {
				return nil
			}
		case "retracted":
			receipt.Block = nil // a fork was given up; it comes into another block
		case "finalized":
			receipt.Block, receipt.Finalized = block, true
			return nil
		case "finalityTimeout", "dropped", "invalid", "usurped":
			return &PoolError{Kind: strings.ToUpper(status[:1]) + status[1:], Message: "the node gave the extrinsic up", Late: true}
		}
	}
}

// readStatus reads "ready", {"broadcast":[…]}, {"inBlock":"0x…"} and the like.
func readStatus(raw json.RawMessage) (status string, block *Hash) {
	if json.Unmarshal(raw, &status) == nil {
		return status, nil
	}
	var one map[string]json.RawMessage
	if json.Unmarshal(raw, &one) != nil {
		return "", nil
	}
	for name, value := range one {
		status = name
		var h Hash
		if json.Unmarshal(value, &h) == nil {
			block = &h
		}
	}
	if block == nil && (status == "inBlock" || status == "finalized") {
		return "", nil
	}
	return status, block
}

// judge reads the block's events: being in a block is no success. The node that told of
// the block is asked, and may be another one at each call.
func (c *Client) judge(ctx context.Context, own *conn, r *Runtime, extrinsic []byte, reads [][]byte, receipt *Receipt) error {
	var index int
	err := c.patient(ctx, func() (err error) {
		index, err = indexIn(ctx, own, *receipt.Block, extrinsic)
		return err
	})
	if err != nil {
		return err
	}
	key, err := r.Metadata.StorageKey("System", "Events")
	if err != nil {
		return err
	}
	raw, err := c.valueAt(ctx, own, key, *receipt.Block)
	if err != nil {
		return err
	}
	events, err := r.Metadata.Events(raw)
	if err != nil {
		return err
	}
	if err := verdict(r.Metadata, events, index, receipt); err != nil {
		return err
	}
	for _, key := range reads {
		value, err := c.valueAt(ctx, own, key, *receipt.Block)
		if err != nil {
			return err
		}
		receipt.Values = append(receipt.Values, value)
	}
	return nil
}

// valueAt reads a value as it was after a block.
func (c *Client) valueAt(ctx context.Context, own *conn, key []byte, at Hash) (value []byte, err error) {
	err = c.patient(ctx, func() error {
		var raw *Bytes
		if err := own.call(ctx, &raw, "state_getStorage", Bytes(key), at); err != nil || raw == nil {
			return err
		}
		value = *raw
		return nil
	})
	return value, err
}

func verdict(m *Metadata, events []Event, index int, receipt *Receipt) error {
	for _, e := range events {
		if e.Extrinsic == index {
			receipt.Events = append(receipt.Events, e)
		}
	}
	for _, e := range receipt.Events {
		if e.Pallet == "System" && e.Name == "ExtrinsicFailed" {
			return m.DispatchError(e)
		}
	}
	for _, e := range receipt.Events {
		if e.Pallet == "System" && e.Name == "ExtrinsicSuccess" {
			return nil
		}
	}
	return errors.New("the block says neither that the extrinsic succeeded nor that it failed")
}

func indexIn(ctx context.Context, own *conn, block Hash, extrinsic []byte) (int, error) {
	var answer *struct {
		Block struct {
			Extrinsics []Bytes `json:"extrinsics"`
		} `json:"block"`
	}
	if err := own.call(ctx, &answer, "chain_getBlock", block); err != nil {
		return 0, err
	}
	if answer == nil {
		return 0, errNoBlock
	}
	for i, one := range answer.Block.Extrinsics {
		if bytes.Equal(one, extrinsic) {
			return i, nil
		}
	}
	return 0, fmt.Errorf("block %s does not hold the extrinsic that it was said to hold", block)
}
