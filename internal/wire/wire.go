// Package wire turns what a writer and a server tell each other about a run into
// the messages of api/kymogram/v1 and back: the open and its result, updates, and
// environments that two writers share. Points are columns and need no form of
// their own.
//
// Each of the four has two forms, JSON and a typed message, and this package is
// the only place that knows both. Writing takes the stream's protocol; reading
// takes whatever the message holds. Both forms of one value read back equal.
//
// Start with open.go, where a stream begins; api/kymogram/v1/record.proto is the contract.
package wire

import "fmt"

// The protocols of a stream (kymogramv1.Open.Protocol).
const (
	// JSON is all that clients and servers up to 0.1.0 know.
	JSON uint32 = 1
	// Typed is the newest.
	Typed uint32 = 2
)

// takeID reads an id; one that is absent stays zero.
func takeID[ID ~[16]byte](into *ID, from []byte) error {
	if len(from) != 0 && len(from) != len(*into) {
		return fmt.Errorf("an id has %d bytes instead of %d", len(from), len(*into))
	}
	copy((*into)[:], from)
	return nil
}

// each maps a list; an empty one gives nil, as omitempty does in JSON.
func each[From, To any](list []From, turn func(From) To) []To {
	if len(list) == 0 {
		return nil
	}
	out := make([]To, len(list))
	for i, one := range list {
		out[i] = turn(one)
	}
	return out
}
