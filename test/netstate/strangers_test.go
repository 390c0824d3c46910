package netstate_test

import (
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kymogram/kymogram/chain"
	"github.com/kymogram/kymogram/internal/state"
	"github.com/kymogram/kymogram/netstate"
)

// register puts hotkeys into a subnet, with a permit or without.
func (s *subnet) register(t testing.TB, permit bool, names ...string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		s.graph.Neurons = append(slices.Clone(s.graph.Neurons), chain.Neuron{UID: uint16(len(s.graph.Neurons)), Hotkey: hotkey(t, name), Permit: permit, Stake: 1})
	}
}

// leave takes all hotkeys out of it.
func (s *subnet) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.graph.Neurons = nil
}

func (s *subnet) of(o *netstate.Options) { o.Chain, o.ChainEvery = s, time.Nanosecond }

func report(t testing.TB, score int, pad string) string {
	t.Helper()
	return fmt.Sprintf(`{"stats":{"5":{"hotkey":"%s","score":%d,"own_score":true,"allocated":true}},"pad":"%s"}`, hotkey(t, "m"), score, pad)
}

// traffic is what a server answered: requests and bytes by the last part of the path.
type traffic struct {
	mu              sync.Mutex
	requests, bytes map[string]int
}

func (n *network) count() *traffic {
	c := &traffic{}
	c.reset()
	n.lie(func(r *http.Request, body []byte) []byte {
		c.mu.Lock()
		defer c.mu.Unlock()
		what := "other"
		switch path := r.URL.Path; {
		case strings.HasSuffix(path, "/opencompute/state"):
			what = "list"
		case strings.HasSuffix(path, "/state"), strings.HasSuffix(path, "/history"):
			what = "payload"
		}
		c.requests[what]++
		c.bytes[what] += len(body)
		return body
	})
	return c
}

func (c *traffic) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests, c.bytes = map[string]int{}, map[string]int{}
}

func (c *traffic) check(t *testing.T, what string, requests map[string]int, bytes int) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	sum := 0
	for _, n := range c.bytes {
		sum += n
	}
	if !maps.Equal(c.requests, requests) || sum > bytes {
		t.Errorf("%s: %v, %d bytes (%v), want %v, at most %d bytes", what, c.requests, sum, c.bytes, requests, bytes)
	}
}

// Strangers publish what they want: a reader neither fetches nor keeps nor verifies it.
// It pays a note for each, once.
func TestStrangersCostANote(t *testing.T) {
	const strangers = 24
	n, s := newNetwork(t), &subnet{}
	ctx, all := t.Context(), netstate.Select{}
	s.register(t, true, "v", "w")
	n.say("v", report(t, 40, ""))
	n.say("w", report(t, 50, strings.Repeat("w", 1000)))
	pad := strings.Repeat("x", state.MaxPayload-400)
	for i := range strangers {
		n.say(fmt.Sprint("stranger", i), report(t, 90, pad))
	}
	o := n.options("reader", netstate.Miner)
	s.of(&o)
	path := filepath.Join(filepath.Dir(o.Run.SpoolDir), "database.db")
	node, err := netstate.Join(ctx, o)
	n.must(err)
	c := n.count()
	read := func(what string, requests map[string]int, bytes int) {
		t.Helper()
		c.reset()
		if got, err := node.StatsAllocated(ctx, all); err != nil || got[5].Score != 50 {
			t.Fatalf("%s: %+v %v", what, got, err)
		}
		c.check(t, what, requests, bytes)
	}
	read("first", map[string]int{"list": 1, "payload": 2}, strangers*1500+6000)
	read("again", map[string]int{"list": 1}, 500)
	n.say("late", report(t, 90, pad))
	read("a stranger more", map[string]int{"list": 1}, 2000)
	n.must(node.Close(ctx))
	if size := folderSize(t, filepath.Dir(path)); size > 600<<10 {
		t.Errorf("the reader's folder has %d bytes", size)
	}
	// Another process asks for nothing that the database has.
	node, err = netstate.Join(ctx, o)
	n.must(err)
	read("after a restart", map[string]int{"list": 1}, strangers*1500+6000)
	verdicts, err := node.Verdicts(ctx)
	n.must(err)
	refused := 0
	for _, v := range verdicts {
		if v.Verdict == "unregistered" && strings.Contains(v.Reason, "is not in subnet") {
			refused++
		}
	}
	if refused != strangers+2 { // with the reader itself
		t.Errorf("%d refused: %+v", refused, verdicts)
	}
	before := folderSize(t, filepath.Dir(path))
	if j, err := node.VerifyRun(ctx, "run-stranger3"); err != nil || j.Verdict != state.Unregistered {
		t.Errorf("%+v %v", j, err)
	}
	if grew := folderSize(t, filepath.Dir(path)) - before; grew > 100<<10 {
		t.Errorf("looking at a stranger kept %d bytes", grew)
	}
	n.must(node.Close(ctx))
}

