package participant

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/kymogram/kymogram"
	"github.com/kymogram/kymogram/chain"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wallet"
	"github.com/kymogram/kymogram/netstate"
)

// params are those of all methods; each reads its own.
type params struct {
	// Of join.
	DB         string         `json:"db"`
	Wallet     string         `json:"wallet"` // NAME/HOTKEY on disk
	WalletPath string         `json:"wallet_path"`
	Hotkey     string         `json:"hotkey"` // of a key that the parent holds
	Role       string         `json:"role"`
	Netuid     int            `json:"netuid"`
	Entity     string         `json:"entity"`
	Project    string         `json:"project"`
	Server     string         `json:"server"`
	APIKey     string         `json:"api_key"`
	Spool      string         `json:"spool"`
	Chain      []string       `json:"chain"`
	Config     map[string]any `json:"config"`
	Version    uint32         `json:"version"`
	LifeS      float64        `json:"life_s"`
	MaxBlocks  uint64         `json:"max_blocks"`
	MaxBytes   int            `json:"max_bytes"`

	// Of the others.
	Changes    map[string]any     `json:"changes"`
	Stats      netstate.Stats     `json:"stats"`
	Hotkeys    []string           `json:"hotkeys"`
	Specs      json.RawMessage    `json:"specs"`
	Readers    []string           `json:"readers"`
	Allocated  string             `json:"allocated"`
	Open       bool               `json:"open"`
	Select     selection          `json:"select"`
	Queryable  map[int]string     `json:"queryable"`
	Values     map[string]float64 `json:"values"`
	Run        string             `json:"run"`
	WaitS      float64            `json:"wait_s"`
	Recipients []string           `json:"recipients"`
}

type selection struct {
	Validators   []string `json:"validators"`
	Listed       bool     `json:"listed"`
	OwnScoreOnly bool     `json:"own_score_only"`
	ByStake      bool     `json:"by_stake"`
}

func (p *params) selected() netstate.Select {
	return netstate.Select{Validators: p.Select.Validators, Listed: p.Select.Listed, OwnScoreOnly: p.Select.OwnScoreOnly, ByStake: p.Select.ByStake}
}

type method func(ctx context.Context, n *netstate.Node, p *params) (any, error)

// done is the answer of what only acts.
func done(act func(ctx context.Context, n *netstate.Node, p *params) error) method {
	return func(ctx context.Context, n *netstate.Node, p *params) (any, error) { return nil, act(ctx, n, p) }
}

// answer is that of what reads.
func answer[T any](read func(ctx context.Context, n *netstate.Node, p *params) (T, error)) method {
	return func(ctx context.Context, n *netstate.Node, p *params) (any, error) { return read(ctx, n, p) }
}

type node = netstate.Node

// methods are those of a node, under the seed's names.
func methods() map[string]method {
	return map[string]method{
		"update_config": done(func(ctx context.Context, n *node, p *params) error { return n.UpdateConfig(ctx, p.Changes) }),
		"sign_run":      done(func(ctx context.Context, n *node, _ *params) error { return n.SignRun(ctx) }),
		"update_stats":  done(func(ctx context.Context, n *node, p *params) error { return n.UpdateStats(ctx, p.Stats) }),
		"update_allocated_hotkeys": done(func(ctx context.Context, n *node, p *params) error {
			return n.UpdateAllocatedHotkeys(ctx, p.Hotkeys)
		}),
		"update_penalized_hotkeys": done(func(ctx context.Context, n *node, p *params) error {
			return n.UpdatePenalizedHotkeys(ctx, p.Hotkeys)
		}),
		"update_penalized_hotkeys_checklist": done(func(ctx context.Context, n *node, p *params) error {
			return n.UpdatePenalizedHotkeysChecklist(ctx, p.Hotkeys)
		}),
		"update_specs":           done(func(ctx context.Context, n *node, p *params) error { return n.UpdateSpecs(ctx, p.Specs, p.Readers...) }),
		"update_allocated":       done(func(ctx context.Context, n *node, p *params) error { return n.UpdateAllocated(ctx, p.Allocated) }),
		"update_miner_port_open": done(func(ctx context.Context, n *node, p *params) error { return n.UpdateMinerPortOpen(ctx, p.Open) }),
		"sync_allocated":         done(func(ctx context.Context, n *node, p *params) error { return n.SyncAllocated(ctx, p.selected()) }),
		"log_chain_data":         done(func(_ context.Context, n *node, p *params) error { return n.LogChainData(p.Values) }),
		"log_chain":              done(func(ctx context.Context, n *node, _ *params) error { return n.LogChain(ctx) }),
		"flush":                  done(func(ctx context.Context, n *node, _ *params) error { return n.Series().Flush(ctx, true) }),
		"get_allocated_hotkeys": answer(func(ctx context.Context, n *node, p *params) ([]string, error) {
			return n.AllocatedHotkeys(ctx, p.selected())
		}),
		"get_penalized_hotkeys": answer(func(ctx context.Context, n *node, p *params) ([]string, error) {
			return n.PenalizedHotkeys(ctx, p.selected())
		}),
		"get_penalized_hotkeys_checklist": answer(func(ctx context.Context, n *node, p *params) ([]string, error) {
			return n.PenalizedHotkeysChecklist(ctx, p.selected())
		}),
		"get_stats_allocated": answer(func(ctx context.Context, n *node, p *params) (netstate.Stats, error) {
			return n.StatsAllocated(ctx, p.selected())
		}),
		"get_miner_specs": answer(minerSpecs),
		"verdicts":        answer(func(ctx context.Context, n *node, _ *params) ([]netstate.RunVerdict, error) { return n.Verdicts(ctx) }),
		"verify_run": answer(func(ctx context.Context, n *node, p *params) (netstate.Judgement, error) {
			return n.VerifyRun(ctx, p.Run)
		}),
		"refresh": answer(func(ctx context.Context, n *node, p *params) (bool, error) {
			return n.Refresh(ctx, time.Duration(p.WaitS*float64(time.Second)))
		}),
	}
}

