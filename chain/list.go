package chain

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/kymogram/kymogram/internal/substrate"
	"github.com/kymogram/kymogram/internal/wallet"
)

// Endpoint is one record of a subnet.
type Endpoint struct {
	Netuid int    `json:"netuid"`
	Hotkey string `json:"hotkey"`
	// UID is the neuron's place in the subnet, nil for a hotkey without one.
	UID *uint16 `json:"uid"`
	// Address is HOST:PORT, IPv6 in brackets.
	Address netip.AddrPort `json:"address"`
	Version uint32         `json:"version"`
	// Block is when it was served, AgeBlocks how many blocks ago; a block takes 12
	// seconds. The chain keeps records of nodes that are gone.
	Block     uint64 `json:"block"`
	AgeBlocks uint64 `json:"age_blocks"`
}

// Listing is a subnet's endpoints at one block.
type Listing struct {
	Block uint64 `json:"block"`
	// Endpoints are ordered by UID, then by hotkey.
	Endpoints []Endpoint `json:"endpoints"`
	// Invalid is how many records hold no address and were left out.
	Invalid int `json:"invalid"`
}

// List reads the endpoints of a subnet.
func (s *Subtensor) List(ctx context.Context, netuid int) (*Listing, error) {
	if err := mustFit("netuid", int64(netuid), 16); err != nil {
		return nil, err
	}
	v, err := s.view(ctx)
	if err != nil {
		return nil, shaped(err)
	}
	uids, err := s.uids(ctx, v, netuid)
	if err != nil {
		return nil, shaped(err)
	}
	out := &Listing{Block: v.head.Number, Endpoints: []Endpoint{}}
	err = s.each(ctx, v, "Prometheus", netuid, func(hotkey string, value any) error {
		info, err := readInfo(value)
		if err != nil {
			return err
		}
		addr, ok := info.Addr()
		if !ok {
			out.Invalid++
			return nil
		}
		e := Endpoint{Netuid: netuid, Hotkey: hotkey, Address: netip.AddrPortFrom(addr, info.Port), Version: info.Version, Block: info.Block}
		e.AgeBlocks = out.Block - min(out.Block, info.Block)
		if uid, ok := uids[hotkey]; ok {
			e.UID = &uid
		}
		out.Endpoints = append(out.Endpoints, e)
		return nil
	})
	if err != nil {
		return nil, shaped(err)
	}
	slices.SortFunc(out.Endpoints, byUID)
	return out, nil
}

// byUID puts those without a UID last.
func byUID(a, b Endpoint) int {
	place := func(e Endpoint) int {
		if e.UID == nil {
			return 1 << 16
		}
		return int(*e.UID)
	}
	if d := place(a) - place(b); d != 0 {
		return d
	}
	return strings.Compare(a.Hotkey, b.Hotkey)
}

func (s *Subtensor) uids(ctx context.Context, v view, netuid int) (map[string]uint16, error) {
	out := map[string]uint16{}
	err := s.each(ctx, v, "Uids", netuid, func(hotkey string, value any) error {
		if uid, ok := value.(uint64); ok {
			out[hotkey] = uint16(uid)
		}
		return nil
	})
	return out, err
}

// each reads a map of (netuid, hotkey) in one subnet.
func (s *Subtensor) each(ctx context.Context, v view, name string, netuid int, use func(hotkey string, value any) error) error {
	m := v.runtime.Metadata
	prefix, err := m.StorageKey(pallet, name, netuid)
	if err != nil {
		return err
	}
	pairs, err := s.client.Pairs(ctx, prefix, v.head.Hash)
	if err != nil {
		return err
	}
	for _, pair := range pairs {
		hotkey, value, err := readPair(m, name, pair)
		if err == nil {
			err = use(hotkey, value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func readPair(m *substrate.Metadata, name string, pair substrate.Pair) (hotkey string, value any, err error) {
	keys, err := m.StorageKeys(pallet, name, pair.Key)
	if err != nil {
		return "", nil, err
	}
	raw, ok := keys[len(keys)-1].([]byte)
	if !ok || len(raw) != len(wallet.Account{}) {
		return "", nil, errRecord
	}
	value, err = m.StorageValue(pallet, name, pair.Value)
	return wallet.Account(raw).String(), value, err
}

// Watch calls changed with the listing of a subnet, and again whenever a look finds
// other endpoints, until ctx ends (nil) or changed fails. Failing looks are logged
// and repeated.
func (s *Subtensor) Watch(ctx context.Context, netuid int, every time.Duration, changed func(*Listing) error) error {
	var last *Listing
	for {
		list, err := s.List(ctx, netuid)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			s.log.Warn("cannot read the subnet's endpoints", "netuid", netuid, "error", FormatErrorMessage(err))
		case last == nil || !slices.EqualFunc(last.Endpoints, list.Endpoints, sameEndpoint):
			if err := changed(list); err != nil {
				return err
			}
			last = list
		}
		if s.config.Sleep(ctx, every) != nil {
			return nil
		}
	}
}

// sameEndpoint leaves the age out.
func sameEndpoint(a, b Endpoint) bool {
	sameUID := (a.UID == nil) == (b.UID == nil) && (a.UID == nil || *a.UID == *b.UID)
	return sameUID && a.Hotkey == b.Hotkey && a.Address == b.Address && a.Version == b.Version && a.Block == b.Block
}
