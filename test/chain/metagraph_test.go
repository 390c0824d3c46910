package chain_test

import (
	"encoding/binary"
	"testing"

	"github.com/kymogram/kymogram/test/subtensor"
)

// u16s and bools are vectors as the chain keeps them, below 64 items.
func u16s(values ...uint16) []byte {
	out := []byte{byte(len(values)) << 2}
	for _, v := range values {
		out = binary.LittleEndian.AppendUint16(out, v)
	}
	return out
}

func bools(values ...byte) []byte { return append([]byte{byte(len(values)) << 2}, values...) }

// Who is in the subnet, with permits, stake and values, as the real runtime keeps
// them; the neuron of the genesis has UID 0.
func TestMetagraph(t *testing.T) {
	code := subtensor.Open(t)
	a, b := accountOf(t, seedWallet(t, "a")), accountOf(t, seedWallet(t, "b"))
	u64 := func(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }
	r := newRig(t, code, map[string][]byte{
		subtensor.SubnetKey("ValidatorPermit", netuid): bools(1),
		subtensor.SubnetKey("Rank", netuid):            u16s(65535),
		subtensor.StakeKey(a, netuid):                  u64(5_000_000_000),
		subtensor.StakeKey(b, netuid+1):                u64(7), // of another subnet
	})
	r.join("a")
	r.join("b")
	got, err := r.dial(nil).Metagraph(t.Context(), netuid)
	if err != nil {
		t.Fatal(err)
	}
	if got.Block != r.Number() || got.Netuid != netuid || got.Genesis == [32]byte{} || len(got.Neurons) != 3 {
		t.Fatalf("%+v", got)
	}
	// The runtime moved some values in its epochs: its own bytes are the oracle.
	permits, ranks := r.Storage([]byte(subtensor.SubnetKey("ValidatorPermit", netuid))), r.Storage([]byte(subtensor.SubnetKey("Rank", netuid)))
	for i, n := range got.Neurons {
		rank := float64(binary.LittleEndian.Uint16(ranks[1+2*i:])) / 65535
		if n.UID != uint16(i) || n.Permit != (permits[1+i] == 1) || n.Rank != rank {
			t.Errorf("%+v, the chain keeps permit %d and rank %v", n, permits[1+i], rank)
		}
	}
	stake := binary.LittleEndian.Uint64(r.Storage([]byte(subtensor.StakeKey(a, netuid))))
	if n := got.Neurons[1]; n.Hotkey != a.String() || stake < 5_000_000_000 || n.Stake != stake {
		t.Errorf("%+v, the chain keeps %d", n, stake)
	}
	if n := got.Neurons[2]; n.Hotkey != b.String() || n.Stake != 0 {
		t.Errorf("%+v", n)
	}
	block, err := r.dial(nil).Block(t.Context())
	if err != nil || block != r.Number() {
		t.Errorf("block %d, %v", block, err)
	}
	none, err := r.dial(nil).Metagraph(t.Context(), 77)
	if err != nil || len(none.Neurons) != 0 {
		t.Errorf("a subnet that does not exist: %+v, %v", none, err)
	}
	if _, err := r.dial(nil).Metagraph(t.Context(), 1<<16); err == nil {
		t.Error("netuid above 16 bits")
	}
}
