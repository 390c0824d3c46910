package substrate_test

import (
	"errors"
	"slices"
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
	hot := subtensor.Key(t, "hot")
	node := subtensor.Start(t, subtensor.Options{})
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
	if err := subtensor.Join(t.Context(), node.URL, 1, hot.Account()); err != nil {
		t.Fatal(err)
	}
	receipt, err := c.Submit(t.Context(), account(hot), "SubtensorModule", "serve_prometheus", serve, substrate.WaitFinalization)
	if err != nil || !receipt.Finalized || receipt.Block == nil {
		t.Fatalf("serve: %+v, %v", receipt, err)
	}
	if names := eventNames(receipt.Events); !slices.Contains(names, "SubtensorModule.PrometheusServed") {
		t.Errorf("events %v", names)
	}
	head, err := c.Head(t.Context())
	if err != nil || head.Hash != *receipt.Block || head.Number != node.Number() {
		t.Errorf("head %+v, %v, in block %s", head, err, receipt.Block)
	}
}

func eventNames(events []substrate.Event) (out []string) {
	for _, e := range events {
		out = append(out, e.Pallet+"."+e.Name)
	}
	return out
}
