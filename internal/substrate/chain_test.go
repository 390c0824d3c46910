package substrate_test

import (
	"errors"
	"testing"

	"github.com/kymogram/kymogram/internal/substrate"
	"github.com/kymogram/kymogram/internal/testkit/subtensor"
	"github.com/kymogram/kymogram/internal/wallet"
)

func account(k *wallet.Key) substrate.Account {
	return substrate.Account{Public: k.Account(), Address: k.Account().String(), Signer: k}
}

// The client against the real runtime: a call that fails in a block, one that
// succeeds, and what the chain then holds.
func TestSubmitToTheRealRuntime(t *testing.T) {
	cold, hot := subtensor.Key(t, "cold"), subtensor.Key(t, "hot")
	key, value := subtensor.Fund(cold.Account(), 1_000_000_000_000)
	node := subtensor.Start(t, subtensor.Options{Storage: map[string][]byte{key: value}})
	c, err := substrate.New([]string{node.URL}, substrate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	serve := map[string]any{"netuid": uint16(1), "version": uint32(183), "ip": uint64(0x08080808), "port": uint16(9101), "ip_type": uint8(4)}
	_, err = c.Submit(t.Context(), account(hot), "SubtensorModule", "serve_prometheus", serve, substrate.WaitInclusion)
	var refused *substrate.DispatchError
	if !errors.As(err, &refused) || refused.Name != "HotKeyNotRegisteredInNetwork" {
		t.Errorf("before registering: %v", err)
	}
	hotkey := hot.Account()
	receipt, err := c.Submit(t.Context(), account(cold), "SubtensorModule", "burned_register",
		map[string]any{"netuid": 1, "hotkey": hotkey[:]}, substrate.WaitFinalization)
	if err != nil {
		t.Fatalf("register: %v", err)
	}
	for _, e := range receipt.Events {
		t.Log(e.Pallet, e.Name, e.Fields)
	}
	receipt, err = c.Submit(t.Context(), account(hot), "SubtensorModule", "serve_prometheus", serve, substrate.WaitFinalization)
	if err != nil {
		t.Fatalf("serve: %v", err)
	}
	for _, e := range receipt.Events {
		t.Log(e.Pallet, e.Name, e.Fields)
	}
}