// A hotkey that was refused is read when it registers, at once and after a restart: what
// it said last, and what it signed twice as a stranger.
func TestAStrangerRegisters(t *testing.T) {
	for what, older := range map[string]bool{"now": false, "with a server of before": true} {
		t.Run(what, func(t *testing.T) {
			n, s := newNetwork(t), &subnet{}
			n.older.Store(older)
			ctx, all := t.Context(), netstate.Select{}
			s.register(t, true, "v")
			n.say("v", report(t, 40, ""))
			honest, liar, shared := n.join("honest", netstate.Validator, s.of), n.join("liar", netstate.Validator, s.of), n.join("shared", netstate.Validator, s.of)
			reader := n.join("reader", netstate.Miner, s.of)
			scores := func(when string, want float64) {
				t.Helper()
				if got, err := reader.StatsAllocated(ctx, all); err != nil || got[5].Score != want {
					t.Fatalf("%s: %+v %v, want %v", when, got, err, want)
				}
			}
			for node, score := range map[*netstate.Node]float64{honest: 60, liar: 90, shared: 70} {
				n.must(node.UpdateStats(ctx, netstate.Stats{5: stat(5, hotkey(t, "m"), score, "H100")}))
			}
			scores("strangers", 40)
			n.twin("liar", liar, func(r *state.Record, payload map[string]any) {
				r.Machine[0] ^= 1
				delete(payload, "stats")
			})
			n.twin("shared", shared, func(r *state.Record, payload map[string]any) {
				r.Machine[0] ^= 1
				payload["version"] = 8
			})
			scores("strangers that signed twice", 40)
			s.register(t, true, "honest")
			scores("one registers", 60)
			s.register(t, true, "liar", "shared")
			scores("all register", 70)
			again := n.join("again", netstate.Miner, s.of)
			for _, one := range []*netstate.Node{reader, again} {
				list, err := one.Verdicts(ctx)
				n.must(err)
				got := map[string]string{}
				for _, v := range list {
					if v.Role == netstate.Validator {
						got[v.Hotkey] = v.Verdict
					}
				}
				want := map[string]string{
					hotkey(t, "v"): "verified", hotkey(t, "honest"): "verified", hotkey(t, "liar"): "equivocated", hotkey(t, "shared"): "shared_key",
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Error(diff)
				}
			}
			n.must(honest.UpdateStats(ctx, netstate.Stats{5: stat(5, hotkey(t, "m"), 80, "H100")}))
			scores("it goes on", 80)
		})
	}
}

// shows makes the server show one record of a run as its newest, wherever it is asked.
func (n *network) shows(run string, e *state.Envelope) {
	n.lie(func(r *http.Request, body []byte) []byte {
		if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "/state") {
			return body
		}
		replace := func(entry map[string]any) {
			if entry["run"] == run {
				record := map[string]any{}
				n.must(unmarshal(text(n, e), &record))
				maps.Copy(entry, record)
				if r.URL.Query().Get("bare") != "" {
					entry["payload"] = ""
				}
			}
		}
		var doc map[string]any
		n.must(unmarshal(string(body), &doc))
		if head, ok := doc["head"].(map[string]any); ok {
			replace(head)
		}
		entries, _ := doc["entries"].([]any)
		for _, one := range entries {
			replace(one.(map[string]any))
		}
		return []byte(text(n, doc))
	})
}

