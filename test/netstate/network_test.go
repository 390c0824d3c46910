package netstate_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kymogram/kymogram/chain"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/state"
	"github.com/kymogram/kymogram/netstate"
	"github.com/kymogram/kymogram/read"
)

func stat(uid int, hotkey string, score float64, gpu string) netstate.Stat {
	return netstate.Stat{
		UID: uid, Hotkey: hotkey, Score: score, GPU: &netstate.GPU{Name: gpu, Count: 1}, Allocated: true, OwnScore: true, CreatedAt: "2026-01-01 00:00:00",
	}
}

// Two validators, a miner and a server: what one says is what the others read.
func TestTwoValidatorsAndAMiner(t *testing.T) {
	n := newNetwork(t)
	ctx, all := t.Context(), netstate.Select{}
	a, b, m := n.join("a", netstate.Validator, nil), n.join("b", netstate.Validator, nil), n.join("m", netstate.Miner, nil)
	miner := hotkey(t, "m")

	n.must(a.UpdateStats(ctx, netstate.Stats{3: stat(3, miner, 50, "H100"), 4: stat(4, hotkey(t, "x"), 20, "L4")}))
	n.must(b.UpdateStats(ctx, netstate.Stats{3: stat(3, miner, 60, "H100")}))
	got, err := m.StatsAllocated(ctx, all)
	n.must(err)
	if len(got) != 2 || got[3].Score != 60 || got[4].GPU.Name != "L4" { // one vote each: the higher score
		t.Errorf("%+v", got)
	}
	only, err := m.StatsAllocated(ctx, netstate.Select{Validators: []string{hotkey(t, "a")}, Listed: true})
	n.must(err)
	if only[3].Score != 50 {
		t.Errorf("of the listed validator: %+v", only)
	}

	n.must(a.UpdateAllocatedHotkeys(ctx, []string{miner}))
	n.must(b.UpdatePenalizedHotkeys(ctx, []string{hotkey(t, "x")}))
	n.must(b.UpdatePenalizedHotkeysChecklist(ctx, []string{hotkey(t, "y")}))
	for _, tt := range []struct {
		what string
		read func() ([]string, error)
		want string
	}{
		{"allocated", func() ([]string, error) { return b.AllocatedHotkeys(ctx, all) }, miner},
		{"penalized", func() ([]string, error) { return a.PenalizedHotkeys(ctx, all) }, hotkey(t, "x")},
		{"checklist", func() ([]string, error) { return a.PenalizedHotkeysChecklist(ctx, all) }, hotkey(t, "y")},
	} {
		if got, err := tt.read(); err != nil || !slices.Equal(got, []string{tt.want}) {
			t.Errorf("%s: %v, %v", tt.what, got, err)
		}
	}

	n.must(m.UpdateSpecs(ctx, map[string]any{"gpu": map[string]any{"count": 2}}))
	n.must(m.SyncAllocated(ctx, all))
	n.must(m.UpdateMinerPortOpen(ctx, true))
	specs, err := a.MinerSpecs(ctx, map[int]string{3: miner, 9: hotkey(t, "nobody")})
	n.must(err)
	want := netstate.MinerSpecs{Hotkey: miner, Specs: []byte(`{"gpu":{"count":2}}`), AllocatedBy: hotkey(t, "a"), PortOpen: true}
	if diff := cmp.Diff(map[int]netstate.MinerSpecs{3: want}, specs); diff != "" {
		t.Error(diff)
	}
	n.must(a.UpdateAllocatedHotkeys(ctx, nil))
	n.must(m.SyncAllocated(ctx, all))
	if specs, err = a.MinerSpecs(ctx, map[int]string{3: miner}); err != nil || specs[3].AllocatedBy != "" {
		t.Errorf("not allocated any more: %+v, %v", specs, err)
	}
	wantCode(t, m.UpdateStats(ctx, nil), model.CodeInvalid, "for a validator")
	wantCode(t, a.UpdateSpecs(ctx, 1), model.CodeInvalid, "for a miner")

	verdicts, err := a.Verdicts(ctx)
	n.must(err)
	if len(verdicts) != 3 {
		t.Errorf("%+v", verdicts)
	}
	for _, v := range verdicts {
		if v.Verdict != "verified" || !strings.Contains(v.Reason, v.Hotkey) {
			t.Errorf("%+v", v)
		}
	}
}

