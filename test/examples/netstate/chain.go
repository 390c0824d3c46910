package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/kymogram/kymogram/internal/wallet"
	"github.com/kymogram/kymogram/netstate"
	"github.com/kymogram/kymogram/test/subtensor"
)

const (
	subnet    = 27 // without a chain
	devSubnet = 1  // the one that the dev genesis has
	tempo     = 20 // blocks between two epochs, in which the runtime gives out permits
	blockTime = 12 * time.Second
	tao       = 1_000_000_000
)

// startChain runs the real Subtensor runtime. Every hotkey registers as on the real
// chain, validators first; their stake is in the genesis, and the permits come from an
// epoch of the runtime. The settings are told their UIDs.
func (o *options) startChain(ctx context.Context, all []Settings) (stop func(), err error) {
	code, err := subtensor.Load(ctx, subtensor.Path())
	if err != nil {
		return nil, fmt.Errorf("%w; docs/chain.md says where it comes from", err)
	}
	u16 := func(n uint16) []byte { return binary.LittleEndian.AppendUint16(nil, n) }
	storage := map[string][]byte{
		subtensor.SubnetKey("Tempo", devSubnet): u16(tempo), subtensor.SubnetKey("TargetRegistrationsPerInterval", devSubnet): u16(1000),
	}
	accounts := make([]wallet.Account, len(all))
	for i, s := range all {
		key, err := wallet.NewKey(s.Seed)
		if err != nil {
			return nil, err
		}
		if accounts[i] = key.Account(); s.Role == netstate.Validator {
			storage[subtensor.StakeKey(accounts[i], devSubnet)] = binary.LittleEndian.AppendUint64(nil, uint64(1000+100*s.UID)*tao)
		}
	}
	node, err := code.NewNode(ctx, subtensor.Options{Storage: storage})
	if err != nil {
		return nil, err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: node}      //nolint:gosec // the demo's own nodes
	go func() { _ = server.Serve(listener) }() // until it is closed
	o.chain = "ws://" + listener.Addr().String()
	ctx, cancel := context.WithCancel(ctx)
	stop = func() {
		cancel()
		_ = server.Close()
	}
	if err := populate(ctx, node, o.chain, accounts); err != nil {
		stop()
		return nil, err
	}
	go grow(ctx, node)
	return stop, nil
}

// populate registers the hotkeys and waits for an epoch.
func populate(ctx context.Context, node *subtensor.Node, url string, accounts []wallet.Account) error {
	for _, account := range accounts {
		if err := subtensor.Join(ctx, url, devSubnet, account); err != nil {
			return err
		}
	}
	return node.Produce(ctx, tempo+1)
}

// grow makes a block every 12 seconds.
func grow(ctx context.Context, node *subtensor.Node) {
	ticker := time.NewTicker(blockTime)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := node.Produce(ctx, 1); err != nil && !errors.Is(err, context.Canceled) {
			fmt.Println("the chain stands still:", err)
			return
		}
	}
}
