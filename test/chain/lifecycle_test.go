package chain_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/kymogram/kymogram/chain"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/test/subtensor"
)

func u16(n uint16) []byte { return binary.LittleEndian.AppendUint16(nil, n) }

// IPv4 and IPv6, listing, the rate limit and its end after 50 blocks, and what
// happens to the record when the neuron is replaced.
func TestRecordsOverTime(t *testing.T) {
	code := subtensor.Open(t)
	r := newRig(t, code, map[string][]byte{
		subtensor.SubnetKey("MaxAllowedUids", netuid): u16(1), subtensor.SubnetKey("ImmunityPeriod", netuid): u16(0),
	})
	a := r.join("a") // in the place of the genesis' own neuron
	s := r.dial(nil)
	register := func(w *chain.Wallet, ip string, change func(*chain.Registration)) (*chain.Outcome, error) {
		g := chain.Registration{Netuid: netuid, Port: 9101, IP: netip.MustParseAddr(ip), WaitForFinalization: true}
		if change != nil {
			change(&g)
		}
		return s.PrometheusExtrinsic(t.Context(), w, g)
	}
	out, err := register(a, "8.8.8.8", nil)
	if err != nil || out.AlreadyServed || out.Info.IP.Int64() != 0x08080808 || out.Info.IPType != 4 {
		t.Fatalf("first: %+v, %v", out, err)
	}
	height := r.Number()
	if out, err = register(a, "8.8.8.8", nil); err != nil || !out.AlreadyServed {
		t.Errorf("again: %+v, %v", out, err)
	}
	if out, err = register(a, "::ffff:8.8.8.8", nil); err != nil || !out.AlreadyServed {
		t.Errorf("the same address inside IPv6: %+v, %v", out, err)
	}
	_, err = register(a, "2606:4700::1", nil)
	var limited *chain.RateLimitError
	if !errors.As(err, &limited) || limited.Blocks != 49 {
		t.Errorf("another address at once: %v", err)
	}
	if r.Number() != height {
		t.Error("the rate limit was asked of the chain")
	}
	// 49 more blocks: the next block is then the first one that may hold it.
	if err := r.Produce(t.Context(), 48); err != nil {
		t.Fatal(err)
	}
	if _, err = register(a, "2606:4700::1", nil); !errors.As(err, &limited) || limited.Blocks != 1 {
		t.Errorf("one block too early: %v", err)
	}
	_, err = s.DoServePrometheus(t.Context(), a, v4("2606:4700::1", 9101), true, false)
	wantRefusal(t, err, "Module", "ServingRateLimitExceeded") // the chain agrees
	if out, err = register(a, "2606:4700::1", nil); err != nil || out.AlreadyServed || out.Info.IPType != 6 {
		t.Errorf("after 50 blocks: %+v, %v", out, err)
	}
	list, err := s.List(t.Context(), netuid)
	if err != nil {
		t.Fatal(err)
	}
	uid := uint16(0)
	want := []chain.Endpoint{{Netuid: netuid, Hotkey: a.Hotkey(), UID: &uid, Address: netip.MustParseAddrPort("[2606:4700::1]:9101"), Version: 183, Block: r.Number()}}
	if diff := cmp.Diff(want, list.Endpoints, cmpopts.EquateComparable(netip.AddrPort{})); diff != "" || list.Block != r.Number() {
		t.Errorf("list at %d (-want +got):\n%s", list.Block, diff)
	}
	// Another neuron takes the only place of the subnet. This runtime leaves the
	// record behind (later ones remove it): it must not count as registered.
	r.join("b")
	list, err = s.List(t.Context(), netuid)
	if err != nil || len(list.Endpoints) != 1 || list.Endpoints[0].UID != nil {
		t.Errorf("after it was replaced: %+v, %v", list, err)
	}
	_, err = register(a, "2606:4700::1", nil) // what the record says
	wantRefusal(t, err, "Module", "HotKeyNotRegisteredInNetwork")
	_, err = register(a, "8.8.8.8", nil)
	wantRefusal(t, err, "Module", "HotKeyNotRegisteredInNetwork")
}

