//go:build e2e

package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/testkit/prometheus"
	"github.com/kymogram/kymogram/internal/wallet"
	"github.com/kymogram/kymogram/test/rig"
	"github.com/kymogram/kymogram/test/subtensor"
)

// chainNode is a machine of the subnet: an agent that registers its endpoint.
type chainNode struct{ ip, hotkey, address, metrics string }

// keyFolder copies the wallets that bittensor-wallet made, with the modes it gave.
func keyFolder(t *testing.T, r *rig.Rig) string {
	t.Helper()
	folder := filepath.Join(r.Dir, "wallets")
	if err := os.CopyFS(folder, os.DirFS(filepath.Join(r.Root, "internal/wallet/testdata/4.1.1"))); err != nil {
		t.Fatal(err)
	}
	err := filepath.Walk(folder, func(path string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().IsRegular() {
			err = os.Chmod(path, 0o600)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return folder
}

// start runs the node's agent until the chain's record of it is right.
func (n *chainNode) start(t *testing.T, r *rig.Rig, chain, wallets string) {
	t.Helper()
	public, err := os.ReadFile(filepath.Join(wallets, "w", "hotkeys", n.hotkey+"pub.txt"))
	if err != nil {
		t.Fatal(err)
	}
	account, err := wallet.DecodePublic(public)
	if err != nil {
		t.Fatal(err)
	}
	if err := subtensor.Join(t.Context(), chain, 1, account); err != nil {
		t.Fatal(err)
	}
	n.address = account.String()
	n.metrics = fmt.Sprintf("%s:%d", n.ip, freePort(t, n.ip))
	spool := filepath.Join(r.Dir, "spool-"+n.hotkey)
	if err := os.Mkdir(spool, 0o700); err != nil {
		t.Fatal(err)
	}
	start(t, r.Command(t, r.Binary(), "agent", "--spool", spool, "--metrics", n.metrics, "--chain", chain, "--netuid", "1",
		"--wallet", "w/"+n.hotkey, "--wallet-path", wallets, "--ip", n.ip, "--allow-private", "--announce", "1.8.3", "--chain-every", "1s"))
	until(t, "registered", func() string { return scrape(n.metrics) }, "\nkymogram_chain_registered 1\n")
}

// freePort is a port that was free a moment ago: the agent's address must be known
// before it registers.
func freePort(t *testing.T, ip string) int {
	t.Helper()
	listener, err := net.Listen("tcp", ip+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}

func scrape(address string) string {
	client := http.Client{Timeout: 10 * time.Second}
	response, err := client.Get("http://" + address + "/metrics")
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return fmt.Sprint(string(body), err)
}

func until(t *testing.T, what string, look func() string, holds string) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		last := look()
		if strings.Contains(last, holds) {
			return
		}
		if time.Since(began) > 30*time.Second {
			t.Fatalf("not %s after 30 s:\n%s", what, last)
		}
	}
}

// Two nodes register their endpoints on the chain (the real runtime); the server
// reads them there; a real Prometheus asks the server, finds both and scrapes them.
func TestPrometheusFindsNodesByTheChain(t *testing.T) {
	r := rig.New(t)
	chain := subtensor.Start(t, subtensor.Options{})
	wallets := keyFolder(t, r)
	nodes := []*chainNode{{ip: "127.0.0.2", hotkey: "plain"}, {ip: "127.0.0.3", hotkey: "second"}}
	for _, n := range nodes {
		n.start(t, r, chain.URL, wallets)
	}
	list := r.CLI(t, "chain", "list", "--chain", chain.URL, "--netuid", "1")
	for _, n := range nodes {
		if !strings.Contains(list, n.metrics) || !strings.Contains(list, n.address) {
			t.Errorf("%s of %s is not in\n%s", n.metrics, n.address, list)
		}
	}
	server := r.Serve(t, "--chain", chain.URL, "--chain-allow-private")
	config := fmt.Sprintf(`
scrape_configs:
  - job_name: node
    scrape_interval: 1s
    http_sd_configs:
      - url: %s/sd/bittensor?netuid=1
        refresh_interval: 2s
        authorization: {type: Bearer, credentials: %s} # 2.42 has no default type here
    relabel_configs:
      - {source_labels: [__meta_bittensor_age_blocks], target_label: age_at_start, regex: "(\\d+)", replacement: "known"}
`, server.Address, server.Key(t))
	p := prometheus.Start(t, config, nil)
	up := p.Await(`up{job="node"} == 1`, func(s []prometheus.Sample) bool { return len(s) == len(nodes) })
	for _, n := range nodes {
		found := false
		for _, s := range up {
			found = found || s.Labels["instance"] == n.metrics && s.Labels["hotkey"] == n.address && s.Labels["netuid"] == "1" &&
				s.Labels["version"] == "183" && s.Labels["uid"] != "" && s.Labels["age_at_start"] == "known"
		}
		if !found {
			t.Errorf("%s of %s is not in %+v", n.metrics, n.address, up)
		}
	}
	p.Await(`kymogram_chain_registered{job="node"} == 1`, func(s []prometheus.Sample) bool { return len(s) == len(nodes) })

	// Without leave, nobody is sent to addresses inside the network.
	server.Stop(t)
	strict := r.Serve(t, "--chain", chain.URL)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, strict.Address+"/sd/bittensor?netuid=1", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+strict.Key(t))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || string(body) != "[]\n" || response.Header.Get("X-Kymogram-Left-Out") != "private=2, gone=0, invalid=0" {
		t.Errorf("%s %v %v", body, response.Header, err)
	}
}
