package chain

import (
	"context"
	"net/netip"
)

// protocol is the axon protocol number that Bittensor's tools register.
const protocol = 4

// AxonInfo describes a node's axon as Bittensor passes it around.
type AxonInfo struct {
	Version      uint32 `json:"version"`
	IP           string `json:"ip"`
	Port         int    `json:"port"`
	IPType       int    `json:"ip_type"`
	Hotkey       string `json:"hotkey"`
	Coldkey      string `json:"coldkey"`
	Protocol     int    `json:"protocol"`
	Placeholder1 int    `json:"placeholder1"`
	Placeholder2 int    `json:"placeholder2"`
}

// ComputeSubnetAxon is a node that answers at an external address.
type ComputeSubnetAxon struct {
	Wallet *Wallet
	// External is the address that others reach.
	External netip.AddrPort
	// Version is the node's own, see VersionAsInt: the one that is registered with
	// its Prometheus endpoint too.
	Version uint32
}

// Axon is the axon of this chain's configuration on a port.
func (s *Subtensor) Axon(ctx context.Context, w *Wallet, port uint16) (*ComputeSubnetAxon, error) {
	ip, err := s.ExternalIP(ctx)
	if err != nil {
		return nil, err
	}
	return &ComputeSubnetAxon{w, netip.AddrPortFrom(ip, port), s.config.Version}, nil
}

// Info is the axon's description.
func (a *ComputeSubnetAxon) Info() AxonInfo {
	_, kind := numberOf(a.External.Addr())
	return AxonInfo{
		Version: a.Version, IP: a.External.Addr().Unmap().String(), Port: int(a.External.Port()), IPType: int(kind),
		Hotkey: a.Wallet.Hotkey(), Coldkey: a.Wallet.Coldkey(), Protocol: protocol,
	}
}
