package netstate

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"github.com/kymogram/kymogram"
	"github.com/kymogram/kymogram/chain"
	"github.com/kymogram/kymogram/internal/collect"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/state"
)

// Inventory is what a machine has, in the form of the seed's get_perf_info.
type Inventory = collect.Inventory

// PerfInfo reads what this machine has. It takes about a second; what cannot be read
// is 0 and in the error.
func PerfInfo(ctx context.Context) (Inventory, error) {
	return collect.New(collect.Options{}).Inventory(ctx)
}

// UpdateStats publishes a validator's stats and logs them as time series.
func (n *Node) UpdateStats(ctx context.Context, stats Stats) error {
	if err := n.only(Validator); err != nil {
		return err
	}
	stats = maps.Clone(stats)
	for uid, s := range stats {
		s.UID = uid
		stats[uid] = s
	}
	n.warn(stats)
	if err := n.logStats(stats); err != nil {
		return err
	}
	return n.UpdateConfig(ctx, map[string]any{"stats": stats})
}

// warn tells of reports that no reader will count.
func (n *Node) warn(stats Stats) {
	text, err := json.Marshal(stats)
	if err != nil {
		return // UpdateConfig says so
	}
	if _, note := readStats(text); note != "" {
		n.log.Warn("readers leave out some of these stats", "why", note)
	}
}

// PublishStats publishes the stats of the database: what [ComputeDb.WriteStats] put there.
func (n *Node) PublishStats(ctx context.Context) error {
	stats, err := n.db.RetrieveStats(ctx)
	if err != nil {
		return err
	}
	return n.UpdateStats(ctx, stats)
}

// logStats keeps the numbers as series, one a miner.
func (n *Node) logStats(stats Stats) error {
	for _, uid := range slices.Sorted(maps.Keys(stats)) {
		s := stats[uid]
		labels := kymogram.Labels(map[string]string{"uid": strconv.Itoa(uid), "hotkey": s.Hotkey})
		for name, value := range map[string]float64{"stats/score": s.Score, "stats/reliability_score": s.Reliability} {
			if err := n.run.Log(name, value, labels); err != nil {
				return err
			}
		}
	}
	return nil
}

// UpdateAllocatedHotkeys publishes which miners a validator has allocated, and its
// stats with this mark, which it writes to the database first.
func (n *Node) UpdateAllocatedHotkeys(ctx context.Context, hotkeys []string) error {
	if err := n.only(Validator); err != nil {
		return err
	}
	stats, err := n.db.RetrieveStats(ctx)
	if err != nil {
		return err
	}
	for uid, s := range stats {
		s.Allocated = slices.Contains(hotkeys, s.Hotkey)
		stats[uid] = s
	}
	if err := n.db.WriteStats(ctx, stats); err != nil {
		return err
	}
	return n.updateList(ctx, "allocated_hotkeys", hotkeys, map[string]any{"stats": stats})
}

// UpdatePenalizedHotkeys publishes which hotkeys a validator holds to be cheating.
func (n *Node) UpdatePenalizedHotkeys(ctx context.Context, hotkeys []string) error {
	return n.updateList(ctx, "penalized_hotkeys", hotkeys, map[string]any{})
}

// UpdatePenalizedHotkeysChecklist publishes which hotkeys are to be looked at.
func (n *Node) UpdatePenalizedHotkeysChecklist(ctx context.Context, hotkeys []string) error {
	return n.updateList(ctx, "penalized_hotkeys_checklist", hotkeys, map[string]any{})
}

// updateList publishes a list and keeps its text and length over time.
func (n *Node) updateList(ctx context.Context, name string, hotkeys []string, changes map[string]any) error {
	if err := n.only(Validator); err != nil {
		return err
	}
	if hotkeys == nil {
		hotkeys = []string{}
	}
	text, err := json.Marshal(hotkeys)
	if err != nil {
		return err
	}
	if err := n.run.LogText("history/"+name, string(text)); err != nil {
		return err
	}
	if err := n.run.Log(name+"/count", float64(len(hotkeys))); err != nil {
		return err
	}
	changes[name] = hotkeys
	return n.UpdateConfig(ctx, changes)
}

