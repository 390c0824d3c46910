//go:build e2e

package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kymogram/kymogram/test/rig"
	"github.com/kymogram/kymogram/test/subtensor"
)

// told is what a node of the demo was told to say.
type told struct {
	Role, Kind, Hotkey string
	Reports            []report
}

type report struct {
	UID       int
	Hotkey    string
	Specs     map[string]any `json:"gpu_specs"`
	Score     float64
	Allocated bool
	Own       bool `json:"own_score"`
}

// subnet is the server's answer, as docs/network.md describes it.
type subnet struct {
	Index      uint64
	GPUs       [][2]any
	Miners     []row
	Validators []struct {
		Hotkey, Verdict, Reason string
		Counted                 bool
	}
	Findings []struct{ Kind, Role, Hotkey, Text string }
}

type row struct {
	UID                     *int
	Hotkey, Verdict, Reason string
	Result                  *struct {
		Score   float64
		GPU     int
		Carried []int
		Against int
	}
}

const demoMiners = 15

// The demo in a small form: real processes sign over a real server, and what the
// server and the page say of them is what the demo says that it did.
func TestDemoNetwork(t *testing.T) {
	r := rig.New(t)
	server := r.Serve(t)
	words := startDemo(t, r, server)
	byKind := map[string]told{}
	for _, w := range words {
		if w.Role == "validator" {
			byKind[w.Kind] = w
		}
	}
	// The stale validator's record lives for two seconds.
	doc := network(t, server, func(d *subnet) bool {
		return d.finding("stale", byKind["stale"].Hotkey) && d.finding("dissent", byKind["lying"].Hotkey)
	})
	for kind, finding := range map[string]string{"lying": "dissent", "stale": "stale", "double": "double_vote", "equivocator": "equivocated"} {
		if !doc.finding(finding, byKind[kind].Hotkey) {
			t.Errorf("the %s validator is not named: %+v", kind, doc.Findings)
		}
	}
	for _, f := range doc.Findings {
		if f.Hotkey == byKind["honest"].Hotkey || f.Role == "miner" {
			t.Errorf("an honest node is named: %+v", f)
		}
	}
	compareResults(t, doc, byKind)
	publicPage(t, r, server, doc, byKind)
}

func (d *subnet) finding(kind, hotkey string) bool {
	return slices.ContainsFunc(d.Findings, func(f struct{ Kind, Role, Hotkey, Text string }) bool { return f.Kind == kind && f.Hotkey == hotkey })
}