// Readers of W&B's way find the run by its names and its attributes.
func TestTheRunAsOthersSeeIt(t *testing.T) {
	n := newNetwork(t)
	a := n.join("a", netstate.Validator, func(o *netstate.Options) {
		o.Config = map[string]any{"wallet": "left out", "subtensor": map[string]any{"network": "finney"}}
		o.Version = 183
	})
	ctx := t.Context()
	n.must(a.UpdateAllocatedHotkeys(ctx, []string{"x", "y"}))
	n.must(a.UpdateAllocatedHotkeys(ctx, []string{"x"}))
	n.must(a.UpdateStats(ctx, netstate.Stats{3: stat(3, "x", 50, "H100")}))
	n.must(a.LogChainData(map[string]float64{"Block": 7}))
	n.must(a.Series().Flush(ctx, true))
	client, err := read.Dial(n.server.Address, "")
	n.must(err)
	run, err := client.Run(ctx, "neuralinternet/opencompute/"+a.RunID())
	n.must(err)
	if run.DisplayName != "validator-"+hotkey(t, "a") || len(run.Name) != 8 {
		t.Errorf("%s, %s", run.DisplayName, run.Name)
	}
	attributes, err := run.Attributes(ctx)
	n.must(err)
	got := map[string]any{}
	for path, v := range attributes {
		if strings.HasPrefix(path, "config/") && path != "config/signature" && path != "config/recipient" {
			got[path] = any(v.Str)
			if v.Str == "" {
				got[path] = v.Int
			}
		}
	}
	for path, want := range map[string]any{
		"config/hotkey": hotkey(t, "a"), "config/role": "validator", "config/config/netuid": int64(27), "config/version": int64(183),
		"config/config/subtensor/network": "finney", "config/allocated_hotkeys/0": "x", "config/stats/3/gpu_specs/gpu_name": "H100",
	} {
		if got[path] != want {
			t.Errorf("%s is %v, want %v", path, got[path], want)
		}
	}
	for _, path := range []string{"config/allocated_hotkeys/1", "config/config/wallet"} {
		if v, found := got[path]; found {
			t.Errorf("%s is %v", path, v)
		}
	}
	old := state.CheckLegacy(seedWallet(t, "a").Account(), a.RunID(), attributes["config/signature"].Str)
	if old.Verdict != state.Legacy {
		t.Errorf("the old signature: %+v", old)
	}
	for metric, labels := range map[string]map[string]string{"stats/score": {"uid": "3", "hotkey": "x"}, "Block": nil, "allocated_hotkeys/count": nil} {
		points := 0
		for _, err := range run.Points(ctx, metric, read.Labels(labels)) {
			n.must(err)
			points++
		}
		if points == 0 {
			t.Errorf("no points of %s", metric)
		}
	}
}

// An update is seen by a reader that waits for it, well before it polls again.
func TestAnUpdateIsSeenAtOnce(t *testing.T) {
	n := newNetwork(t)
	a, b := n.join("a", netstate.Validator, nil), n.join("b", netstate.Validator, nil)
	for { // until it has all that there is
		if changed, err := b.Refresh(t.Context(), 0); err != nil || !changed {
			n.must(err)
			break
		}
	}
	seen := make(chan error, 1)
	go func() {
		_, err := b.Refresh(t.Context(), 30*time.Second)
		seen <- err
	}()
	n.must(a.UpdateAllocatedHotkeys(t.Context(), []string{hotkey(t, "m")}))
	select {
	case err := <-seen:
		n.must(err)
	case <-time.After(25 * time.Second):
		t.Fatal("the reader waited for its poll")
	}
	if got, err := b.AllocatedHotkeys(t.Context(), netstate.Select{}); err != nil || len(got) != 1 {
		t.Errorf("%v, %v", got, err)
	}
}

// A participant that lost its database finds its run by name, and no stranger's run
// of the same name.
func TestTheRunIsFoundAgain(t *testing.T) {
	n := newNetwork(t)
	a := n.join("a", netstate.Validator, nil)
	n.must(a.UpdateAllocatedHotkeys(t.Context(), []string{hotkey(t, "m")}))
	n.must(a.Series().Flush(t.Context(), true))
	again := n.join("a", netstate.Validator, nil) // a new folder
	if again.RunID() != a.RunID() {
		t.Errorf("run %s, before %s", again.RunID(), a.RunID())
	}
	if got, err := again.AllocatedHotkeys(t.Context(), netstate.Select{}); err != nil || len(got) != 1 {
		t.Errorf("its state is gone: %v, %v", got, err)
	}
	// The API process of the validator: another program, one database, one run.
	shared := n.options("v", netstate.Validator)
	join := func() *netstate.Node {
		return n.join("v", netstate.Validator, func(o *netstate.Options) { o.DB = shared.DB })
	}
	validator, api := join(), join()
	if validator.RunID() != api.RunID() {
		t.Error("two runs of one validator")
	}
	n.must(validator.UpdatePenalizedHotkeys(t.Context(), []string{hotkey(t, "p")}))
	n.must(api.UpdateAllocatedHotkeys(t.Context(), []string{hotkey(t, "q")})) // 409, and then on top of it
	penalized, err := again.PenalizedHotkeys(t.Context(), netstate.Select{})
	if err != nil || !slices.Equal(penalized, []string{hotkey(t, "p")}) {
		t.Errorf("what the other process said is gone: %v, %v", penalized, err)
	}
	other := n.join("v", netstate.Miner, nil)
	if other.RunID() == validator.RunID() {
		t.Error("a miner took a validator's run")
	}
}

