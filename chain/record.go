package chain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/netip"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/substrate"
	"github.com/kymogram/kymogram/internal/wallet"
)

// pallet is where everything here happens.
const pallet = "SubtensorModule"

// The kinds of addresses.
const (
	ipv4 = 4
	ipv6 = 6
)

// PrometheusInfo is the chain's record of an endpoint.
type PrometheusInfo struct {
	// Block is when it was served; the chain sets it.
	Block uint64 `json:"block"`
	// Version is what the node registered, see VersionAsInt.
	Version uint32 `json:"version"`
	// IP is the address as a number; Addr is that number by IPType.
	IP     *big.Int `json:"ip"`
	Port   uint16   `json:"port"`
	IPType uint8    `json:"ip_type"`
}

// Addr is the address; ok is false where number and kind do not go together.
func (p PrometheusInfo) Addr() (addr netip.Addr, ok bool) { return addrOf(p.IP, p.IPType) }

// addrOf reads an address that the chain keeps as a number.
func addrOf(ip *big.Int, kind uint8) (netip.Addr, bool) {
	switch {
	case ip == nil || ip.Sign() < 0:
		return netip.Addr{}, false
	case kind == ipv4 && ip.BitLen() <= 32:
		return netip.AddrFrom4([4]byte(ip.FillBytes(make([]byte, 4)))), true
	case kind == ipv6 && ip.BitLen() <= 128:
		return netip.AddrFrom16([16]byte(ip.FillBytes(make([]byte, 16)))), true
	}
	return netip.Addr{}, false
}

// numberOf is an address as the chain keeps it. An IPv4 address inside IPv6 is IPv4.
func numberOf(addr netip.Addr) (*big.Int, uint8) {
	addr = addr.Unmap()
	if addr.Is4() {
		return new(big.Int).SetBytes(addr.AsSlice()), ipv4
	}
	return new(big.Int).SetBytes(addr.AsSlice()), ipv6
}

// view is the chain at one block.
type view struct {
	head    substrate.Head
	runtime *substrate.Runtime
}

func (s *Subtensor) view(ctx context.Context) (v view, err error) {
	if v.runtime, err = s.client.Runtime(ctx); err != nil {
		return v, err
	}
	v.head, err = s.client.Head(ctx)
	return v, err
}

// read is a value of the pallet at a view's block, nil when there is none.
func (s *Subtensor) read(ctx context.Context, v view, name string, keys ...any) (any, error) {
	key, err := v.runtime.Metadata.StorageKey(pallet, name, keys...)
	if err != nil {
		return nil, err
	}
	raw, err := s.client.Storage(ctx, key, &v.head.Hash)
	if err != nil {
		return nil, err
	}
	return v.runtime.Metadata.StorageValue(pallet, name, raw)
}

// PrometheusInfo reads the record of a hotkey in a subnet, nil when there is none.
func (s *Subtensor) PrometheusInfo(ctx context.Context, netuid int, hotkey string) (*PrometheusInfo, error) {
	info, _, err := s.record(ctx, netuid, hotkey)
	return info, shaped(err)
}

// record also tells at which block it was read.
func (s *Subtensor) record(ctx context.Context, netuid int, hotkey string) (*PrometheusInfo, view, error) {
	if err := mustFit("netuid", int64(netuid), 16); err != nil {
		return nil, view{}, err
	}
	account, _, err := wallet.ParseAddress(hotkey)
	if err != nil {
		return nil, view{}, err
	}
	v, err := s.view(ctx)
	if err != nil {
		return nil, v, err
	}
	value, err := s.read(ctx, v, "Prometheus", netuid, account[:])
	if err != nil || value == nil {
		return nil, v, err
	}
	info, err := readInfo(value)
	return info, v, err
}

var errRecord = errors.New("the chain's record of an endpoint has an unknown form")

// readInfo takes a decoded PrometheusInfo apart.
func readInfo(value any) (*PrometheusInfo, error) {
	fields, ok := value.(substrate.Fields)
	if !ok {
		return nil, errRecord
	}
	block, ok1 := fields.Get("block").(uint64)
	version, ok2 := fields.Get("version").(uint64)
	ip, ok3 := fields.Get("ip").(*big.Int)
	port, ok4 := fields.Get("port").(uint64)
	kind, ok5 := fields.Get("ip_type").(uint64)
	if !ok1 || !ok2 || !ok3 || !ok4 || !ok5 {
		return nil, errRecord
	}
	return &PrometheusInfo{block, uint32(version), ip, uint16(port), uint8(kind)}, nil
}

// MarshalJSON adds the address as text.
func (p PrometheusInfo) MarshalJSON() ([]byte, error) {
	type plain PrometheusInfo
	out := struct {
		plain
		Address string `json:"address"`
	}{plain: plain(p)}
	if addr, ok := p.Addr(); ok {
		out.Address = netip.AddrPortFrom(addr, p.Port).String()
	}
	return json.Marshal(out)
}

// rateLimit is how many blocks must lie between two registrations in a subnet.
func (s *Subtensor) rateLimit(ctx context.Context, v view, netuid int) (uint64, error) {
	value, err := s.read(ctx, v, "ServingRateLimit", netuid)
	if err != nil {
		return 0, err
	}
	limit, ok := value.(uint64)
	if !ok {
		return 0, fmt.Errorf("the chain's ServingRateLimit has an unknown form: %T", value)
	}
	return limit, nil
}

// shaped gives errors of the connection a code and a hint.
func shaped(err error) error {
	var broken *substrate.TransportError
	if errors.As(err, &broken) {
		return &unreachable{err}
	}
	return err
}

// unreachable is a transport error with a hint.
type unreachable struct{ error }

func (e *unreachable) Unwrap() error { return e.error }

func (e *unreachable) As(target any) bool {
	out, ok := target.(**model.Error)
	if ok {
		*out = model.Errorf(model.CodeUnavailable, "%v", e.error).WithHint("check the address of the node, or name further nodes with --chain")
	}
	return ok
}
