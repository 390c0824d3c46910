package main

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/kymogram/kymogram/chain"
	"github.com/kymogram/kymogram/server/internal/config"
	"github.com/kymogram/kymogram/server/internal/httpapi"
)

// What an answer of /sd/bittensor may cost. A block takes 12 seconds, and
// Prometheus asks once a minute by default.
const (
	discoveryAge     = 30 * time.Second
	discoveryTimeout = 20 * time.Second
	discoverySubnets = 256 // kept at once
)

// discovery lists the targets of subnets for /sd/bittensor.
type discovery struct {
	list         func(ctx context.Context, netuid int) (*chain.Listing, error)
	allowPrivate bool
	now          func() time.Time

	turn chan struct{} // holds one token: who has it uses what follows
	kept map[uint16]keptTargets
}

type keptTargets struct {
	at      time.Time
	targets *httpapi.Targets
}

// newDiscovery is nil without a chain.
func newDiscovery(c config.Chain, log *slog.Logger) (*discovery, error) {
	if len(c.Endpoints) == 0 {
		return nil, nil //nolint:nilnil // a server without a chain is a valid one
	}
	s, err := chain.Dial(chain.Config{Endpoints: c.Endpoints, Log: log})
	if err != nil {
		return nil, err
	}
	return makeDiscovery(s.List, c.AllowPrivate, time.Now), nil
}

func makeDiscovery(list func(context.Context, int) (*chain.Listing, error), allowPrivate bool, now func() time.Time) *discovery {
	d := &discovery{list: list, allowPrivate: allowPrivate, now: now, turn: make(chan struct{}, 1), kept: map[uint16]keptTargets{}}
	d.turn <- struct{}{}
	return d
}

// Targets answers from what was read lately, else from the chain.
func (d *discovery) Targets(ctx context.Context, netuid uint16) (*httpapi.Targets, error) {
	ctx, cancel := context.WithTimeout(ctx, discoveryTimeout)
	defer cancel()
	select {
	case <-d.turn:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { d.turn <- struct{}{} }()
	if kept, ok := d.kept[netuid]; ok && d.now().Sub(kept.at) < discoveryAge {
		return kept.targets, nil
	}
	list, err := d.list(ctx, int(netuid))
	if err != nil {
		return nil, fmt.Errorf("list subnet %d: %w", netuid, err)
	}
	if len(d.kept) >= discoverySubnets {
		clear(d.kept)
	}
	out := d.targets(list)
	d.kept[netuid] = keptTargets{d.now(), out}
	return out, nil
}

func (d *discovery) targets(l *chain.Listing) *httpapi.Targets {
	out := new(httpapi.Targets)
	out.LeftOut.Invalid = l.Invalid
	for _, e := range l.Endpoints {
		switch {
		case e.UID == nil:
			out.LeftOut.Gone++
		case !d.allowPrivate && !chain.Public(e.Address.Addr()):
			out.LeftOut.Private++
		default:
			out.List = append(out.List, target(e))
		}
	}
	return out
}

// target has labels that stay as they are while the node does; the age is one that
// Prometheus drops after relabelling.
func target(e chain.Endpoint) httpapi.Target {
	return httpapi.Target{Targets: []string{e.Address.String()}, Labels: map[string]string{
		"netuid": strconv.Itoa(e.Netuid), "hotkey": e.Hotkey, "uid": strconv.Itoa(int(*e.UID)),
		"version": strconv.FormatUint(uint64(e.Version), 10), "__meta_bittensor_age_blocks": strconv.FormatUint(e.AgeBlocks, 10),
	}}
}