// Who is on the chain, with a permit, and what a stake weighs.
func TestTheChainDecides(t *testing.T) {
	n := newNetwork(t)
	s := &subnet{graph: chain.Metagraph{Netuid: netuid, Genesis: [32]byte{1}, Block: 1000, Neurons: []chain.Neuron{
		{UID: 0, Hotkey: hotkey(t, "a"), Permit: true, Stake: 1e9},
		{UID: 1, Hotkey: hotkey(t, "b"), Permit: true, Stake: 9e9},
		{UID: 2, Hotkey: hotkey(t, "c"), Permit: true, Stake: 1e9},
		{UID: 3, Hotkey: hotkey(t, "nopermit")},
	}}}
	with := func(o *netstate.Options) { o.Chain, o.ChainEvery = s, time.Nanosecond }
	ctx := t.Context()
	reports := map[string]float64{"a": 10, "b": 20, "c": 10, "nopermit": 90, "stranger": 90}
	nodes := map[string]*netstate.Node{}
	for name, score := range reports {
		nodes[name] = n.join(name, netstate.Validator, with)
		n.must(nodes[name].UpdateStats(ctx, netstate.Stats{5: stat(5, hotkey(t, "m"), score, "H100")}))
	}
	votes, err := nodes["a"].StatsAllocated(ctx, netstate.Select{})
	n.must(err)
	staked, err := nodes["a"].StatsAllocated(ctx, netstate.Select{ByStake: true})
	n.must(err)
	if votes[5].Score != 10 || staked[5].Score != 20 {
		t.Errorf("by votes %v, by stake %v", votes[5].Score, staked[5].Score)
	}
	verdicts, err := nodes["a"].Verdicts(ctx)
	n.must(err)
	for _, v := range verdicts {
		in := v.Hotkey == hotkey(t, "a") || v.Hotkey == hotkey(t, "b") || v.Hotkey == hotkey(t, "c")
		if in != (v.Verdict == "verified") || !in && v.Verdict != "unregistered" {
			t.Errorf("%+v", v)
		}
	}
	// A chain that is away leaves its last word in force; a permit that is lost counts at once.
	s.mu.Lock()
	s.failing = model.Errorf(model.CodeUnavailable, "no node answers")
	s.mu.Unlock()
	if again, err := nodes["a"].StatsAllocated(ctx, netstate.Select{}); err != nil || again[5].Score != 10 {
		t.Errorf("%+v, %v", again, err)
	}
	s.mu.Lock()
	s.failing, s.graph.Neurons = nil, s.graph.Neurons[:2]
	s.mu.Unlock()
	if again, err := nodes["a"].StatsAllocated(ctx, netstate.Select{}); err != nil || again[5].Score != 20 {
		t.Errorf("without c: %+v, %v", again, err)
	}
	_, err = n.join("plain", netstate.Miner, nil).StatsAllocated(ctx, netstate.Select{ByStake: true})
	wantCode(t, err, model.CodeInvalid, "need a chain")
	_, err = netstate.Join(ctx, func() netstate.Options {
		o := n.options("late", netstate.Miner)
		o.Chain = &subnet{failing: model.Errorf(model.CodeUnavailable, "no node answers")}
		return o
	}())
	wantCode(t, err, model.CodeUnavailable, "no node answers")
}

// A clock that is a day off: the server says so, and readers believe nothing of it.
func TestClocksOffByADay(t *testing.T) {
	n := newNetwork(t)
	for name, by := range map[string]time.Duration{"early": 24 * time.Hour, "late": -24 * time.Hour} {
		_, err := netstate.Join(t.Context(), func() netstate.Options {
			o := n.options(name, netstate.Validator)
			o.Now = func() time.Time { return time.Now().Add(by) }
			return o
		}())
		if err == nil || !strings.Contains(err.Error(), "clock") && !strings.Contains(err.Error(), "expired") {
			t.Errorf("a participant whose clock is %s: %v", name, err)
		}
	}
	// A reader whose own clock is wrong believes nobody, and says why.
	n.must(n.join("v", netstate.Validator, nil).UpdateAllocatedHotkeys(t.Context(), []string{hotkey(t, "m")}))
	for says, by := range map[string]time.Duration{"ahead of this clock": -24 * time.Hour, "expired": 24 * time.Hour, "": 0} {
		hands := time.Duration(0)
		reader := n.join("reader"+says, netstate.Validator, func(o *netstate.Options) {
			o.Now = func() time.Time { return time.Now().Add(hands) }
		})
		hands = by
		got, err := reader.AllocatedHotkeys(t.Context(), netstate.Select{})
		n.must(err)
		verdicts, err := reader.Verdicts(t.Context())
		n.must(err)
		stale := slices.ContainsFunc(verdicts, func(v netstate.RunVerdict) bool { return v.Verdict == "stale" && strings.Contains(v.Reason, says) })
		if (says == "") != (len(got) == 1) || (says == "") == stale {
			t.Errorf("a reader whose clock is %s: %v, %+v", by, got, verdicts)
		}
	}
}

