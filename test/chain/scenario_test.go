package chain_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"math/big"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/kymogram/kymogram/chain"
	"github.com/kymogram/kymogram/internal/wallet"
	"github.com/kymogram/kymogram/test/subtensor"
)

const netuid = 1

// rig is the real runtime, and what registers on it.
type rig struct {
	*testing.T
	*subtensor.Server
}

func newRig(t *testing.T, code *subtensor.Code, storage map[string][]byte) *rig {
	return &rig{t, code.Serve(t, subtensor.Options{Storage: storage})}
}

func (r *rig) dial(change func(*chain.Config)) *chain.Subtensor {
	c := chain.Config{
		Endpoints: []string{r.URL}, ExternalIP: netip.MustParseAddr("8.8.4.4"), Version: 183,
		Log: slog.New(slog.NewTextHandler(testWriter{r.T}, &slog.HandlerOptions{Level: slog.LevelDebug})), Sleep: noSleep,
	}
	if change != nil {
		change(&c)
	}
	s, err := chain.Dial(c)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(s.Close)
	return s
}

func noSleep(ctx context.Context, _ time.Duration) error { return ctx.Err() }

type testWriter struct{ *testing.T }

func (w testWriter) Write(b []byte) (int, error) {
	w.Log(strings.TrimSpace(string(b)))
	return len(b), nil
}

func seedWallet(t *testing.T, name string) *chain.Wallet {
	t.Helper()
	var seed [32]byte
	copy(seed[:], name)
	w, err := chain.SeedWallet(seed)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// join registers a hotkey in the subnet, the real way: its owner burns a fee.
func (r *rig) join(name string) *chain.Wallet {
	r.Helper()
	w := seedWallet(r.T, name)
	r.joinWallet(w)
	return w
}

func (r *rig) joinWallet(w *chain.Wallet) {
	r.Helper()
	if err := subtensor.Join(r.Context(), r.URL, netuid, accountOf(r.T, w)); err != nil {
		r.Fatal(err)
	}
}

// wantRefusal checks the name of a refusal by the chain.
func wantRefusal(t *testing.T, err error, kind, name string) {
	t.Helper()
	var refused *chain.RefusedError
	if !errors.As(err, &refused) || refused.Name != name || refused.Type != kind {
		t.Errorf("error %v, want %s (%s)", err, name, kind)
	}
}

func v4(text string, port int) chain.PrometheusServeCallParams {
	return chain.NewCallParams(netuid, netip.MustParseAddr(text), port, 183)
}

// The scenario of the specification, on the real runtime: every refusal by name.
func TestScenario(t *testing.T) {
	r := newRig(t, subtensor.Open(t), nil)
	s := r.dial(nil)
	do := func(w *chain.Wallet, p chain.PrometheusServeCallParams) error {
		ok, err := s.DoServePrometheus(t.Context(), w, p, false, true)
		if ok != (err == nil) {
			t.Errorf("%v beside error %v", ok, err)
		}
		return err
	}
	wantRefusal(t, do(seedWallet(t, "hot"), v4("8.8.8.8", 9101)), "Module", "HotKeyNotRegisteredInNetwork")
	elsewhere := v4("8.8.8.8", 9101)
	elsewhere.Netuid = 77 // there is no such subnet
	wantRefusal(t, do(seedWallet(t, "hot"), elsewhere), "Module", "HotKeyNotRegisteredInNetwork")

	w := r.join("hot")
	odd := v4("8.8.8.8", 9101)
	odd.IPType = 5
	wantRefusal(t, do(w, odd), "Module", "InvalidIpType")
	wantRefusal(t, do(w, v4("127.0.0.1", 9101)), "Module", "InvalidIpAddress")
	wantRefusal(t, do(w, v4("0.0.0.0", 9101)), "Module", "InvalidIpAddress")
	wantRefusal(t, do(w, v4("255.255.255.255", 9101)), "Module", "InvalidIpAddress")
	wantRefusal(t, do(w, v4("::1", 9101)), "Module", "InvalidIpAddress")
	wantRefusal(t, do(w, v4("8.8.8.8", 0)), "Module", "InvalidPort")
	height := r.Number()
	if err := do(w, v4("8.8.8.8", 70000)); err == nil || !strings.Contains(err.Error(), "port is 70000") {
		t.Errorf("port 70000: %v", err)
	}
	wide := v4("8.8.8.8", 1)
	wide.IP = new(big.Int).Lsh(big.NewInt(1), 128)
	if err := do(w, wide); err == nil || !strings.Contains(err.Error(), "128 bits") {
		t.Errorf("ip of 129 bits: %v", err)
	}
	if r.Number() != height {
		t.Error("what does not fit was sent")
	}

	six := v4("2001:db8::17", 9101)
	if err := do(w, six); err != nil {
		t.Fatalf("IPv6: %v", err)
	}
	info, err := s.PrometheusInfo(t.Context(), netuid, w.Hotkey())
	if err != nil {
		t.Fatal(err)
	}
	addr, ok := info.Addr()
	if !ok || addr != netip.MustParseAddr("2001:db8::17") || info.Port != 9101 || info.Version != 183 || info.IPType != 6 || info.Block != r.Number() {
		t.Errorf("the record is %+v, address %s", info, addr)
	}
	wantStored(t, r, w, info)
	wantRefusal(t, do(w, six), "Module", "ServingRateLimitExceeded")
}

// wantStored compares the raw bytes on the chain with the layout of the
// specification, read by hand.
func wantStored(t *testing.T, r *rig, w *chain.Wallet, info *chain.PrometheusInfo) {
	t.Helper()
	raw := r.Storage([]byte(subtensor.HotkeyKey("Prometheus", netuid, accountOf(t, w))))
	if len(raw) != 31 {
		t.Fatalf("the record has %d bytes, not 31", len(raw))
	}
	ip := bytes.Clone(raw[12:28])
	for i, j := 0, len(ip)-1; i < j; i, j = i+1, j-1 {
		ip[i], ip[j] = ip[j], ip[i]
	}
	if binary.LittleEndian.Uint64(raw) != info.Block || binary.LittleEndian.Uint32(raw[8:]) != info.Version ||
		new(big.Int).SetBytes(ip).Cmp(info.IP) != 0 || binary.LittleEndian.Uint16(raw[28:]) != info.Port || raw[30] != info.IPType {
		t.Errorf("the bytes %x are not %+v", raw, info)
	}
}

func accountOf(t *testing.T, w *chain.Wallet) wallet.Account {
	t.Helper()
	account, _, err := wallet.ParseAddress(w.Hotkey())
	if err != nil {
		t.Fatal(err)
	}
	return account
}
