package chain_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/kymogram/kymogram/internal/substrate"
	"github.com/kymogram/kymogram/internal/wallet"
	"github.com/kymogram/kymogram/test/subtensor"
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
	t.Cleanup(c.Close)
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

// The real runtime refuses what is not signed for it.
func TestForgedExtrinsics(t *testing.T) {
	node := subtensor.Start(t, subtensor.Options{})
	c, err := substrate.New([]string{node.URL}, substrate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	r, err := c.Runtime(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	key := subtensor.Key(t, "hot")
	call, err := r.Metadata.Call("SubtensorModule", "serve_prometheus",
		map[string]any{"netuid": 1, "version": 1, "ip": 0x08080808, "port": 1, "ip_type": 4})
	if err != nil {
		t.Fatal(err)
	}
	good := substrate.Signing{SpecVersion: r.SpecVersion, TxVersion: r.TxVersion, Genesis: r.Genesis}
	send := func(s substrate.Signing, change func([]byte)) error {
		t.Helper()
		raw, err := r.Metadata.SignExtrinsic(call, key.Account(), key, s)
		if err != nil {
			t.Fatal(err)
		}
		if change != nil {
			change(raw)
		}
		_, err = c.SubmitSigned(t.Context(), raw, substrate.WaitInclusion)
		return err
	}
	want := func(name, kind string, err error) {
		t.Helper()
		var refused *substrate.PoolError
		if !errors.As(err, &refused) || refused.Kind != kind {
			t.Errorf("%s: %v, want %s", name, err, kind)
		}
	}
	const signatureAt = 2 + 2 + 32 + 1
	want("tampered signature", "BadProof", send(good, func(raw []byte) { raw[signatureAt+40] ^= 1 }))
	want("tampered call", "BadProof", send(good, func(raw []byte) { raw[len(raw)-1] = 6 }))
	other := good
	other.Genesis[0] ^= 1
	want("another chain", "BadProof", send(other, nil))
	other = good
	other.SpecVersion++
	want("another runtime", "BadProof", send(other, nil))
	var inBlock *substrate.DispatchError
	if err := send(good, nil); !errors.As(err, &inBlock) || inBlock.Name != "HotKeyNotRegisteredInNetwork" {
		t.Errorf("a good one: %v", err)
	}
	want("old nonce", "Stale", send(good, nil))
	other = good
	other.Nonce = 9
	want("early nonce", "Future", send(other, nil))
}
