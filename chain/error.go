package chain

import (
	"errors"
	"fmt"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/substrate"
)

// RefusedError says that the chain refused: it will again until something else
// changes. Names are the chain's, such as HotKeyNotRegisteredInNetwork.
type RefusedError struct {
	// Name is the error's name.
	Name string `json:"name"`
	// Type is "Module" (in a block), "Pool" or "Custom" (before any block).
	Type string `json:"type"`
	// Docs is what the chain, or failing that this package, says of it.
	Docs string `json:"docs"`
	hint string
	err  error
}

func (e *RefusedError) Error() string {
	if e.Docs == "" {
		return "the chain refused: " + e.Name
	}
	return fmt.Sprintf("the chain refused: %s: %s", e.Name, e.Docs)
}

// Unwrap gives the error as the node reported it.
func (e *RefusedError) Unwrap() error { return e.err }

// As lets errors.As find a model.Error with a code and a hint.
func (e *RefusedError) As(target any) bool {
	out, ok := target.(**model.Error)
	if ok {
		*out = model.Errorf(model.CodeInvalid, "%s", e.Error()).WithHint("%s", e.hint)
	}
	return ok
}

// RateLimitError says that the chain would refuse now: the endpoint was served a
// short while ago. Nothing was sent.
type RateLimitError struct {
	// Blocks is how many more have to pass; a block takes 12 seconds.
	Blocks uint64
}

func (e *RateLimitError) Error() string {
	return fmt.Sprintf("ServingRateLimitExceeded: the endpoint was served a short while ago; %d more blocks have to pass (about %s)", e.Blocks, blocks(e.Blocks))
}

// UnknownOutcomeError says that the connection broke, or the time ended, while the chain
// may have taken the registration, and that it does not show yet.
type UnknownOutcomeError struct{ err error }

func (e *UnknownOutcomeError) Error() string {
	return "the registration does not show (yet), and its outcome is unknown: " + e.err.Error()
}

// Unwrap gives the connection's error.
func (e *UnknownOutcomeError) Unwrap() error { return e.err }

// known is an error that the chain may give to serve_prometheus.
type known struct{ name, docs, hint string }

// custom are the numbers with which later runtimes refuse in the pool what earlier
// ones refuse in a block (subtensor, CustomTransactionError).
func custom(code uint8) known {
	switch code {
	case 10:
		return known{"HotKeyNotRegisteredInNetwork", "The hotkey is not registered in this subnet.", ""}
	case 11:
		return known{"InvalidIpAddress", "An invalid IP address is passed to the serve function.", ""}
	case 12:
		return known{"ServingRateLimitExceeded", "An axon or prometheus serving exceeds the rate limit for a registered neuron.", ""}
	case 13:
		return known{"InvalidPort", "An invalid port is passed to the serve function.", ""}
	case 255:
		return known{"BadRequest", "The call is malformed, such as an unknown kind of address.", ""}
	}
	return known{fmt.Sprintf("Custom %d", code), "", ""}
}

// hintFor says what to do about a refusal.
func hintFor(name string) string {
	switch name {
	case "HotKeyNotRegisteredInNetwork":
		return "register the hotkey in the subnet first (btcli subnet register), and check --netuid"
	case "InvalidIpAddress":
		return "give a public address with --ip; 0.0.0.0, 127.0.0.1 and broadcast addresses are refused"
	case "ServingRateLimitExceeded":
		return "wait: the chain takes one registration in 50 blocks (10 minutes) by default"
	case "InvalidPort":
		return "give the port where the metrics are served, from 1 to 65535"
	case "InvalidIpType":
		return "the kind of address is 4 or 6"
	case "BadProof":
		return "the node refused the signature: check that all endpoints serve one chain and try again"
	case "Stale", "Future", "LowPriority":
		return "another program signs with this hotkey at the same time; try again"
	case "Payment":
		return "the chain asks for a fee, which serve_prometheus has none of: check the endpoint"
	}
	return "the chain's documentation lists its errors; kymogram chain status shows what is registered"
}

// refusal turns an error of the client into a RefusedError where the chain, not the
// way to it, is the reason.
func refusal(err error) error {
	var block *substrate.DispatchError
	var pool *substrate.PoolError
	out := &RefusedError{err: err}
	switch {
	case errors.As(err, &block):
		out.Name, out.Type, out.Docs = block.Name, "Module", block.Docs
		if block.Pallet == "" {
			out.Type = "Runtime"
		}
	case errors.As(err, &pool) && pool.Custom != nil:
		k := custom(*pool.Custom)
		out.Name, out.Type, out.Docs = k.name, "Custom", k.docs
	case errors.As(err, &pool):
		out.Name, out.Type, out.Docs = pool.Kind, "Pool", pool.Message
	default:
		return err
	}
	out.hint = hintFor(out.Name)
	return out
}

// FormatErrorMessage words an error for a log line: the chain's own errors with
// name, type and description, others as they are.
func FormatErrorMessage(err error) string {
	var refused *RefusedError
	if !errors.As(err, &refused) {
		return strings.TrimSpace(err.Error())
	}
	docs := refused.Docs
	if docs == "" {
		docs = "unknown"
	}
	return fmt.Sprintf("Subtensor returned %s (%s). This means: %s", refused.Name, refused.Type, docs)
}
