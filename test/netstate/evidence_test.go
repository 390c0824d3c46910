package netstate_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/state"
	"github.com/kymogram/kymogram/netstate"
	"github.com/kymogram/kymogram/read"
)

// twin signs the newest record of a participant once more, with its sequence and
// another payload, and shows it to the server.
func (n *network) twin(name string, node *netstate.Node, change func(r *state.Record, payload map[string]any)) {
	n.Helper()
	var e *state.Envelope
	for _, one := range n.posted() {
		if r, err := state.Decode(one.Record); err == nil && r.Run == node.RunID() {
			e = one
		}
	}
	record, err := state.Decode(e.Record)
	n.must(err)
	payload := map[string]any{}
	n.must(json.Unmarshal(e.Payload, &payload))
	change(record, payload)
	second, err := state.Seal(*record, []byte(text(n, payload)), seedWallet(n, name))
	n.must(err)
	client, err := read.Dial(n.server.Address, "")
	n.must(err)
	run, err := client.Run(n.Context(), "neuralinternet/opencompute/"+node.RunID())
	n.must(err)
	response, err := http.Post(n.server.Address+"/api/v1/runs/"+run.ID+"/state", "application/json", strings.NewReader(text(n, second)))
	n.must(err)
	defer response.Body.Close()
	if response.StatusCode != http.StatusConflict {
		n.Fatalf("the second record of %s: %s", name, response.Status)
	}
}

// page is what the Network page says of the validators, by hotkey, and of a miner.
func (n *network) page() (verdicts map[string]string, scores map[int]float64) {
	n.Helper()
	time.Sleep(2100 * time.Millisecond) // it may be two seconds old
	response, err := http.Get(n.server.Address + "/api/v1/projects/neuralinternet/opencompute/network?netuid=27")
	n.must(err)
	defer response.Body.Close()
	var doc struct {
		Validators []struct{ Hotkey, Verdict string }
		Miners     []struct {
			UID    *int
			Result *struct{ Score float64 }
		}
	}
	n.must(json.NewDecoder(response.Body).Decode(&doc))
	verdicts, scores = map[string]string{}, map[int]float64{}
	for _, v := range doc.Validators {
		verdicts[v.Hotkey] = v.Verdict
	}
	for _, m := range doc.Miners {
		if m.UID != nil && m.Result != nil {
			scores[*m.UID] = m.Result.Score
		}
	}
	return verdicts, scores
}

// says checks that a reader and the page say the same, and what is right.
func (n *network) says(what string, reader *netstate.Node, verdicts map[string]string, score float64) {
	n.Helper()
	shown, scores := n.page()
	stats, err := reader.StatsAllocated(n.Context(), netstate.Select{})
	n.must(err)
	if stats[5].Score != score || scores[5] != score {
		n.Errorf("%s: the reader says %v, the page %v, want %v", what, stats[5].Score, scores[5], score)
	}
	list, err := reader.Verdicts(n.Context())
	n.must(err)
	read := map[string]string{}
	for _, v := range list {
		if v.Role == netstate.Validator {
			read[v.Hotkey] = v.Verdict
		}
		if want := verdicts[v.Hotkey]; want != "" {
			if j, err := reader.VerifyRun(n.Context(), v.Run); err != nil || string(j.Verdict) != want {
				n.Errorf("%s: run %s of %s is %s: %s %v", what, v.Run, v.Hotkey, j.Verdict, j.Reason, err)
			}
		}
	}
	for _, got := range []map[string]string{read, shown} {
		if fmt.Sprint(got) != fmt.Sprint(verdicts) {
			n.Errorf("%s: %v, want %v", what, got, verdicts)
		}
	}
}

