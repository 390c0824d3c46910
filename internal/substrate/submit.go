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
}

// PoolError is a refusal before any block: the extrinsic did not happen.
type PoolError struct {
	Kind    string // BadProof, Stale, Future, Payment, Custom, Dropped, …
	Custom  *uint8 // of Kind Custom: the chain's own number
	Message string
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

// Submit signs a call and sends it, once: a broken connection is an error, since
// the chain may have taken the extrinsic. A runtime that was upgraded in between
// makes a bad signature, and only then it signs and sends again.
func (c *Client) Submit(ctx context.Context, from Account, pallet, call string, args map[string]any, wait Wait) (*Receipt, error) {
	for again := false; ; again = true {
		runtime, err := c.Runtime(ctx)
		if err != nil {
			return nil, err
		}
		extrinsic, err := c.sign(ctx, runtime, from, pallet, call, args)
		if err != nil {
			return nil, err
		}
		receipt, err := c.send(ctx, runtime, extrinsic, wait)
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

func (c *Client) sign(ctx context.Context, r *Runtime, from Account, pallet, call string, args map[string]any) ([]byte, error) {
	body, err := r.Metadata.Call(pallet, call, args)
	if err != nil {
		return nil, err
	}
	nonce, err := c.Nonce(ctx, from.Address)
	if err != nil {
		return nil, err
	}
	return r.Metadata.SignExtrinsic(body, from.Public, from.Signer,
		Signing{SpecVersion: r.SpecVersion, TxVersion: r.TxVersion, Genesis: r.Genesis, Nonce: nonce})
}

// SubmitSigned sends an extrinsic that is signed already.
func (c *Client) SubmitSigned(ctx context.Context, extrinsic []byte, wait Wait) (*Receipt, error) {
	r, err := c.Runtime(ctx)
	if err != nil {
		return nil, err
	}
	return c.send(ctx, r, extrinsic, wait)
}

// send has a connection of its own: watching may take a minute, and other calls
// go on.
func (c *Client) send(ctx context.Context, r *Runtime, extrinsic []byte, wait Wait) (*Receipt, error) {
	own, err := c.openOwn(ctx)
	if err != nil {
		return nil, err
	}
	defer own.close()
	receipt := &Receipt{Extrinsic: ExtrinsicHash(extrinsic)}
	if wait == WaitNone {
		err = own.call(ctx, nil, "author_submitExtrinsic", Bytes(extrinsic))
	} else {
		err = follow(ctx, own, extrinsic, wait, receipt)
	}
	var refused *RPCError
	if errors.As(err, &refused) {
		if pool := poolError(refused); pool != nil {
			return nil, pool
		}
	}
	var broken *TransportError
	if errors.As(err, &broken) {
		broken.Sent = true
	}
	if err != nil || receipt.Block == nil {
		return receipt, err
	}
	return receipt, c.judge(ctx, own, r, extrinsic, receipt)
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
			return &PoolError{Kind: strings.ToUpper(status[:1]) + status[1:], Message: "the node gave the extrinsic up"}
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

// judge reads the block's events: being in a block is no success.
func (c *Client) judge(ctx context.Context, own *conn, r *Runtime, extrinsic []byte, receipt *Receipt) error {
	index, err := indexIn(ctx, own, *receipt.Block, extrinsic)
	if err != nil {
		return err
	}
	key, err := r.Metadata.StorageKey("System", "Events")
	if err != nil {
		return err
	}
	var raw Bytes
	if err := own.call(ctx, &raw, "state_getStorage", Bytes(key), receipt.Block); err != nil {
		return err
	}
	events, err := r.Metadata.Events(raw)
	if err != nil {
		return err
	}
	return verdict(r.Metadata, events, index, receipt)
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
	var answer struct {
		Block struct {
			Extrinsics []Bytes `json:"extrinsics"`
		} `json:"block"`
	}
	if err := own.call(ctx, &answer, "chain_getBlock", block); err != nil {
		return 0, err
	}
	for i, one := range answer.Block.Extrinsics {
		if bytes.Equal(one, extrinsic) {
			return i, nil
		}
	}
	return 0, fmt.Errorf("block %s does not hold the extrinsic that it was said to hold", block)
}