// forged is a record with a sequence that its hotkey never signed.
func forged(t testing.TB, e *state.Envelope) *state.Envelope {
	t.Helper()
	r, err := state.Decode(e.Record)
	if err != nil {
		t.Fatal(err)
	}
	r.Sequence += 1 << 30
	record, err := r.Canonical()
	if err != nil {
		t.Fatal(err)
	}
	return &state.Envelope{Record: record, Signature: e.Signature, Payload: e.Payload}
}

// What a reader noted of a stranger is what it cannot fall behind once it registers. A
// note that its hotkey never signed is worth nothing, and keeps nobody out.
func TestNotesOfStrangers(t *testing.T) {
	n, s := newNetwork(t), &subnet{}
	ctx := t.Context()
	nodes, old, newest := map[string]*netstate.Node{}, map[string]*state.Envelope{}, map[string]*state.Envelope{}
	names := []string{"behind", "forged", "masked"}
	for _, name := range names {
		nodes[name] = n.join(name, netstate.Validator, s.of)
		n.must(nodes[name].UpdateAllocatedHotkeys(ctx, []string{hotkey(t, "old")}))
		old[name] = n.posted()[len(n.posted())-1]
		n.must(nodes[name].UpdateAllocatedHotkeys(ctx, []string{hotkey(t, "new")}))
		newest[name] = n.posted()[len(n.posted())-1]
	}
	forge := func(name string) { n.shows(nodes[name].RunID(), forged(t, newest[name])) }
	reader := n.join("reader", netstate.Miner, s.of)
	allocated := func(when string, want ...string) {
		t.Helper()
		got, err := reader.AllocatedHotkeys(ctx, netstate.Select{})
		if n.must(err); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", when, got, want)
		}
	}
	verdict := func(name, want string) {
		t.Helper()
		list, err := reader.Verdicts(ctx)
		n.must(err)
		if i := slices.IndexFunc(list, func(v netstate.RunVerdict) bool { return v.Run == nodes[name].RunID() }); i < 0 || list[i].Verdict != want {
			t.Errorf("%s is not %s: %+v", name, want, list)
		}
	}
	forge("forged")
	allocated("strangers")
	n.must(nodes["masked"].UpdateAllocatedHotkeys(ctx, []string{hotkey(t, "newer")})) // so that it is listed again
	forge("masked")
	allocated("a forged record over a true note")
	n.shows(nodes["masked"].RunID(), old["masked"])
	s.register(t, true, "masked")
	allocated("a server that went back behind the forged record")
	verdict("masked", "rollback")
	n.shows(nodes["behind"].RunID(), old["behind"])
	s.leave()
	s.register(t, true, "behind", "forged")
	allocated("a server that went back", hotkey(t, "new")) // of the other one
	verdict("behind", "rollback")
	verdict("forged", "verified")
	n.lie(nil)
	n.must(nodes["behind"].UpdateAllocatedHotkeys(ctx, []string{hotkey(t, "newest")}))
	allocated("the next record", hotkey(t, "new"), hotkey(t, "newest"))
}

