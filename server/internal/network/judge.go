package network

import (
	"fmt"
	"time"

	"github.com/kymogram/kymogram/internal/state"
)

// maxBlocks is how old a record may be where a chain is configured: 6 hours, which
// is how long a record of package netstate lives.
const maxBlocks = 1800

// judge is what this server thinks of a node's newest record now.
func judge(n *node, proofs []proof, now time.Time, net *subnet) (state.Verdict, string) {
	if n.broken != "" {
		return state.Broken, n.broken
	}
	doubt, doubted := n.doubt(proofs)
	if doubted && doubt.verdict == state.Equivocated {
		return doubt.verdict, doubt.reason
	}
	clock := state.Clock{Now: now}
	if net != nil && net.block > 0 {
		clock.Block, clock.MaxBlocks = net.block, maxBlocks
	}
	if err := clock.Check(n.record); err != nil {
		return state.Stale, err.Error()
	}
	if net != nil && net.block > 0 {
		if verdict, reason := net.judge(n.record); verdict != "" {
			return verdict, reason
		}
	}
	if doubted {
		return doubt.verdict, doubt.reason
	}
	return state.Verified, fmt.Sprintf("hotkey %s signed sequence %d for this place", n.record.Hotkey, n.record.Sequence)
}

// judge is what the chain says of a record's signer, "" for nothing against it.
func (s *subnet) judge(r *state.Record) (state.Verdict, string) {
	neuron, ok := s.neurons[r.Hotkey.String()]
	switch {
	case r.Genesis != s.genesis:
		return state.Broken, "it was signed for another chain than the one that this server asks"
	case !ok:
		return state.Unregistered, fmt.Sprintf("hotkey %s is not on subnet %d at block %d", r.Hotkey, r.Netuid, s.block)
	case r.Role == state.Validator && !neuron.Permit:
		return state.Unregistered, fmt.Sprintf("hotkey %s has no validator permit on subnet %d at block %d", r.Hotkey, r.Netuid, s.block)
	}
	return "", ""
}