// The lifecycle: registered at the start, registered again when the version or the
// address changed or the record is old, and what /metrics shows of it.
func TestRegistrar(t *testing.T) {
	r := newRig(t, subtensor.Open(t), map[string][]byte{subtensor.SubnetKey("ServingRateLimit", netuid): binary.LittleEndian.AppendUint64(nil, 5)})
	w := r.join("a")
	address := "93.184.216.34"
	services := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) { fmt.Fprintln(out, address) }))
	defer services.Close()
	now := time.Unix(1_700_000_000, 0)
	life := chain.Lifecycle{Netuid: netuid, Port: 9101, Refresh: 100}
	registrar := func(version uint32) *chain.Registrar {
		return r.dial(func(c *chain.Config) {
			c.ExternalIP, c.IPServices, c.Version = netip.Addr{}, []string{"http://127.0.0.1:1/", services.URL + "/a", services.URL + "/b"}, version
			c.Now = func() time.Time { return now }
		}).Registrar(w, life)
	}
	// The service runs on loopback, which ExternalIP accepts as a service.
	g := registrar(183)
	step := func(name string, want chain.Result) {
		t.Helper()
		now = now.Add(6 * time.Hour)  // the address is asked for again
		_ = g.SyncStatus(t.Context()) // the error is in the status
		if s := g.Status(); s.Result != want {
			t.Errorf("%s: %s (%s), want %s", name, s.Result, s.Error, want)
		}
	}
	if err := g.InitPrometheus(t.Context()); err != nil || g.Status().Result != chain.Registered {
		t.Fatalf("at the start: %v %+v", err, g.Status())
	}
	step("nothing changed", chain.AlreadyServed)
	address = "93.184.216.35"
	step("another address, and the look-up for it fails", chain.AlreadyServed)
	step("another address at once", chain.RateLimited)
	produce := func(n int) {
		t.Helper()
		if err := r.Produce(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	produce(5)
	step("another address", chain.Registered)
	if got := g.Status().Info; got.IP.Int64() != 0x5db8d823 {
		t.Errorf("the record is %+v", got)
	}
	produce(5)
	g = registrar(184)
	step("another version", chain.Registered)
	produce(99)
	step("not old yet", chain.AlreadyServed)
	produce(1)
	step("old", chain.Registered)
	want := `
# HELP kymogram_chain_looks_total Looks at the chain's record, by how they ended.
# TYPE kymogram_chain_looks_total counter
kymogram_chain_looks_total{result="already_served"} 1
kymogram_chain_looks_total{result="failed"} 0
kymogram_chain_looks_total{result="rate_limited"} 0
kymogram_chain_looks_total{result="refused"} 0
kymogram_chain_looks_total{result="registered"} 2
kymogram_chain_looks_total{result="unreachable"} 0
# HELP kymogram_chain_registered 1 while the chain's record of this endpoint is right, as of the last look that could tell.
# TYPE kymogram_chain_registered gauge
kymogram_chain_registered 1
# HELP kymogram_chain_registered_version Version in the chain's record of this endpoint, 100*major+10*minor+patch.
# TYPE kymogram_chain_registered_version gauge
kymogram_chain_registered_version 184
`
	if diff := cmp.Diff(want, "\n"+exposition(t, g, "kymogram_chain_looks_total", "kymogram_chain_registered", "kymogram_chain_registered_version")); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
	address = "10.0.0.1"
	step("an address that is not of the internet", chain.AlreadyServed)
	r.Stop()
	address = "93.184.216.35"
	step("no node", chain.Unreachable)
	if s := g.Status(); !s.Current || s.Error == "" {
		t.Errorf("a look that tells nothing changed what is known: %+v", s)
	}
}

// exposition is what Prometheus reads of some families.
func exposition(t *testing.T, c prometheus.Collector, names ...string) string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(c); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, f := range families {
		if slices.Contains(names, f.GetName()) {
			if _, err := expfmt.MetricFamilyToText(&out, f); err != nil {
				t.Fatal(err)
			}
		}
	}
	return out.String()
}

// A registration whose connection breaks is tried again, 1 and 2 seconds apart, and
// not at all when the first one turns out to have reached the chain.
func TestRetries(t *testing.T) {
	r := newRig(t, subtensor.Open(t), nil)
	w := r.join("a")
	var pauses []time.Duration
	s := r.dial(func(c *chain.Config) {
		c.Endpoints = []string{"ws://127.0.0.1:1"}
		c.Sleep = func(_ context.Context, d time.Duration) error { pauses = append(pauses, d); return nil }
	})
	_, err := s.DoServePrometheus(t.Context(), w, v4("8.8.8.8", 9101), false, true)
	var unknown *chain.UnknownOutcomeError
	if errors.As(err, &unknown) || model.CodeOf(err) != model.CodeUnavailable || !strings.Contains(err.Error(), "refused") || len(pauses) != 2 || pauses[0] != time.Second || pauses[1] != 2*time.Second {
		t.Errorf("no node: %v after pauses %v", err, pauses)
	}
	// The node takes the extrinsic and goes away before it says so.
	r.CutAfterNext()
	pauses = nil
	s = r.dial(func(c *chain.Config) {
		c.Sleep = func(_ context.Context, d time.Duration) error { pauses = append(pauses, d); return nil }
	})
	out, err := s.PrometheusExtrinsic(t.Context(), w, chain.Registration{Netuid: netuid, Port: 9101, WaitForFinalization: true})
	if err != nil || out.Info == nil || len(pauses) != 1 || out.Info.Block != r.Number() {
		t.Errorf("cut: %+v, %v after pauses %v", out, err, pauses)
	}
	// So it is with given arguments: a second one would meet the rate limit.
	again := r.join("b")
	r.CutAfterNext()
	pauses = nil
	if ok, err := s.DoServePrometheus(t.Context(), again, v4("8.8.8.8", 9101), false, true); !ok || err != nil || len(pauses) != 1 {
		t.Errorf("cut: %v, %v after pauses %v", ok, err, pauses)
	}
	// The first one waits in the pool when the connection breaks, and comes before the second.
	late := r.join("c")
	r.HoldNext()
	pauses = nil
	if ok, err := s.DoServePrometheus(t.Context(), late, v4("8.8.8.8", 9101), false, true); !ok || err != nil || len(pauses) != 1 {
		t.Errorf("held: %v, %v after pauses %v", ok, err, pauses)
	}
	// A refusal is not repeated.
	r.Refuse(func([]byte) *subtensor.Refusal {
		return &subtensor.Refusal{Code: 1010, Message: "Invalid Transaction", Data: "Transaction has a bad signature"}
	})
	pauses = nil
	_, err = s.DoServePrometheus(t.Context(), w, v4("8.8.8.8", 9101), false, true)
	wantRefusal(t, err, "Pool", "BadProof")
	if len(pauses) != 0 {
		t.Errorf("a refusal was repeated: %v", pauses)
	}
}