// startDemo runs it until the test ends, and returns what it told its nodes.
func startDemo(t *testing.T, r *rig.Rig, server *rig.Server) (words []told) {
	t.Helper()
	program, said := filepath.Join(r.Dir, "netstate"), filepath.Join(r.Dir, "told.json")
	buildDemo(t, r, program)
	demo := exec.Command(program, "-server", server.Address, "-key", server.Key(t), "-miners", strconv.Itoa(demoMiners), "-every", "1s", "-report", said)
	// Not a command of the rig: that one is killed before it can stop its nodes.
	demo.Dir, demo.Env, demo.Stderr = r.Root, r.Env(), os.Stderr
	if err := demo.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = demo.Process.Signal(syscall.SIGTERM)
		if err := demo.Wait(); err != nil {
			t.Errorf("the demo ended with %v", err)
		}
	})
	for range 1200 {
		if text, err := os.ReadFile(said); err == nil && json.Unmarshal(text, &words) == nil {
			return words
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatal("the demo did not say what it does")
	return nil
}

func buildDemo(t *testing.T, r *rig.Rig, program string) {
	t.Helper()
	build := exec.Command("go", "build", "-o", program, "./test/examples/netstate")
	build.Dir = r.Root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// The demo on the real runtime: the server believes only whom the chain knows, and
// shows the stake that the chain has.
func TestDemoNetworkOnAChain(t *testing.T) {
	if _, err := os.Stat(subtensor.Path()); err != nil {
		t.Skipf("the dev genesis of Subtensor is not at %s; docs/chain.md says where it comes from", subtensor.Path())
	}
	r := rig.New(t)
	program, said := filepath.Join(r.Dir, "netstate"), filepath.Join(r.Dir, "told.json")
	buildDemo(t, r, program)
	demo := exec.Command(program, "-once", "-chain", "-kymogram", r.Binary(), "-data", filepath.Join(r.Dir, "data"), "-miners", strconv.Itoa(demoMiners), "-every", "1s", "-report", said)
	demo.Dir, demo.Env = r.Root, r.Env()
	out, err := demo.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var words []told
	text, err := os.ReadFile(said)
	if err == nil {
		err = json.Unmarshal(text, &words)
	}
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(out), "\n15 miners, 12 with a merged result\n") || !strings.Contains(string(out), "\nchain at block ") {
		t.Errorf("the demo printed\n%s", out)
	}
	for _, w := range words {
		finding := map[string]string{"lying": "dissent", "stale": "stale", "double": "double vote", "equivocator": "equivocated"}[w.Kind]
		named := regexp.MustCompile("(?m)^" + finding + " +" + w.Role + " " + w.Hotkey).Match(out)
		if finding != "" != named || finding == "" && strings.Contains(string(out), "validator "+w.Hotkey+":") {
			t.Errorf("%+v, and the demo printed\n%s", w, out)
		}
	}
}

// network reads the server's answer until it is what the test waits for.
func network(t *testing.T, server *rig.Server, ready func(*subnet) bool) *subnet {
	t.Helper()
	c := server.Client(t)
	var doc subnet
	for range 600 {
		doc = subnet{}
		c.Get(t, "/api/v1/projects/demo/network/network", nil, &doc)
		if len(doc.Miners) == demoMiners && ready(&doc) && !slices.ContainsFunc(doc.Miners, func(m row) bool { return m.Verdict != "verified" }) {
			return &doc
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("it did not come: %+v", doc)
	return nil
}

// compareResults finds the winners the plain way, from what the demo told its
// validators: three have a vote, and the double voter has one.
func compareResults(t *testing.T, doc *subnet, byKind map[string]told) {
	t.Helper()
	votes := map[int]map[string][]string{} // uid → what is said → by whom
	scores := map[string]float64{}
	for _, kind := range []string{"honest", "lying", "double"} {
		for _, r := range byKind[kind].Reports {
			if !r.Own || !r.Allocated || r.Score == 0 {
				continue
			}
			what, _ := json.Marshal([]any{r.Specs["gpu_name"], r.Specs["num_gpus"], r.Score})
			if votes[r.UID] == nil {
				votes[r.UID] = map[string][]string{}
			}
			votes[r.UID][string(what)] = append(votes[r.UID][string(what)], byKind[kind].Hotkey)
			scores[string(what)] = r.Score
		}
	}
	truth := map[int]report{}
	for _, r := range byKind["honest"].Reports {
		truth[r.UID] = r
	}
	for _, m := range doc.Miners {
		best := ""
		for what, by := range votes[*m.UID] {
			if n := len(votes[*m.UID][best]); len(by) > n || len(by) == n && scores[what] > scores[best] {
				best = what
			}
		}
		if (m.Result == nil) != (best == "") {
			t.Errorf("uid %d: %+v, and the demo says %q", *m.UID, m.Result, best)
			continue
		}
		if m.Result == nil {
			continue
		}
		gpu := doc.GPUs[m.Result.GPU]
		got, _ := json.Marshal([]any{gpu[0], gpu[1], m.Result.Score})
		var carried []string
		for _, i := range m.Result.Carried {
			carried = append(carried, doc.Validators[i].Hotkey)
		}
		slices.Sort(carried)
		slices.Sort(votes[*m.UID][best])
		if string(got) != best || !slices.Equal(carried, votes[*m.UID][best]) {
			t.Errorf("uid %d: the server merges to %s carried by %v, the demo says %s by %v", *m.UID, got, carried, best, votes[*m.UID][best])
		}
		if m.Result.Score != truth[*m.UID].Score || m.Hotkey != truth[*m.UID].Hotkey {
			t.Errorf("uid %d: the lies won: %+v, the truth is %+v", *m.UID, m, truth[*m.UID])
		}
	}
}

// refused is what a browser writes of a request that needs a key: the page asks
// without one before it trades the link's token.
const refused = "401 (Unauthorized)"

// publicPage opens the page with a public link in a browser, without signing in,
// and again after the link was revoked.
func publicPage(t *testing.T, r *rig.Rig, server *rig.Server, doc *subnet, byKind map[string]told) {
	t.Helper()
	var made struct{ Link, ID string }
	if err := json.Unmarshal([]byte(r.CLI(t, "key", "public", "demo/network", "--server", server.Address, "--key", server.Key(t), "--json")), &made); err != nil {
		t.Fatal(err)
	}
	path := strings.TrimPrefix(made.Link, server.Address)
	views := lookFrom(t, r, made.Link, refused, path+"=>demo-network")
	text := views[0].Text
	for kind, finding := range map[string]string{"lying": "dissent", "stale": "stale", "double": "double vote", "equivocator": "equivocated"} {
		hotkey := byKind[kind].Hotkey
		if cut := hotkey[:6] + "…" + hotkey[len(hotkey)-4:]; !strings.Contains(text, cut) || !strings.Contains(text, finding) {
			t.Errorf("the page does not name the %s validator %s", kind, cut)
		}
	}
	for _, m := range doc.Miners {
		if cut := m.Hotkey[:6] + "…" + m.Hotkey[len(m.Hotkey)-4:]; !strings.Contains(text, cut) {
			t.Errorf("the page does not show miner %s", cut)
		}
	}
	r.CLI(t, "key", "revoke", made.ID, "--server", server.Address, "--key", server.Key(t))
	views = lookFrom(t, r, made.Link, refused, path+"=>demo-network-revoked")
	if !strings.Contains(views[0].Text, "This public link is not valid") || strings.Contains(views[0].Text, byKind["honest"].Hotkey[:6]) {
		t.Errorf("after the link was revoked the page shows:\n%s", views[0].Text)
	}
}
