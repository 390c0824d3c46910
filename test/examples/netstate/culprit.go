package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/kymogram/kymogram/chain"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/remote"
	"github.com/kymogram/kymogram/internal/state"
	"github.com/kymogram/kymogram/netstate"
	"github.com/kymogram/kymogram/read"
)

// What validators do. All but the honest one misuse the package, or go past it:
// this file is no example.
const (
	honest      = "honest"
	lying       = "lying"       // reports scores and hardware that nobody else sees
	stale       = "stale"       // spoke once, and lets its record expire
	double      = "double"      // votes with two runs for the miners that it favours
	equivocator = "equivocator" // signs two records with one sequence
)

var kinds = []string{honest, lying, stale, double, equivocator}

// life is how long a statement counts: the default, but for the stale validator.
func (s Settings) life() time.Duration {
	if s.Kind == stale {
		return 2 * time.Second
	}
	return 0
}

// anotherRun gives a second run of one hotkey an id of its own, before the package
// finds the first one.
func (n *node) anotherRun(ctx context.Context, hotkey string, number int) error {
	if number == 0 {
		return nil
	}
	_, err := n.db.SaveRunID(ctx, hotkey, secondRun(hotkey, number))
	return err
}

// validator is what a validator of a kind does at each turn.
func (n *node) validator(ctx context.Context, subtensor *chain.Subtensor) (func(context.Context, int) error, error) {
	plain := func(ctx context.Context, turn int) error { return n.validate(ctx, said(n.Kind, n.Miners), turn) }
	switch n.Kind {
	case stale:
		return func(ctx context.Context, turn int) error {
			if turn > 1 {
				return nil
			}
			return plain(ctx, turn)
		}, nil
	case double:
		second, err := n.join(ctx, 1, subtensor)
		return func(ctx context.Context, turn int) error {
			if err := plain(ctx, turn); err != nil {
				return err
			}
			return second.validate(ctx, said(double, n.Miners), turn)
		}, err
	case equivocator:
		return func(ctx context.Context, turn int) error {
			if turn > 1 {
				return plain(ctx, turn)
			}
			if err := n.validate(ctx, n.Miners, turn); err != nil {
				return err
			}
			return n.equivocate(ctx)
		}, nil
	}
	return plain, nil
}

// equivocate signs two records with one sequence: one for some readers, one for
// others. The server takes one of them and keeps the other as evidence.
func (n *node) equivocate(ctx context.Context) error {
	if err := n.Series().Flush(ctx, true); err != nil { // the run is there by now
		return err
	}
	server := &remote.Client{Base: n.Server, Key: n.Key}
	run, err := read.Over(server).Run(ctx, n.Workspace+"/"+n.Project+"/"+n.RunID())
	if err != nil {
		return err
	}
	path := remote.RunPath(run.ID, "state")
	var doc struct{ Head *state.Entry }
	if err := server.Exchange(ctx, http.MethodGet, path, nil, &doc); err != nil {
		return err
	}
	for _, stats := range [][]netstate.Stat{n.Miners, said(equivocator, n.Miners)} {
		e, err := n.above(doc.Head, stats)
		if err != nil {
			return err
		}
		var taken struct{ Index uint64 }
		err = server.Exchange(ctx, http.MethodPost, path, e, &taken)
		if model.CodeOf(err) == model.CodeStateConflict {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return fmt.Errorf("the server took the second record with one sequence")
}

// above signs a record with the sequence after the head's, with other stats.
func (n *node) above(head *state.Entry, stats []netstate.Stat) (*state.Envelope, error) {
	r, err := head.Open()
	if err != nil {
		return nil, err
	}
	config := map[string]any{}
	if err := json.Unmarshal(head.Payload, &config); err != nil {
		return nil, err
	}
	reports := netstate.Stats{}
	for _, one := range stats {
		reports[one.UID] = one
	}
	config["stats"] = reports
	payload, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	next := *r
	next.Sequence, next.Previous = r.Sequence+1, head.Hash()
	wallet, err := chain.SeedWallet(n.Seed)
	if err != nil {
		return nil, err
	}
	return state.Seal(next, payload, wallet)
}

// said is what a validator of a kind reports, given the truth.
func said(kind string, truth []netstate.Stat) []netstate.Stat {
	reports := slices.Clone(truth)
	fifth := len(reports) / 5
	for i := range reports {
		r := &reports[i]
		switch {
		case kind == lying && i < 2*fifth:
			r.Score, r.GPU = 99.5, &netstate.GPU{Name: "NVIDIA H200", Count: 8}
		case kind == double && i >= 2*fifth && i < 3*fifth:
			r.Score = 98.5
		case kind == stale:
			r.Score = math.Round(r.Score/2*100) / 100
		case kind == equivocator && i >= 3*fifth:
			r.Score, r.Allocated = 1, false
		}
	}
	return reports
}
