package netstate_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/state"
	"github.com/kymogram/kymogram/netstate"
)

// TestFigures prints the figures of docs/netstate.md: make bench-netstate.
func TestFigures(t *testing.T) {
	if os.Getenv("NETSTATE_FIGURES") == "" {
		t.Skip("figures are asked for with make bench-netstate")
	}
	const validators, miners, strangers, rounds = 64, 256, 100, 21
	n, s := newNetwork(t), &subnet{}
	ctx := t.Context()
	direct := func(o *netstate.Options) { o.Server = n.server.Address } // past the proxy
	stats := netstate.Stats{}
	for uid := range miners {
		stats[uid] = stat(uid, hotkey(t, fmt.Sprint("miner", uid)), float64(uid%100+1), "NVIDIA H100 80GB HBM3")
	}
	var nodes []*netstate.Node
	for v := range validators {
		node := n.join(fmt.Sprint("v", v), netstate.Validator, nil)
		n.must(node.UpdateConfig(ctx, map[string]any{"stats": stats}))
		nodes = append(nodes, node)
		s.register(t, true, fmt.Sprint("v", v))
	}
	reader, waiting := n.join("reader", netstate.Validator, direct), n.join("waiting", netstate.Validator, direct)
	read := func() time.Duration {
		began := time.Now()
		got, err := reader.StatsAllocated(ctx, netstate.Select{})
		n.must(err)
		if len(got) != miners {
			t.Fatalf("%d miners", len(got))
		}
		return time.Since(began)
	}
	first := read()
	var again, seen []time.Duration
	for i := range rounds {
		n.must(nodes[i].SignRun(ctx)) // all records but one were verified before
		again = append(again, read())
	}
	for i := range rounds {
		for { // until it has all that there is
			changed, err := waiting.Refresh(ctx, 0)
			n.must(err)
			if !changed {
				break
			}
		}
		done := make(chan error, 1)
		go func() {
			_, err := waiting.Refresh(ctx, 30*time.Second)
			done <- err
		}()
		time.Sleep(20 * time.Millisecond) // it waits by then; if not, the figure is only better
		began := time.Now()
		n.must(nodes[i].SignRun(ctx))
		n.must(<-done)
		seen = append(seen, time.Since(began))
	}
	pad := strings.Repeat("x", state.MaxPayload-400)
	for i := range strangers {
		n.say(fmt.Sprint("stranger", i), report(t, 90, pad))
	}
	var beside string
	with := n.join("beside", netstate.Miner, func(o *netstate.Options) {
		direct(o)
		o.Chain, beside = s, filepath.Dir(o.Run.SpoolDir)
	})
	reader = with
	firstBeside := read()
	var unchanged []time.Duration
	for range rounds {
		unchanged = append(unchanged, read())
	}
	fmt.Printf("StatsAllocated, %d miners × %d validators, nothing verified before: %s\n", miners, validators, first.Round(time.Millisecond))
	fmt.Printf("the same beside %d strangers with 1 MiB each: the first read %s, then %s; %d KiB on the reader's disk\n",
		strangers, firstBeside.Round(time.Millisecond), median(unchanged), folderSize(t, beside)>>10)
	fmt.Printf("StatsAllocated, all records but one verified before: %s\n", median(again))
	fmt.Printf("an update is verified by a reader that waits, from the call that publishes it: %s\n", median(seen))
}

func median(all []time.Duration) string {
	slices.Sort(all)
	return fmt.Sprintf("median %s, worst %s", all[len(all)/2].Round(100*time.Microsecond), all[len(all)-1].Round(100*time.Microsecond))
}
