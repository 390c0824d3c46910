package netstate_test

import (
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/kymogram/kymogram/chain"
	"github.com/kymogram/kymogram/netstate"
	"github.com/kymogram/kymogram/test/subtensor"
)

// The real runtime decides: hotkeys register by burned_register, permits come from an
// epoch, stake from the chain's storage. One registers after the epoch, so without a
// permit; one is never registered.
func TestTheRealChainDecides(t *testing.T) {
	const subnet, tempo = 1, 20
	u16 := func(n uint16) []byte { return binary.LittleEndian.AppendUint16(nil, n) }
	tao := func(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n*1e9) }
	of := func(name string) string { return subtensor.StakeKey(seedWallet(t, name).Account(), subnet) }
	server := subtensor.Start(t, subtensor.Options{Storage: map[string][]byte{
		subtensor.SubnetKey("Tempo", subnet): u16(tempo), subtensor.SubnetKey("TargetRegistrationsPerInterval", subnet): u16(100),
		of("light"): tao(10), of("alsolight"): tao(10), of("heavy"): tao(1000), of("late"): tao(5000),
	}})
	register := func(names ...string) {
		for _, name := range names {
			if err := subtensor.Join(t.Context(), server.URL, subnet, seedWallet(t, name).Account()); err != nil {
				t.Fatal(err)
			}
		}
	}
	permits := func() string {
		return string(server.Storage([]byte(subtensor.SubnetKey("ValidatorPermit", subnet)))[1:])
	}
	register("light", "alsolight", "heavy", "miner")
	for range 2 * tempo { // until the epoch gave out permits
		if permits()[1:4] == "\x01\x01\x01" {
			break
		}
		if err := server.Produce(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
	}
	register("late")
	if got := permits(); got[1:4] != "\x01\x01\x01" || got[5] != 0 { // the runtime's own bytes
		t.Fatalf("permits % x", got)
	}

	n := newNetwork(t)
	ctx := t.Context()
	with := func(o *netstate.Options) {
		s, err := chain.Dial(chain.Config{Endpoints: []string{server.URL}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		o.Chain, o.ChainEvery, o.Netuid = s, time.Nanosecond, subnet
	}
	nodes := map[string]*netstate.Node{}
	for name, score := range map[string]float64{"light": 10, "alsolight": 10, "heavy": 20, "late": 90, "stranger": 90} {
		nodes[name] = n.join(name, netstate.Validator, with)
		n.must(nodes[name].UpdateStats(ctx, netstate.Stats{4: stat(4, hotkey(t, "miner"), score, "H100")}))
	}
	n.must(n.join("miner", netstate.Miner, with).UpdateSpecs(ctx, map[string]any{"gpu": 1}))
	reader := nodes["light"]
	votes, err := reader.StatsAllocated(ctx, netstate.Select{})
	n.must(err)
	staked, err := reader.StatsAllocated(ctx, netstate.Select{ByStake: true})
	n.must(err)
	if votes[4].Score != 10 || staked[4].Score != 20 {
		t.Errorf("by votes %v, by stake %v, want 10 and 20", votes[4].Score, staked[4].Score)
	}
	specs, err := reader.MinerSpecs(ctx, map[int]string{4: hotkey(t, "miner")})
	if n.must(err); len(specs) != 1 { // a miner needs no permit
		t.Errorf("%+v", specs)
	}
	reasons := map[string]string{hotkey(t, "late"): "has no validator permit", hotkey(t, "stranger"): "is not in subnet"}
	verdicts, err := reader.Verdicts(ctx)
	n.must(err)
	for _, v := range verdicts {
		why, refused := reasons[v.Hotkey]
		if refused != (v.Verdict == "unregistered") || !strings.Contains(v.Reason, why) {
			t.Errorf("%+v", v)
		}
	}
	// The next epoch gives the late one its permit.
	for range 2 * tempo {
		n.must(server.Produce(ctx, 1))
	}
	if permits()[5] != 1 {
		t.Fatalf("permits % x", permits())
	}
	staked, err = reader.StatsAllocated(ctx, netstate.Select{ByStake: true})
	if n.must(err); staked[4].Score != 90 {
		t.Errorf("after the epoch, by stake: %v, want 90", staked[4].Score)
	}
	n.must(nodes["late"].LogChain(ctx))
}
