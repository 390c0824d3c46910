package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kymogram/kymogram/chain"
	"github.com/kymogram/kymogram/server/internal/scrape"
	"github.com/kymogram/kymogram/test/subtensor"
)

// metricsAt serves an exposition at an address of this machine.
func metricsAt(t *testing.T, ip string, handler http.HandlerFunc) netip.AddrPort {
	t.Helper()
	listener, err := net.Listen("tcp", ip+":0")
	if err != nil {
		t.Skipf("this machine has no address %s: %v", ip, err)
	}
	s := &httptest.Server{Listener: listener, Config: &http.Server{Handler: handler}}
	s.Start()
	t.Cleanup(s.Close)
	return netip.MustParseAddrPort(listener.Addr().String())
}

const exposition = `# TYPE jobs_total counter
jobs_total{kind="a"} 3
jobs_total{kind="b"} 4
# TYPE heat gauge
heat 1.5
# TYPE wait_seconds histogram
wait_seconds_bucket{le="0.5"} 1
wait_seconds_bucket{le="+Inf"} 2
wait_seconds_sum 1.25
wait_seconds_count 2
`

// The whole way: nodes register on the chain (the real runtime), the server finds
// them there, scrape follows it and logs what they expose.
func TestScrapeFollowsTheChain(t *testing.T) {
	node := subtensor.Start(t, subtensor.Options{})
	secret := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "inside 1") }))
	defer secret.Close()
	handlers := map[string]http.HandlerFunc{
		"good":     func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, exposition) },
		"broken":   func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{}") },
		"endless":  func(w http.ResponseWriter, _ *http.Request) { endless(w, "# x\n", 8<<20+(1<<20)) },
		"many":     func(w http.ResponseWriter, _ *http.Request) { many(w, 20_000+1) },
		"redirect": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, secret.URL, http.StatusFound) },
	}
	hotkeys := map[string]string{}
	for name, handler := range handlers {
		var seed [32]byte
		copy(seed[:], name)
		w, err := chain.SeedWallet(seed)
		if err != nil {
			t.Fatal(err)
		}
		hotkeys[name] = w.Hotkey()
		if err := subtensor.Join(t.Context(), node.URL, 1, subtensor.Key(t, name).Account()); err != nil {
			t.Fatal(err)
		}
		at := metricsAt(t, "127.0.0.2", handler)
		s, err := chain.Dial(chain.Config{Endpoints: []string{node.URL}, ExternalIP: at.Addr(), AllowPrivate: true, Version: 183})
		if err != nil {
			t.Fatal(err)
		}
		if !s.ServePrometheus(t.Context(), w, int(at.Port()), 1, true, false) {
			t.Fatal("not registered")
		}
		s.Close()
	}
	k := serveKitchen(t, "--chain", node.URL, "--chain-allow-private")
	var total scrape.Result
	if err := json.Unmarshal([]byte(k.ok("scrape", "--netuid", "1", "--once", "--json", "--spool", k.makeSpool())), &total); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(scrape.Result{Targets: 5, Up: 1, Values: 5 + 7}, total); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	got := map[string]float64{}
	for line := range strings.Lines(k.ok("export", "default/subnet-1/"+hotkeys["good"], "--format", "jsonl")) {
		var p struct {
			Metric string
			Labels map[string]string
			Value  float64
		}
		if err := json.Unmarshal([]byte(line), &p); err != nil {
			t.Fatal(err)
		}
		got[p.Metric+fmt.Sprint(p.Labels)] = p.Value
	}
	want := map[string]float64{
		"up": 1, "jobs_total[kind:a]": 3, "jobs_total[kind:b]": 4, "heat": 1.5,
		"wait_seconds_bucket[le:0.5]": 1, "wait_seconds_bucket[le:+Inf]": 2, "wait_seconds_sum": 1.25, "wait_seconds_count": 2,
	}
	for key, value := range want {
		key = strings.ReplaceAll(key, "[", "map[")
		if !strings.Contains(key, "map[") {
			key += "map[]"
		}
		if got[key] != value {
			t.Errorf("%s is %v, want %v", key, got[key], value)
		}
	}
	if len(got) != len(want) {
		t.Errorf("logged %v", got)
	}
	for _, name := range []string{"broken", "endless", "many", "redirect"} {
		out := k.ok("export", "default/subnet-1/"+hotkeys[name], "--format", "jsonl")
		if strings.Count(out, "\n") != 1 || !strings.Contains(out, `"up"`) {
			t.Errorf("%s: %s", name, out)
		}
	}
}

func endless(w http.ResponseWriter, line string, size int) {
	for range size / len(line) {
		if _, err := fmt.Fprint(w, line); err != nil {
			return
		}
	}
}

func many(w http.ResponseWriter, n int) {
	for i := range n {
		fmt.Fprintf(w, "many{i=\"%d\"} 1\n", i)
	}
}

func TestScrapeSaysWhatIsMissing(t *testing.T) {
	k := serveKitchen(t)
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"scrape"}, exitUsage, "give --netuid"},
		{[]string{"scrape", "--netuid", "1", "--every", "1ms"}, exitUsage, "a second or more"},
		{[]string{"scrape", "--netuid", "1", "--once"}, exitFailed, "knows no Bittensor chain"},
		{[]string{"scrape", "--netuid", "1", "--spool", k.makeSpool()}, exitFailed, "knows no Bittensor chain"},
	} {
		if code, _, errs := k.run(c.args...); code != c.code || !strings.Contains(errs, c.says) {
			t.Errorf("%v: %d %s", c.args, code, errs)
		}
	}
}

func (k *kitchen) makeSpool() string {
	k.t.Helper()
	if err := os.MkdirAll(k.spool(), 0o700); err != nil {
		k.t.Fatal(err)
	}
	return k.spool()
}