type specsDoc struct {
	Hotkey      string          `json:"hotkey"`
	Specs       json.RawMessage `json:"specs"`
	AllocatedBy string          `json:"allocated"`
	PortOpen    bool            `json:"is_port_open"`
	Error       string          `json:"error,omitempty"`
}

func minerSpecs(ctx context.Context, n *node, p *params) (map[int]specsDoc, error) {
	found, err := n.MinerSpecs(ctx, p.Queryable)
	out := map[int]specsDoc{}
	for uid, one := range found {
		doc := specsDoc{Hotkey: one.Hotkey, Specs: one.Specs, AllocatedBy: one.AllocatedBy, PortOpen: one.PortOpen}
		if one.Err != nil {
			doc.Error = one.Err.Error()
		}
		out[uid] = doc
	}
	return out, err
}

func (s *session) call(ctx context.Context, name string, raw json.RawMessage) (any, error) {
	p := new(params)
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, p); err != nil {
			return nil, model.Errorf(model.CodeInvalid, "the arguments of %s: %v", name, err)
		}
	}
	switch name {
	case "perf_info":
		return s.opts.Inventory(ctx)
	case "join":
		return s.join(ctx, p)
	}
	act, known := methods()[name]
	if !known {
		return nil, model.Errorf(model.CodeInvalid, "there is no method %q", model.Clip(name))
	}
	if s.node == nil {
		return nil, model.Errorf(model.CodeInvalid, "join comes first")
	}
	return act(ctx, s.node, p)
}

// join opens the node that all later calls are of.
func (s *session) join(ctx context.Context, p *params) (any, error) {
	if s.node != nil {
		return nil, model.Errorf(model.CodeInvalid, "this process has joined")
	}
	signer, err := s.signer(p)
	if err != nil {
		return nil, err
	}
	o := netstate.Options{
		Wallet: signer, Role: p.Role, Netuid: p.Netuid, Entity: p.Entity, Project: p.Project, Server: p.Server, APIKey: p.APIKey,
		Config: p.Config, Version: p.Version, MaxBlocks: p.MaxBlocks, MaxBytes: p.MaxBytes, Life: time.Duration(p.LifeS * float64(time.Second)), Log: s.opts.Log,
		Run: kymogram.Options{SpoolDir: p.Spool, NoEnvironment: true, NoSystemMetrics: true, Log: s.opts.Log},
	}
	if len(p.Chain) > 0 {
		if s.chain, err = chain.Dial(chain.Config{Endpoints: p.Chain, Log: s.opts.Log}); err != nil {
			return nil, err
		}
		o.Chain = s.chain
	}
	if s.db, err = s.opts.OpenDb(ctx, p.DB); err != nil {
		return nil, err
	}
	o.DB = s.db
	if s.node, err = netstate.Join(ctx, o); err != nil {
		err = errors.Join(err, s.end(ctx)) // the parent may join again
		s.db, s.chain = nil, nil
		return nil, err
	}
	s.keepFresh(ctx, p.Hotkey == "")
	return map[string]string{"run_id": s.node.RunID(), "hotkey": s.node.Hotkey()}, nil
}

// keepFresh signs anew in time. A key of the parent signs in calls only: nobody
// listens for its signatures between them.
func (s *session) keepFresh(ctx context.Context, own bool) {
	if !own {
		return
	}
	running, stop := context.WithCancel(ctx)
	s.stop, s.fresh = stop, make(chan struct{})
	go func() {
		defer close(s.fresh)
		if err := s.node.Run(running); err != nil {
			s.opts.Log.Warn("the state is not signed anew any more", "error", err)
		}
	}()
}

func (s *session) signer(p *params) (netstate.Signer, error) {
	if p.Hotkey == "" {
		return chain.OpenWallet(p.WalletPath, p.Wallet, s.opts.Password)
	}
	account, _, err := wallet.ParseAddress(p.Hotkey)
	return &parent{s, account}, err
}