// Later runtimes refuse in the pool, with numbers of their own (spec 425, from its
// source: the runtime at hand does not).
func TestPoolRefusalsByName(t *testing.T) {
	r := newRig(t, subtensor.Open(t), nil)
	w, s := seedWallet(t, "a"), r.dial(nil)
	for code, name := range map[int]string{
		10: "HotKeyNotRegisteredInNetwork", 11: "InvalidIpAddress", 12: "ServingRateLimitExceeded", 13: "InvalidPort", 255: "BadRequest", 99: "Custom 99",
	} {
		r.Refuse(func([]byte) *subtensor.Refusal {
			return &subtensor.Refusal{Code: 1010, Message: "Invalid Transaction", Data: fmt.Sprintf("Custom error: %d", code)}
		})
		for _, wait := range []bool{true, false} {
			_, err := s.DoServePrometheus(t.Context(), w, v4("8.8.8.8", 9101), false, wait)
			wantRefusal(t, err, "Custom", name)
		}
	}
}

// Without a wait, success is only that a node took the call.
func TestWithoutWaiting(t *testing.T) {
	r := newRig(t, subtensor.Open(t), nil)
	s := r.dial(nil)
	ok, err := s.DoServePrometheus(t.Context(), seedWallet(t, "nobody"), v4("8.8.8.8", 9101), false, false)
	if !ok || err != nil {
		t.Errorf("%v, %v", ok, err)
	}
	if info, err := s.PrometheusInfo(t.Context(), netuid, seedWallet(t, "nobody").Hotkey()); err != nil || info != nil {
		t.Errorf("the record is %+v, %v", info, err)
	}
	if !s.ServePrometheus(t.Context(), r.join("a"), 9101, netuid, true, false) {
		t.Error("ServePrometheus: false")
	}
	if s.ServePrometheus(t.Context(), seedWallet(t, "nobody"), 9101, netuid, true, false) {
		t.Error("ServePrometheus of a stranger: true")
	}
}

func TestWatchTellsChanges(t *testing.T) {
	r := newRig(t, subtensor.Open(t), nil)
	w := r.join("a")
	writer := r.dial(nil)
	var seen []int
	looks := 0
	s := r.dial(func(c *chain.Config) {
		c.Sleep = func(context.Context, time.Duration) error {
			looks++
			if looks == 2 && !writer.ServePrometheus(t.Context(), w, 9101, netuid, true, false) {
				t.Error("not served")
			}
			return nil
		}
	})
	stop := errors.New("seen enough")
	err := s.Watch(t.Context(), netuid, time.Second, func(l *chain.Listing) error {
		if seen = append(seen, len(l.Endpoints)); len(seen) == 2 {
			return stop
		}
		return nil
	})
	if !errors.Is(err, stop) || looks != 2 || cmp.Diff([]int{0, 1}, seen) != "" {
		t.Errorf("%v after %d looks: %v", err, looks, seen)
	}
}

func TestInfoAsJSON(t *testing.T) {
	info := chain.PrometheusInfo{Block: 7, Version: 183, IP: v4("8.8.8.8", 0).IP, Port: 9101, IPType: 4}
	raw, err := json.Marshal(info)
	want := `{"block":7,"version":183,"ip":134744072,"port":9101,"ip_type":4,"address":"8.8.8.8:9101"}`
	if err != nil || string(raw) != want {
		t.Errorf("%s %v, want %s", raw, err, want)
	}
}