// UpdateSpecs publishes what a miner has. With readers it is encrypted for these
// hotkeys, each of which has published a recipient in its signed record; without it
// is clear text, as the compute subnet does it.
func (n *Node) UpdateSpecs(ctx context.Context, specs any, readers ...string) error {
	if err := n.only(Miner); err != nil {
		return err
	}
	if len(readers) > 0 {
		recipients, err := n.recipients(ctx, readers)
		if err != nil {
			return err
		}
		if specs, err = EncryptSpecs(n.Hotkey(), specs, recipients...); err != nil {
			return err
		}
	}
	return n.UpdateConfig(ctx, map[string]any{"specs": specs})
}

// UpdateAllocated publishes by which validator a miner is allocated, "" for none.
func (n *Node) UpdateAllocated(ctx context.Context, validator string) error {
	if err := n.only(Miner); err != nil {
		return err
	}
	var value any
	if validator != "" {
		value = validator
	}
	return n.UpdateConfig(ctx, map[string]any{"allocated": value})
}

// UpdateMinerPortOpen publishes whether a miner's port can be reached.
func (n *Node) UpdateMinerPortOpen(ctx context.Context, open bool) error {
	if err := n.only(Miner); err != nil {
		return err
	}
	level := 0.0
	if open {
		level = 1
	}
	if err := n.run.Log("is_port_open", level); err != nil {
		return err
	}
	return n.UpdateConfig(ctx, map[string]any{"is_port_open": open})
}

// SyncAllocated publishes by which validator this miner is allocated, as the
// validators say it: the first whose list has its hotkey.
func (n *Node) SyncAllocated(ctx context.Context, s Select) error {
	voters, err := n.voters(ctx, s)
	if err != nil {
		return err
	}
	for _, v := range voters {
		if slices.Contains(v.config.Allocated, n.Hotkey()) {
			return n.UpdateAllocated(ctx, v.record.Hotkey.String())
		}
	}
	return n.UpdateAllocated(ctx, "")
}

// LogChainData keeps values of the chain over time.
func (n *Node) LogChainData(values map[string]float64) error { return n.run.LogMap(values) }

// LogChain keeps what the chain holds of this participant: for a validator block,
// stake, rank, trust and emission, for a miner consensus and incentive too.
func (n *Node) LogChain(ctx context.Context) error {
	graph, err := n.registry.look(ctx)
	if err != nil {
		return err
	}
	if graph == nil {
		return model.Errorf(model.CodeInvalid, "no chain is configured").WithHint("set Chain")
	}
	neuron, found := n.registry.neuron(n.place.Hotkey)
	if !found {
		return model.Errorf(model.CodeNotFound, "%s", n.registry.refusal(n.opts.Role, n.place.Hotkey))
	}
	return n.LogChainData(chainValues(n.opts.Role, graph.Block, neuron))
}

// chainValues are named as the compute subnet's programs name them.
func chainValues(role string, block uint64, of chain.Neuron) map[string]float64 {
	const unit = 1e9
	out := map[string]float64{"Block": float64(block), "Stake": float64(of.Stake) / unit, "Emission": float64(of.Emission) / unit}
	if role == Validator {
		out["Rank"], out["vTrust"] = of.Rank, of.ValidatorTrust
		return out
	}
	out["Trust"], out["Consensus"], out["Incentive"] = of.Trust, of.Consensus, of.Incentive
	return out
}

func (n *Node) only(role string) error {
	if n.opts.Role != role {
		return model.Errorf(model.CodeInvalid, "a %s does not publish this: it is for a %s", n.opts.Role, role)
	}
	return nil
}

// Judgement is what a reader may think of a record, with the reason in words.
type Judgement = state.Judgement