// A database of before has notes that no hotkey signed: they keep nobody out, and make way
// for the next record.
func TestNotesThatNobodySigned(t *testing.T) {
	n, s := newNetwork(t), &subnet{}
	ctx := t.Context()
	o := n.options("reader", netstate.Miner)
	s.of(&o)
	reader, err := netstate.Join(ctx, o)
	n.must(err)
	defer reader.Close(ctx)
	nodes, old := map[string]*netstate.Node{}, map[string]*state.Envelope{}
	names := []string{"planted", "replaced"}
	for _, name := range names {
		nodes[name] = n.join(name, netstate.Validator, s.of)
		n.must(nodes[name].UpdateAllocatedHotkeys(ctx, []string{hotkey(t, "old")}))
		old[name] = n.posted()[len(n.posted())-1]
		n.must(nodes[name].UpdateAllocatedHotkeys(ctx, []string{hotkey(t, name)}))
	}
	read := func(want ...string) {
		t.Helper()
		if got, err := reader.AllocatedHotkeys(ctx, netstate.Select{}); err != nil || !slices.Equal(got, want) {
			t.Errorf("%v %v, want %v", got, err, want)
		}
	}
	read()
	for _, name := range names {
		note := forged(t, old[name])
		execDb(t, filepath.Join(filepath.Dir(o.Run.SpoolDir), "database.db"), fmt.Sprintf(
			"UPDATE state_seen SET hash = '%s', envelope = '%s' WHERE counted = 0 AND place LIKE '%%%s%%'", note.Hash(), text(t, note.Bare()), hotkey(t, name)))
	}
	n.must(nodes["replaced"].UpdateAllocatedHotkeys(ctx, []string{hotkey(t, "newest")}))
	read()
	n.shows(nodes["replaced"].RunID(), old["replaced"])
	s.register(t, true, names...)
	read(hotkey(t, "planted"))
	list, err := reader.Verdicts(ctx)
	n.must(err)
	verdicts := map[string]string{}
	for _, v := range list {
		verdicts[v.Run] = v.Verdict
	}
	if one, other := verdicts[nodes["planted"].RunID()], verdicts[nodes["replaced"].RunID()]; one != "verified" || other != "rollback" {
		t.Errorf("%s and %s, want verified and rollback", one, other)
	}
}

// Who counted once and does not now is read on: what it signs twice meanwhile speaks
// against it when it counts again, even if the server hides it by then.
func TestWhoCountedOnceIsReadOn(t *testing.T) {
	n, s := newNetwork(t), &subnet{}
	ctx, all := t.Context(), netstate.Select{}
	s.register(t, true, "v", "liar")
	n.say("v", report(t, 40, ""))
	liar, reader := n.join("liar", netstate.Validator, s.of), n.join("reader", netstate.Miner, s.of)
	n.must(liar.UpdateStats(ctx, netstate.Stats{5: stat(5, hotkey(t, "m"), 90, "H100")}))
	scores := func(when string, want float64) {
		t.Helper()
		if got, err := reader.StatsAllocated(ctx, all); err != nil || got[5].Score != want {
			t.Errorf("%s: %+v %v, want %v", when, got, err, want)
		}
	}
	scores("both", 90)
	s.leave()
	s.register(t, true, "v")
	scores("without its permit", 40)
	n.twin("liar", liar, func(r *state.Record, payload map[string]any) {
		r.Machine[0] ^= 1
		delete(payload, "stats")
	})
	scores("it signs twice", 40)
	n.lie(func(r *http.Request, body []byte) []byte {
		var doc map[string]any
		if !strings.HasSuffix(r.URL.Path, "/state") || unmarshal(string(body), &doc) != nil {
			return body
		}
		doc["evidence"] = []any{}
		delete(doc, "evidence_chain")
		return []byte(text(t, doc))
	})
	s.register(t, true, "liar")
	scores("with its permit again", 40)
}

// A server that lists evidence and does not hand it over is asked again.
func TestListedEvidenceIsDue(t *testing.T) {
	n, s := newNetwork(t), &subnet{}
	ctx, all := t.Context(), netstate.Select{}
	s.register(t, true, "v", "liar")
	n.say("v", report(t, 40, ""))
	liar, reader := n.join("liar", netstate.Validator, s.of), n.join("reader", netstate.Miner, s.of)
	n.must(liar.UpdateStats(ctx, netstate.Stats{5: stat(5, hotkey(t, "m"), 90, "H100")}))
	n.twin("liar", liar, func(r *state.Record, payload map[string]any) {
		r.Machine[0] ^= 1
		delete(payload, "stats")
	})
	n.lie(func(r *http.Request, body []byte) []byte {
		var doc map[string]any
		if !strings.HasSuffix(r.URL.Path, "/history") || unmarshal(string(body), &doc) != nil {
			return body
		}
		doc["entries"] = doc["entries"].([]any)[:1]
		return []byte(text(t, doc))
	})
	for range 2 {
		if got, err := reader.StatsAllocated(ctx, all); err == nil || !strings.Contains(err.Error(), "does not send the evidence") {
			t.Errorf("%+v %v", got, err)
		}
	}
	n.lie(nil)
	if got, err := reader.StatsAllocated(ctx, all); err != nil || got[5].Score != 40 {
		t.Errorf("%+v %v", got, err)
	}
}

