package chain

import (
	"context"
	"math"
	"slices"

	"github.com/kymogram/kymogram/internal/wallet"
)

// Neuron is a hotkey's place in a subnet, and what the chain holds of it.
type Neuron struct {
	UID    uint16 `json:"uid"`
	Hotkey string `json:"hotkey"`
	// Permit says that the chain takes the neuron's weights: it may be a validator.
	Permit bool `json:"permit"`
	// Stake and Emission are in the subnet's smallest unit, 10⁻⁹ of a token.
	Stake    uint64 `json:"stake"`
	Emission uint64 `json:"emission"`
	// The rest is from 0 to 1.
	Rank           float64 `json:"rank"`
	Trust          float64 `json:"trust"`
	ValidatorTrust float64 `json:"validator_trust"`
	Consensus      float64 `json:"consensus"`
	Incentive      float64 `json:"incentive"`
}

// Metagraph is a subnet's neurons at one block.
type Metagraph struct {
	Netuid  int      `json:"netuid"`
	Genesis [32]byte `json:"-"` // the hash of the chain's first block
	Block   uint64   `json:"block"`
	// Neurons are ordered by UID.
	Neurons []Neuron `json:"neurons"`
}

// Metagraph reads who is in a subnet, who may be a validator, and what they hold.
func (s *Subtensor) Metagraph(ctx context.Context, netuid int) (*Metagraph, error) {
	if err := mustFit("netuid", int64(netuid), 16); err != nil {
		return nil, err
	}
	v, err := s.view(ctx)
	if err != nil {
		return nil, shaped(err)
	}
	out := &Metagraph{Netuid: netuid, Genesis: v.runtime.Genesis, Block: v.head.Number, Neurons: []Neuron{}}
	uids, err := s.uids(ctx, v, netuid)
	if err != nil {
		return nil, shaped(err)
	}
	columns, err := s.columns(ctx, v, netuid)
	if err != nil {
		return nil, shaped(err)
	}
	for hotkey, uid := range uids {
		out.Neurons = append(out.Neurons, columns.neuron(uid, hotkey))
	}
	slices.SortFunc(out.Neurons, func(a, b Neuron) int { return int(a.UID) - int(b.UID) })
	return out, shaped(s.stakes(ctx, v, out))
}

// columns are the chain's lists of a subnet, by name; a neuron's place is its UID.
type columns map[string][]any

func (s *Subtensor) columns(ctx context.Context, v view, netuid int) (columns, error) {
	out := columns{}
	for _, name := range []string{"ValidatorPermit", "Emission", "Rank", "Trust", "ValidatorTrust", "Consensus", "Incentive"} {
		value, err := s.read(ctx, v, name, netuid)
		if err != nil {
			return nil, err
		}
		out[name], _ = value.([]any)
	}
	return out, nil
}

func (c columns) neuron(uid uint16, hotkey string) Neuron {
	at := func(name string) any {
		if list := c[name]; int(uid) < len(list) {
			return list[uid]
		}
		return nil
	}
	share := func(name string) float64 {
		n, _ := at(name).(uint64)
		return float64(n) / math.MaxUint16
	}
	n := Neuron{UID: uid, Hotkey: hotkey}
	n.Permit, _ = at("ValidatorPermit").(bool)
	n.Emission, _ = at("Emission").(uint64)
	n.Rank, n.Trust, n.ValidatorTrust = share("Rank"), share("Trust"), share("ValidatorTrust")
	n.Consensus, n.Incentive = share("Consensus"), share("Incentive")
	return n
}

// stakes reads what each hotkey holds in the subnet, its nominators' part included.
func (s *Subtensor) stakes(ctx context.Context, v view, m *Metagraph) error {
	at := map[string]int{}
	var keys [][]byte
	for i, n := range m.Neurons {
		account, _, err := wallet.ParseAddress(n.Hotkey)
		if err != nil {
			return err
		}
		key, err := v.runtime.Metadata.StorageKey(pallet, "TotalHotkeyAlpha", account[:], m.Netuid)
		if err != nil {
			return err
		}
		at[string(key)], keys = i, append(keys, key)
	}
	pairs, err := s.client.Values(ctx, keys, v.head.Hash)
	if err != nil {
		return err
	}
	for _, pair := range pairs {
		value, err := v.runtime.Metadata.StorageValue(pallet, "TotalHotkeyAlpha", pair.Value)
		if err != nil {
			return err
		}
		if i, asked := at[string(pair.Key)]; asked {
			m.Neurons[i].Stake, _ = value.(uint64)
		}
	}
	return nil
}

// Block is the number of the chain's newest block.
func (s *Subtensor) Block(ctx context.Context) (uint64, error) {
	head, err := s.client.Head(ctx)
	return head.Number, shaped(err)
}
