// Package discovery lists what Prometheus may scrape in a Bittensor subnet. In go the
// chain's own listing; out come targets with labels, for GET /sd/bittensor.
//
// The chain is asked seldom, however often it is: an answer is kept for a while, and
// one question is under way at a time. A private address is left out and counted,
// since a stranger registered it. Start with Discovery.Targets.
package discovery

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/kymogram/kymogram/chain"
	"github.com/kymogram/kymogram/server/internal/httpapi"
)

// What an answer of /sd/bittensor may cost. A block takes 12 seconds, and
// Prometheus asks once a minute by default.
const (
	maxAge     = 30 * time.Second
	timeout    = 20 * time.Second
	maxSubnets = 256 // kept at once
)

// Discovery lists the targets of subnets for /sd/bittensor.
type Discovery struct {
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

// New lists subnets by list; allowPrivate keeps addresses that only this machine or its
// network reaches.
func New(list func(context.Context, int) (*chain.Listing, error), allowPrivate bool, now func() time.Time) *Discovery {
	d := &Discovery{list: list, allowPrivate: allowPrivate, now: now, turn: make(chan struct{}, 1), kept: map[uint16]keptTargets{}}
	d.turn <- struct{}{}
	return d
}

// Targets answers from what was read lately, else from the chain.
func (d *Discovery) Targets(ctx context.Context, netuid uint16) (*httpapi.Targets, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	select {
	case <-d.turn:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { d.turn <- struct{}{} }()
	if kept, ok := d.kept[netuid]; ok && d.now().Sub(kept.at) < maxAge {
		return kept.targets, nil
	}
	list, err := d.list(ctx, int(netuid))
	if err != nil {
		return nil, fmt.Errorf("list subnet %d: %w", netuid, err)
	}
	if len(d.kept) >= maxSubnets {
		clear(d.kept)
	}
	out := d.targets(list)
	d.kept[netuid] = keptTargets{d.now(), out}
	return out, nil
}

func (d *Discovery) targets(l *chain.Listing) *httpapi.Targets {
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