// A deleted run is not asked for; restored, it is read.
func TestADeletedRunIsNotAskedFor(t *testing.T) {
	n, s := newNetwork(t), &subnet{}
	ctx, all := t.Context(), netstate.Select{}
	s.register(t, true, "v", "w")
	n.say("v", report(t, 40, ""))
	n.say("w", report(t, 50, ""))
	var page state.Page
	n.get("/api/v1/projects/neuralinternet/opencompute/state", &page)
	run := page.Entries[slices.IndexFunc(page.Entries, func(e state.Entry) bool { return e.Run == "run-w" })].RunID.String()
	n.request(http.MethodDelete, "/api/v1/runs/"+run, nil, &struct{}{})
	reader := n.join("reader", netstate.Miner, s.of)
	for _, want := range []float64{40, 50} {
		if got, err := reader.StatsAllocated(ctx, all); err != nil || got[5].Score != want {
			t.Errorf("%+v %v, want %v", got, err, want)
		}
		if want == 40 {
			n.request(http.MethodPost, "/api/v1/runs/"+run+"/restore", nil, &struct{}{})
		}
	}
}

// A database of before has the payloads of strangers: they go, and what was seen stays.
func TestADatabaseOfBefore(t *testing.T) {
	n := newNetwork(t)
	ctx, all := t.Context(), netstate.Select{}
	v, stranger := n.join("v", netstate.Validator, nil), n.join("stranger", netstate.Validator, nil)
	n.must(v.UpdateStats(ctx, netstate.Stats{5: stat(5, hotkey(t, "m"), 40, "H100")}))
	n.must(stranger.UpdateConfig(ctx, map[string]any{"pad": "old"}))
	old := n.posted()[len(n.posted())-1]
	n.must(stranger.UpdateConfig(ctx, map[string]any{"pad": strings.Repeat("x", 1<<19)}))
	o := n.options("reader", netstate.Miner)
	path := filepath.Join(filepath.Dir(o.Run.SpoolDir), "database.db")
	node, err := netstate.Join(ctx, o) // without a chain: everybody counts
	n.must(err)
	_, err = node.StatsAllocated(ctx, all)
	n.must(err)
	n.must(node.Close(ctx))
	n.must(o.DB.Close())
	execDb(t, path, "ALTER TABLE state_seen DROP COLUMN counted; UPDATE state_seen SET hash = hash")
	if size := noteOf(t, path, stranger.Hotkey()); size < 1<<19 {
		t.Fatalf("%d bytes are kept", size)
	}
	s := &subnet{}
	s.register(t, true, "v")
	o.DB = openDb(t, path)
	s.of(&o)
	node, err = netstate.Join(ctx, o)
	n.must(err)
	defer node.Close(ctx)
	if got, err := node.StatsAllocated(ctx, all); err != nil || got[5].Score != 40 {
		t.Errorf("%+v %v", got, err)
	}
	if size := noteOf(t, path, stranger.Hotkey()); size == 0 || size > 2000 {
		t.Errorf("%d bytes are kept", size)
	}
	n.shows(stranger.RunID(), old)
	s.register(t, true, "stranger")
	list, err := node.Verdicts(ctx)
	n.must(err)
	for _, one := range list {
		if one.Run == stranger.RunID() && one.Verdict != "rollback" {
			t.Errorf("%+v", one)
		}
	}
}
