package chain_test

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/kymogram/kymogram/chain"
	"github.com/kymogram/kymogram/internal/substrate"
	"github.com/kymogram/kymogram/test/subtensor"
)

// nonce is how many extrinsics of a hotkey are in blocks, the failed ones too.
func (r *rig) nonce(w *chain.Wallet) uint32 {
	r.Helper()
	key, _ := subtensor.Fund(w.Account(), 0)
	raw := r.Storage([]byte(key))
	if raw == nil {
		return 0
	}
	return binary.LittleEndian.Uint32(raw)
}

// Eight programs register one endpoint at one time: one extrinsic is included, and all know
// that the endpoint is registered.
func TestParallelCallsLandOneExtrinsic(t *testing.T) {
	code := subtensor.Open(t)
	for round := range 5 {
		r := newRig(t, code, nil)
		w := r.join("a")
		var start, done sync.WaitGroup
		start.Add(1)
		for range 8 {
			s := r.dial(nil) // a client of its own, as a process has
			done.Go(func() {
				start.Wait()
				out, err := s.PrometheusExtrinsic(t.Context(), w, chain.Registration{Netuid: netuid, Port: 9101, WaitForFinalization: true})
				if err != nil || out.Info == nil || out.Info.Port != 9101 {
					t.Errorf("round %d: %+v, %v", round, out, err)
				}
			})
		}
		start.Done()
		done.Wait()
		if n := r.nonce(w); n != 1 {
			t.Errorf("round %d: %d extrinsics are in blocks", round, n)
		}
	}
}

// While the pool prefers another extrinsic of the hotkey, a registration waits for the next
// block and tries again.
func TestOtherExtrinsicsOfTheHotkey(t *testing.T) {
	r := newRig(t, subtensor.Open(t), nil)
	w, s := r.join("a"), r.dial(nil)
	for _, refusal := range []subtensor.Refusal{
		{Code: 1014, Message: "Priority is too low: (0 vs 0)", Data: "The transaction has too low priority to replace another transaction already in the pool."},
		{Code: 1013, Message: "Transaction Already Imported"},
		{Code: 1010, Message: "Invalid Transaction", Data: "Transaction has an ancient birth block"},
	} {
		left := 3
		r.Refuse(func([]byte) *subtensor.Refusal {
			if left--; left >= 0 {
				return &refusal
			}
			return nil
		})
		ok, err := s.DoServePrometheus(t.Context(), w, v4("8.8.8.8", 9101), true, false)
		if left != -1 {
			t.Errorf("%s: %v, %v with %d refusals left", refusal.Message, ok, err, left)
		}
	}
	if n := r.nonce(w); n != 3 { // the second and third meet the rate limit
		t.Errorf("%d extrinsics are in blocks", n)
	}
}

var registrations = flag.Int("registrations", 50, "how many registrations TestNodesThatAreBehind makes; 1000 take minutes")

// Each call of a client meets another node, and some are up to five blocks behind: what is
// in a block is never reported as a failure.
func TestNodesThatAreBehind(t *testing.T) {
	behind := false
	source := rand.New(rand.NewPCG(1, 2))
	code := subtensor.Open(t)
	r := &rig{t, code.Serve(t, subtensor.Options{
		Storage: map[string][]byte{subtensor.SubnetKey("ServingRateLimit", netuid): binary.LittleEndian.AppendUint64(nil, 0)},
		Late: func() int {
			if !behind {
				return 0
			}
			return source.IntN(6)
		},
	})}
	w := r.join("a")
	if err := r.Produce(t.Context(), 10); err != nil {
		t.Fatal(err)
	}
	s := r.dial(func(c *chain.Config) {
		c.Log = nil
		var slept time.Duration
		c.Sleep = func(ctx context.Context, d time.Duration) error {
			for slept += d; slept >= 12*time.Second; slept -= 12 * time.Second { // the chain goes on meanwhile
				if err := r.Produce(ctx, 1); err != nil {
					return err
				}
			}
			return ctx.Err()
		}
	})
	behind = true
	failures := 0
	for i := range *registrations {
		port := 9000 + i%2
		out, err := s.PrometheusExtrinsic(t.Context(), w, chain.Registration{
			Netuid: netuid, Port: port, IP: netip.MustParseAddr("8.8.8.8"), WaitForInclusion: true, Refresh: 1,
		})
		if err != nil || out.Info == nil || int(out.Info.Port) != port {
			if failures++; failures < 5 {
				t.Errorf("registration %d: %+v, %v", i, out, err)
			}
		}
	}
	t.Logf("%d of %d failed", failures, *registrations)
	if failures > 0 {
		t.Errorf("%d of %d registrations were reported as failed", failures, *registrations)
	}
}

// An extrinsic of this client dies after 64 blocks: nobody can send it again, not even when
// the account is gone and its numbers begin anew.
func TestExtrinsicsAreMortal(t *testing.T) {
	r := newRig(t, subtensor.Open(t), nil)
	w := r.join("a")
	if err := r.Produce(t.Context(), 70); err != nil {
		t.Fatal(err)
	}
	var sent [][]byte
	r.Refuse(func(extrinsic []byte) *subtensor.Refusal {
		sent = append(sent, extrinsic)
		return &subtensor.Refusal{Code: 1010, Message: "Invalid Transaction", Data: "Custom error: 99"}
	})
	s := r.dial(nil)
	for range 2 {
		_, err := s.DoServePrometheus(t.Context(), w, v4("8.8.8.8", 9101), true, false)
		wantRefusal(t, err, "Custom", "Custom 99")
	}
	r.Refuse(nil)
	c, err := substrate.New([]string{r.URL}, substrate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if len(sent) != 2 {
		t.Fatalf("%d were sent", len(sent))
	}
	// The birth block is five before the best, so 58 more blocks are its last.
	if err := r.Produce(t.Context(), 57); err != nil {
		t.Fatal(err)
	}
	if receipt, err := c.SubmitSigned(t.Context(), sent[0], substrate.WaitInclusion); err != nil {
		t.Errorf("in its last block: %+v, %v", receipt, err)
	}
	if err := r.Produce(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	var refused *substrate.PoolError
	if _, err := c.SubmitSigned(t.Context(), sent[1], substrate.WaitInclusion); !errors.As(err, &refused) ||
		refused.Kind != "AncientBirthBlock" && refused.Kind != "BadProof" {
		t.Errorf("after its era: %v", err)
	}
}
