package network

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kymogram/kymogram/chain"
	"github.com/kymogram/kymogram/internal/state"
)

// Chain is what a chain says of a subnet; package chain is one.
type Chain interface {
	Metagraph(ctx context.Context, netuid int) (*chain.Metagraph, error)
	List(ctx context.Context, netuid int) (*chain.Listing, error)
}

// How often a subnet is read while somebody looks at it. A block takes 12 seconds.
const (
	subnetEvery  = 24 * time.Second
	subnetIdle   = 5 * time.Minute // after the last look
	firstWait    = 3 * time.Second // for a subnet that was not read yet
	chainTimeout = 20 * time.Second
	maxSubnets   = 16

	dialTimeout = 2 * time.Second
	tryTimeout  = 20 * time.Second
	dialsAtOnce = 16
	maxDials    = MaxMiners
)

// subnet is what is known of a subnet now. It is never changed once it is shared.
type subnet struct {
	genesis   state.Hash
	block     uint64
	neurons   map[string]chain.Neuron // by hotkey
	hotkeys   map[uint16]string
	endpoints map[string]Endpoint
	failed    string // why it could not be read lately
	version   int
}

// Subnets reads subnets in the background, and tries their endpoints.
type Subnets struct {
	chain        Chain
	allowPrivate bool
	now          func() time.Time
	wake         chan struct{}

	mu    sync.Mutex
	known map[uint16]*watched
}

type watched struct {
	asked, read time.Time
	subnet      *subnet
	first       chan struct{} // closed after the first reading
}

// NewSubnets reads subnets from a chain; allowPrivate tries endpoints on addresses
// that only this machine or its network reaches.
func NewSubnets(c Chain, allowPrivate bool, now func() time.Time) *Subnets {
	return &Subnets{chain: c, allowPrivate: allowPrivate, now: now, wake: make(chan struct{}, 1), known: map[uint16]*watched{}}
}

// of is what is known of a subnet; the first to ask waits a little.
func (s *Subnets) of(ctx context.Context, netuid uint16) *subnet {
	s.mu.Lock()
	w := s.known[netuid]
	if w == nil && len(s.known) < maxSubnets {
		w = &watched{first: make(chan struct{}), subnet: &subnet{failed: "the chain was not read yet"}}
		s.known[netuid] = w
	}
	if w == nil {
		s.mu.Unlock()
		return &subnet{failed: "this server watches as many subnets as it can"}
	}
	w.asked = s.now()
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
	timer := time.NewTimer(firstWait)
	defer timer.Stop()
	select {
	case <-w.first:
	case <-timer.C:
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return w.subnet
}

// Run reads until ctx ends.
func (s *Subnets) Run(ctx context.Context) error {
	tick := time.NewTicker(subnetEvery / 4)
	defer tick.Stop()
	for {
		for _, netuid := range s.due() {
			s.refresh(ctx, netuid)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-s.wake:
		}
	}
}

// due lists the subnets that somebody looks at and that are old; the others are
// forgotten.
func (s *Subnets) due() (netuids []uint16) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	for netuid, w := range s.known {
		switch {
		case now.Sub(w.asked) > subnetIdle:
			delete(s.known, netuid)
		case now.Sub(w.read) >= subnetEvery:
			netuids = append(netuids, netuid)
		}
	}
	return netuids
}

// refresh publishes what the chain says, and again once the endpoints were tried.
func (s *Subnets) refresh(ctx context.Context, netuid uint16) {
	s.mu.Lock()
	w := s.known[netuid]
	before := w.subnet
	s.mu.Unlock()
	next, list := s.read(ctx, netuid, before)
	s.publish(w, next)
	if len(list) == 0 {
		return
	}
	tried := *next
	tried.endpoints = s.try(ctx, list)
	s.publish(w, &tried)
}

func (s *Subnets) publish(w *watched, next *subnet) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.read.IsZero() {
		close(w.first)
	}
	next.version = w.subnet.version + 1
	w.subnet, w.read = next, s.now()
}

// read asks the chain; when it does not answer, what was known stays, with a note.
func (s *Subnets) read(ctx context.Context, netuid uint16, before *subnet) (*subnet, []chain.Endpoint) {
	ctx, cancel := context.WithTimeout(ctx, chainTimeout)
	defer cancel()
	graph, err := s.chain.Metagraph(ctx, int(netuid))
	var list *chain.Listing
	if err == nil {
		list, err = s.chain.List(ctx, int(netuid))
	}
	if err != nil {
		old := *before
		old.failed = "the chain does not answer: " + err.Error()
		return &old, nil
	}
	next := &subnet{
		genesis: graph.Genesis, block: graph.Block, neurons: make(map[string]chain.Neuron, len(graph.Neurons)),
		hotkeys: make(map[uint16]string, len(graph.Neurons)), endpoints: map[string]Endpoint{},
	}
	for _, e := range list.Endpoints {
		out := Endpoint{Address: e.Address.String(), Block: e.Block}
		if known := before.endpoints[e.Hotkey]; known.Address == out.Address {
			out = known
		}
		next.endpoints[e.Hotkey] = out
	}
	for _, n := range graph.Neurons {
		next.neurons[n.Hotkey], next.hotkeys[n.UID] = n, n.Hotkey
	}
	return next, list.Endpoints
}

// try connects to each endpoint, as a scraper would.
func (s *Subnets) try(ctx context.Context, list []chain.Endpoint) map[string]Endpoint {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	out := make(map[string]Endpoint, len(list))
	var group errgroup.Group
	group.SetLimit(dialsAtOnce)
	var mu sync.Mutex
	for i, e := range list {
		group.Go(func() error {
			end := Endpoint{Address: e.Address.String(), Block: e.Block}
			if i < maxDials && ctx.Err() == nil {
				s.dial(ctx, e.Address, &end)
			}
			mu.Lock()
			defer mu.Unlock()
			out[e.Hotkey] = end
			return nil
		})
	}
	_ = group.Wait() // a dial fails into its endpoint
	return out
}

func (s *Subnets) dial(ctx context.Context, address netip.AddrPort, out *Endpoint) {
	if !s.allowPrivate && !chain.Public(address.Addr()) {
		out.Error = "not tried: the address is private"
		return
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address.String())
	answers := err == nil
	out.Answers = &answers
	if err != nil {
		out.Error = reasonOf(err)
		return
	}
	_ = conn.Close()
}

// reasonOf is the part of a dial's error that does not repeat the address.
func reasonOf(err error) string {
	var e net.Error
	if errors.As(err, &e) && e.Timeout() {
		return "no answer within " + dialTimeout.String()
	}
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	return err.Error()
}