// A hotkey that signs one sequence twice has no vote on the Network page, and none
// with readers: of before, of after, and of another process. Two machines that agree
// keep theirs.
func TestReadersAndThePageAgree(t *testing.T) {
	n := newNetwork(t)
	ctx := t.Context()
	nodes := map[string]*netstate.Node{}
	for name, score := range map[string]float64{"honest": 50, "equivocator": 90, "shared": 50} {
		nodes[name] = n.join(name, netstate.Validator, nil)
		n.must(nodes[name].UpdateStats(ctx, netstate.Stats{5: stat(5, hotkey(n, "m"), score, "H100")}))
	}
	want := map[string]string{hotkey(t, "honest"): "verified", hotkey(t, "equivocator"): "verified", hotkey(t, "shared"): "verified"}
	before := n.join("before", netstate.Miner, nil)
	n.says("before", before, want, 50)

	n.must(nodes["shared"].UpdateStats(ctx, netstate.Stats{5: stat(5, hotkey(n, "m"), 60, "H100")})) // all three differ: the highest wins
	n.says("each its own", before, want, 90)
	for changed := true; changed; {
		var err error
		changed, err = before.Refresh(ctx, 0)
		n.must(err)
	}
	seen := make(chan error, 1)
	go func() {
		changed, err := before.Refresh(ctx, 30*time.Second)
		if err == nil && !changed {
			err = fmt.Errorf("the wait ended with nothing")
		}
		seen <- err
	}()
	n.twin("equivocator", nodes["equivocator"], func(_ *state.Record, payload map[string]any) { delete(payload, "stats") })
	select {
	case err := <-seen: // evidence alone ends a wait
		n.must(err)
	case <-time.After(25 * time.Second):
		t.Fatal("the reader waited for its poll")
	}
	n.twin("shared", nodes["shared"], func(r *state.Record, payload map[string]any) {
		r.Machine[3] ^= 1
		payload["version"] = 7
	})
	want[hotkey(t, "equivocator")], want[hotkey(t, "shared")] = "equivocated", "shared_key"
	n.says("a reader of before", before, want, 60)
	after := n.join("after", netstate.Miner, nil)
	n.says("a reader of after", after, want, 60)
	// The next record of a shared key is good; an equivocation is for good.
	for _, name := range []string{"equivocator", "shared"} {
		n.must(nodes[name].UpdateStats(ctx, netstate.Stats{5: stat(5, hotkey(n, "m"), 95, "H100")}))
	}
	want[hotkey(t, "shared")] = "verified"
	n.says("later, a reader of before", before, want, 95)
	n.says("later, a reader of after", after, want, 95)
}

// A server that learns to send evidence sends it to a reader of before too.
func TestEvidenceOfBeforeTheServerSentAny(t *testing.T) {
	n := newNetwork(t)
	ctx := t.Context()
	v := n.join("v", netstate.Validator, nil)
	n.must(v.UpdateStats(ctx, netstate.Stats{5: stat(5, hotkey(n, "m"), 90, "H100")}))
	n.twin("v", v, func(_ *state.Record, payload map[string]any) { delete(payload, "stats") })
	n.lie(func(r *http.Request, body []byte) []byte { // a server of before
		if !strings.HasSuffix(r.URL.Path, "/state") {
			return body
		}
		var doc map[string]json.RawMessage
		n.must(json.Unmarshal(body, &doc))
		delete(doc, "evidence")
		return []byte(text(n, doc))
	})
	reader := n.join("reader", netstate.Miner, nil)
	if got, err := reader.StatsAllocated(ctx, netstate.Select{}); err != nil || len(got) != 1 {
		t.Fatalf("%+v %v", got, err)
	}
	n.lie(nil)
	if got, err := reader.StatsAllocated(ctx, netstate.Select{}); err != nil || len(got) != 0 {
		t.Errorf("%+v %v", got, err)
	}
}

// Evidence that a server withholds, replaces or breaks keeps a vote only until the
// next honest answer, and never ends a reader.
func TestEvidenceThatWasWithheld(t *testing.T) {
	for what, c := range map[string]struct {
		evidence any
		chain    bool // the lie keeps the right chain, so the reader sees it
	}{
		"withheld":           {[]any{}, false},
		"withheld, and said": {[]any{}, true},
		"null":               {[]any{nil}, false},
		"empty":              {[]any{map[string]any{}}, false},
		"half":               {[]any{map[string]any{"a": map[string]any{"record": "", "signature": strings.Repeat("0", 128), "payload": ""}}}, false},
	} {
		n := newNetwork(t)
		ctx, all := t.Context(), netstate.Select{}
		honest, liar, reader := n.join("honest", netstate.Validator, nil), n.join("liar", netstate.Validator, nil), n.join("reader", netstate.Miner, nil)
		n.must(honest.UpdateStats(ctx, netstate.Stats{5: stat(5, hotkey(t, "m"), 50, "H100")}))
		n.must(liar.UpdateStats(ctx, netstate.Stats{5: stat(5, hotkey(t, "m"), 90, "H100")}))
		if _, err := reader.StatsAllocated(ctx, all); err != nil {
			t.Fatal(err)
		}
		n.twin("liar", liar, func(_ *state.Record, payload map[string]any) { delete(payload, "stats") })
		n.lie(func(r *http.Request, body []byte) []byte {
			var doc map[string]any
			if !strings.HasSuffix(r.URL.Path, "/opencompute/state") || json.Unmarshal(body, &doc) != nil {
				return body
			}
			if doc["evidence"] = c.evidence; !c.chain {
				delete(doc, "evidence_chain")
			}
			return []byte(text(t, doc))
		})
		if got, err := reader.StatsAllocated(ctx, all); (err != nil) != c.chain && what == "withheld" || err == nil && c.chain {
			t.Errorf("%s: %+v %v", what, got, err)
		}
		n.lie(nil)
		for range 2 {
			if got, err := reader.StatsAllocated(ctx, all); err != nil || got[5].Score != 50 {
				t.Errorf("after %s: %+v %v, want a score of 50", what, got, err)
			}
		}
	}
}
