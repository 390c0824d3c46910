package netstate

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/kymogram/kymogram/chain"
	"github.com/kymogram/kymogram/internal/state"
	"github.com/kymogram/kymogram/internal/wallet"
)

// Chain is where hotkeys and permits are looked up; [chain.Subtensor] is one.
type Chain interface {
	Metagraph(ctx context.Context, netuid int) (*chain.Metagraph, error)
	Block(ctx context.Context) (uint64, error)
}

// blockTime is how often the chain makes a block.
const blockTime = 12 * time.Second

// registry keeps the subnet's neurons for a while. A chain that does not answer
// leaves the last ones in force.
type registry struct {
	chain  Chain
	netuid int
	every  time.Duration
	now    func() time.Time

	mu      sync.Mutex
	asked   time.Time // for the last time
	at      time.Time // of graph
	graph   *chain.Metagraph
	neurons map[wallet.Account]chain.Neuron
}

// look reads the subnet when it is time. Without a chain it is nil.
func (r *registry) look(ctx context.Context) (*chain.Metagraph, error) {
	if r.chain == nil {
		return nil, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.graph != nil && r.now().Sub(r.asked) < r.every {
		return r.graph, nil
	}
	graph, err := r.chain.Metagraph(ctx, r.netuid)
	if err != nil && r.graph == nil {
		return nil, fmt.Errorf("read the neurons of subnet %d: %w", r.netuid, err)
	}
	r.asked = r.now() // a chain that fails is not asked at each read
	if err != nil {
		return r.graph, nil
	}
	r.at, r.graph, r.neurons = r.asked, graph, make(map[wallet.Account]chain.Neuron, len(graph.Neurons))
	for _, n := range graph.Neurons {
		if account, _, err := wallet.ParseAddress(n.Hotkey); err == nil {
			r.neurons[account] = n
		}
	}
	return graph, nil
}

// neuron is a hotkey's place as of the last look.
func (r *registry) neuron(hotkey wallet.Account) (chain.Neuron, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n, found := r.neurons[hotkey]
	return n, found
}

// permits reports whether a hotkey may speak in a role. Without a chain everybody may.
func (r *registry) permits(role string, hotkey wallet.Account) bool {
	if r.chain == nil {
		return true
	}
	n, found := r.neuron(hotkey)
	return found && (role != state.Validator || n.Permit)
}

// refusal says why a hotkey may not speak in a role, "" when it may.
func (r *registry) refusal(role string, hotkey wallet.Account) string {
	if r.permits(role, hotkey) {
		return ""
	}
	n, found := r.neuron(hotkey)
	switch {
	case !found:
		return fmt.Sprintf("hotkey %s is not in subnet %d", hotkey, r.netuid)
	case role == state.Validator && !n.Permit:
		return fmt.Sprintf("hotkey %s has no validator permit in subnet %d", hotkey, r.netuid)
	}
	return ""
}

// block is the chain's height now, by its last look and the time since; 0 without.
func (r *registry) block() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.graph == nil {
		return 0
	}
	return r.graph.Block + uint64(max(0, r.now().Sub(r.at))/blockTime)
}