// Names that look alike are other names, and what is no address of a hotkey is none.
func TestLookAlikes(t *testing.T) {
	n := newNetwork(t)
	ctx, right := t.Context(), hotkey(t, "m")
	a, b := n.join("a", netstate.Validator, nil), n.join("b", netstate.Validator, nil)
	cyrillic := strings.Replace(right, "5", "5\u200b", 1)
	n.must(a.UpdateConfig(ctx, map[string]any{
		"allocated_hotkeys": []any{strings.ReplaceAll(right, "o", "\u043e") + "\u0430", cyrillic, right + " ", strings.ToLower(right), 7, nil, right, right},
		"Penalized_Hotkeys": []string{right}, "penalized_hotkeys\u200b": []string{right},
		"stats": map[string]any{
			"3":  map[string]any{"score": 50, "Own_Score": true, "own_\u0455core": true, "allocated": true},
			"٤":  map[string]any{"score": 50, "own_score": true, "allocated": true},
			"+5": map[string]any{"score": 50, "own_score": true, "allocated": true},
		},
	}))
	got, err := b.AllocatedHotkeys(ctx, netstate.Select{})
	if err != nil || !slices.Equal(got, []string{right}) {
		t.Errorf("%q, %v", got, err)
	}
	penalized, err := b.PenalizedHotkeys(ctx, netstate.Select{})
	if err != nil || len(penalized) != 0 {
		t.Errorf("%q, %v", penalized, err)
	}
	stats, err := b.StatsAllocated(ctx, netstate.Select{})
	if err != nil || len(stats) != 0 {
		t.Errorf("%+v, %v", stats, err)
	}
	listed, err := b.AllocatedHotkeys(ctx, netstate.Select{Validators: []string{hotkey(t, "a") + "\u200b"}, Listed: true})
	if err != nil || len(listed) != 0 {
		t.Errorf("%q, %v", listed, err)
	}
	for _, name := range []string{"оpencompute", "opencompute\u200b"} {
		o := n.options("x", netstate.Miner)
		o.Project = name
		_, err := netstate.Join(ctx, o)
		wantCode(t, err, model.CodeInvalid, "project contains")
	}
}

// Specs that only their readers read.
func TestEncryptedSpecs(t *testing.T) {
	n := newNetwork(t)
	ctx := t.Context()
	a, b := n.join("a", netstate.Validator, nil), n.join("b", netstate.Validator, nil)
	m, thief := n.join("m", netstate.Miner, nil), n.join("thief", netstate.Miner, nil)
	secret := map[string]any{"gpu": "secret-gpu"}
	n.must(m.UpdateSpecs(ctx, secret, a.Hotkey()))
	sent := n.posted()
	if payload := string(sent[len(sent)-1].Payload); strings.Contains(payload, "secret-gpu") {
		t.Errorf("clear text: %s", payload)
	}
	query := map[int]string{1: m.Hotkey(), 2: thief.Hotkey()}
	got, err := a.MinerSpecs(ctx, query)
	if n.must(err); string(got[1].Specs) != `{"gpu":"secret-gpu"}` || got[1].Err != nil {
		t.Errorf("%+v", got)
	}
	got, err = b.MinerSpecs(ctx, query)
	n.must(err)
	wantCode(t, got[1].Err, model.CodePermission, "encrypted for others")
	// Another miner shows the same file as its own.
	var payload map[string]any
	n.must(json.Unmarshal(sent[len(sent)-1].Payload, &payload))
	n.must(thief.UpdateSpecs(ctx, payload["specs"]))
	got, err = a.MinerSpecs(ctx, query)
	n.must(err)
	wantCode(t, got[2].Err, model.CodeInvalid, "by another hotkey")
	// A reader that published no key, and one that took its key back.
	wantCode(t, m.UpdateSpecs(ctx, secret, hotkey(t, "nobody")), model.CodeNotFound, "has published no key")
	n.must(b.UpdateConfig(ctx, map[string]any{"recipient": nil}))
	wantCode(t, m.UpdateSpecs(ctx, secret, a.Hotkey(), b.Hotkey()), model.CodeNotFound, b.Hotkey())
}
