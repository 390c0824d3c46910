package chain_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/chain"
	"github.com/kymogram/kymogram/test/subtensor"
)

// copyWallet puts a key file made by bittensor-wallet where a wallet has it.
func copyWallet(t *testing.T) (path string, secret []byte) {
	t.Helper()
	root := t.TempDir()
	folder := filepath.Join(root, "w", "hotkeys")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{"hotkeys/plain": "hotkeys/plain", "coldkeypub.txt": "coldkeypub.txt"} {
		raw, err := os.ReadFile(filepath.Join("../../internal/wallet/testdata/4.1.1/w", from))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, "w", to), raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	secret, err := os.ReadFile(filepath.Join(folder, "plain"))
	if err != nil {
		t.Fatal(err)
	}
	return root, secret
}

func TestAxonInfo(t *testing.T) {
	path, _ := copyWallet(t)
	w, err := chain.OpenWallet(path, "w/plain", nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := chain.Dial(chain.Config{Endpoints: []string{"ws://127.0.0.1:1"}, ExternalIP: netip.MustParseAddr("8.8.8.8"), Version: 183})
	if err != nil {
		t.Fatal(err)
	}
	axon, err := s.Axon(t.Context(), w, 8091)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(axon.Info())
	want := `{"version":183,"ip":"8.8.8.8","port":8091,"ip_type":4,"hotkey":"5EXc8RKduaYz9dvFoo5cq9h2czgTxHnRg4KJasBK4Rbco6Ko",` +
		`"coldkey":"5EPHgxZunZi9Dey3hY5BjuFGDzxR2XAuT14DtExgjy8jicbE","protocol":4,"placeholder1":0,"placeholder2":0}`
	if err != nil || string(raw) != want {
		t.Errorf("%s %v\nwant %s", raw, err, want)
	}
}

// A whole registration and its failures, logged at debug level: nothing secret in
// the log, the errors or what is printed.
func TestNothingSecretIsLogged(t *testing.T) {
	path, file := copyWallet(t)
	w, err := chain.OpenWallet(path, "w/plain", nil)
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, subtensor.Open(t), nil)
	var log bytes.Buffer
	s := r.dial(func(c *chain.Config) {
		c.Log = slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	for joined := range 2 {
		out, err := s.PrometheusExtrinsic(t.Context(), w, chain.Registration{Netuid: netuid, Port: 9101, WaitForInclusion: true})
		fmt.Fprintln(&log, out, err, w, fmt.Sprintf("%+v", w.Hotkey()))
		slog.New(slog.NewTextHandler(&log, nil)).Info("wallet", "wallet", w)
		if joined == 0 {
			r.joinWallet(w)
		}
	}
	r.Stop()
	_ = s.ServePrometheus(t.Context(), w, 9101, netuid, true, false)
	if !strings.Contains(log.String(), "HotKeyNotRegisteredInNetwork") || !strings.Contains(log.String(), w.Hotkey()) {
		t.Fatal("the log says nothing of what happened: the test sees nothing")
	}
	fields := map[string]any{}
	if err := json.Unmarshal(file, &fields); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"secretSeed", "privateKey", "secretPhrase"} {
		secret := strings.TrimPrefix(fields[name].(string), "0x")
		if strings.Contains(log.String(), secret) || strings.Contains(log.String(), secret[:20]) {
			t.Errorf("the log holds the %s", name)
		}
	}
}
