package network_test

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kymogram/kymogram/chain"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/state"
	"github.com/kymogram/kymogram/internal/wallet"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/httpapi"
	"github.com/kymogram/kymogram/server/internal/network"
)

// claim is what a validator of a test says of a miner.
type claim struct {
	hotkey         string
	gpu            string
	number         int
	score          float64
	own, allocated bool
}

// address is one of a miner.
func address(n int) string { return wallet.Account{byte(n), byte(n >> 8), 9}.String() }

func (c claim) stats(uid int) map[string]any {
	c.hotkey = cmp.Or(c.hotkey, address(uid))
	out := map[string]any{"uid": uid, "hotkey": c.hotkey, "score": c.score, "own_score": c.own, "allocated": c.allocated, "gpu_specs": nil, "reliability_score": 1.0}
	if c.gpu != "" {
		out["gpu_specs"] = map[string]any{"gpu_name": c.gpu, "num_gpus": c.number}
	}
	return out
}

func payload(claims map[int]claim) map[string]any {
	stats := map[string]any{}
	for uid, c := range claims {
		stats[fmt.Sprint(uid)] = c.stats(uid)
	}
	return map[string]any{"version": 183, "stats": stats}
}

// winner is the rule of NI Compute's pick_dominant_dict, as its documents tell it:
// the most frequent triple, then the highest score.
func winner(claims []claim) (best claim, votes int, found bool) {
	var eligible []claim
	for _, c := range claims {
		if c.own && c.allocated && c.score != 0 {
			eligible = append(eligible, c)
		}
	}
	for _, c := range eligible {
		n := 0
		for _, o := range eligible {
			if o.gpu == c.gpu && o.number == c.number && o.score == c.score {
				n++
			}
		}
		if n > votes || n == votes && c.score > best.score {
			best, votes, found = c, n, true
		}
	}
	return best, votes, found
}

// The merged result is that of the plainest reading of the rule, whatever is said.
func TestMergeIsTheRulesOwn(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for round := range 30 {
		r := newRig(t, nil)
		said := map[int][]claim{}
		for v := range 7 {
			claims := map[int]claim{}
			for uid := range 20 {
				if random.IntN(5) == 0 {
					continue
				}
				c := claim{gpu: []string{"", "A", "B"}[random.IntN(3)], score: float64(random.IntN(4)) * 12.5, own: random.IntN(5) > 0, allocated: random.IntN(5) > 0}
				if c.gpu != "" {
					c.number = 1 + random.IntN(2)
				}
				claims[uid] = c
				said[uid] = append(said[uid], c)
			}
			r.speaker(state.Validator, v+1, v+1).say(payload(claims))
		}
		doc := r.document()
		for _, m := range doc.Miners {
			want, votes, found := winner(said[*m.UID])
			if (m.Result != nil) != found {
				t.Fatalf("round %d, uid %d: result %+v, want one: %v", round, *m.UID, m.Result, found)
			}
			if found && (m.Result.Score != want.score || len(m.Result.Carried) != votes) {
				t.Fatalf("round %d, uid %d: %+v, want score %v of %d votes in %+v", round, *m.UID, m.Result, want.score, votes, said[*m.UID])
			}
			for _, i := range carried(m) {
				if s := doc.Validators[i].Scores[row70(doc, *m.UID)]; s == nil || *s != m.Result.Score {
					t.Fatalf("round %d, uid %d: validator %d carries %v and said %v", round, *m.UID, i, m.Result.Score, s)
				}
			}
		}
	}
}

// With a chain the vote is that of who has a permit. Stake is shown and weighs nothing:
// a permit without stake votes, stake without a permit does not.
func TestPermitVotesAndStakeDoesNot(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	results := 0
	for round := range 6 {
		fake := &fakeChain{}
		subnets := network.NewSubnets(fake, false, time.Now)
		r := newRig(t, subnets)
		fake.graph.Genesis, fake.graph.Block = [32]byte{9}, 10_001
		said := map[int][]claim{}
		for v := range 7 {
			s := r.speaker(state.Validator, v+1, v+1)
			s.genesis, s.block = state.Hash{9}, 10_000
			registered, permit := random.IntN(5) > 0, random.IntN(3) > 0
			if registered {
				fake.graph.Neurons = append(fake.graph.Neurons, chain.Neuron{UID: uint16(100 + v), Hotkey: s.hotkey(), Permit: permit, Stake: uint64(random.IntN(2) * 5_000_000_000)})
			}
			claims := map[int]claim{}
			for uid := range 10 {
				c := claim{gpu: "A", number: 1 + random.IntN(2), score: float64(random.IntN(3)) * 12.5, own: true, allocated: random.IntN(5) > 0}
				if claims[uid] = c; registered && permit {
					said[uid] = append(said[uid], c)
				}
			}
			s.say(payload(claims))
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- subnets.Run(ctx) }()
		doc := r.document()
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		for _, m := range doc.Miners {
			want, votes, found := winner(said[*m.UID])
			if (m.Result != nil) != found || found && (m.Result.Score != want.score || len(m.Result.Carried) != votes) {
				t.Fatalf("round %d, uid %d: %+v, want %+v of %d votes: %v", round, *m.UID, m.Result, want, votes, found)
			}
			results += votes
		}
	}
	if results < 60 {
		t.Errorf("only %d votes were counted", results)
	}
}

func carried(m miner) []int {
	if m.Result == nil {
		return nil
	}
	return m.Result.Carried
}

func row70(d document, uid int) int {
	return slices.IndexFunc(d.Miners, func(m miner) bool { return m.UID != nil && *m.UID == uid })
}

// Sequences of two runs say nothing of each other: one ran ahead of its clock. The later
// record counts, as it does for readers.
func TestOfTwoRunsTheLaterRecordCounts(t *testing.T) {
	r := newRig(t, nil)
	old, fresh := r.speaker(state.Validator, 1, 9), r.speaker(state.Validator, 1, 2)
	old.sequence = 1 << 40
	old.say(payload(map[int]claim{7: {gpu: "H100", number: 8, score: 10, own: true, allocated: true}}))
	r.now = r.now.Add(time.Second)
	fresh.say(payload(map[int]claim{7: {gpu: "H100", number: 8, score: 20, own: true, allocated: true}}))
	doc := r.document()
	for _, v := range doc.Validators {
		if v.Counted != (v.RunID == fresh.run.ID.String()) {
			t.Errorf("%s counts: %v", v.RunID, v.Counted)
		}
	}
	if m := doc.Miners[0]; m.Result == nil || m.Result.Score != 20 {
		t.Errorf("%+v", m.Result)
	}
}

// A network with one of each culprit: each is named, and the result is right.
func TestCulpritsAreNamedAndDoNotCount(t *testing.T) {
	r := newRig(t, nil)
	truth, lies, favours := map[int]claim{}, map[int]claim{}, map[int]claim{}
	for uid := range 10 {
		truth[uid] = claim{gpu: "H100", number: 8, score: float64(50 + uid), own: true, allocated: true}
		lies[uid] = claim{gpu: "H100", number: 8, score: 99, own: true, allocated: true}
		favours[uid] = claim{gpu: "H100", number: 8, score: 98, own: true, allocated: true}
	}
	honest, second := r.speaker(state.Validator, 1, 1), r.speaker(state.Validator, 2, 2)
	honest.say(payload(truth))
	second.say(payload(truth))
	liar := r.speaker(state.Validator, 3, 3)
	liar.say(payload(lies))
	stale := r.speaker(state.Validator, 4, 4)
	stale.life = time.Minute
	stale.say(payload(lies))
	twice, again := r.speaker(state.Validator, 5, 5), r.speaker(state.Validator, 5, 50)
	twice.say(payload(favours))
	again.sequence = 10
	again.say(payload(favours))
	equivocator := r.speaker(state.Validator, 6, 6)
	equivocator.say(payload(truth))
	head := equivocator.seal(2, payload(truth))
	other := equivocator.seal(2, payload(lies))
	equivocator.put(head)
	if _, err := r.log.Put(t.Context(), &equivocator.run, other); err == nil {
		t.Fatal("the second record with one sequence was taken")
	}
	r.now = r.now.Add(2 * time.Minute)

	doc := r.document()
	for hotkey, want := range map[string]string{
		honest.hotkey(): "verified", second.hotkey(): "verified", liar.hotkey(): "verified", stale.hotkey(): "stale", equivocator.hotkey(): "equivocated",
	} {
		v := doc.of(hotkey)
		if v == nil || v.Verdict != want || v.Reason == "" {
			t.Errorf("%s: %+v, want %s", hotkey, v, want)
		}
	}
	for kind, hotkey := range map[string]string{"dissent": liar.hotkey(), "stale": stale.hotkey(), "double_vote": twice.hotkey(), "equivocated": equivocator.hotkey()} {
		if doc.finding(kind, hotkey) == "" {
			t.Errorf("no finding %s of %s in %+v", kind, hotkey, doc.Findings)
		}
	}
	if text := doc.finding("dissent", honest.hotkey()); text != "" {
		t.Errorf("the honest validator is named: %s", text)
	}
	for _, m := range doc.Miners {
		if want := truth[*m.UID].score; m.Result == nil || m.Result.Score != want || len(m.Result.Carried) != 2 || m.Result.Against != 2 {
			t.Errorf("uid %d: %+v, want %v of 2 votes against 2", *m.UID, m.Result, want)
		}
	}
	counted := 0
	for _, v := range doc.Validators {
		if v.Hotkey == twice.hotkey() && v.Counted {
			counted++
		}
		if !v.Counted && len(v.Notes) == 0 {
			t.Errorf("%s has no vote, and no note says why", v.Hotkey)
		}
	}
	if counted != 1 {
		t.Errorf("the hotkey with two runs has %d votes", counted)
	}
}

// Two machines with one key that agree are no attack, and count.
func TestSharedKeyCounts(t *testing.T) {
	r := newRig(t, nil)
	v := r.speaker(state.Validator, 1, 1)
	claims := payload(map[int]claim{1: {gpu: "A", number: 1, score: 10, own: true, allocated: true}})
	v.put(v.seal(1, claims))
	v.previous = state.Hash{}
	v.machine = 2
	claims["version"] = 184
	if _, err := r.log.Put(t.Context(), &v.run, v.seal(1, claims)); err == nil {
		t.Fatal("the second machine's record was taken")
	}
	doc := r.document()
	if got := doc.of(v.hotkey()); got.Verdict != "shared_key" || !got.Counted || !strings.Contains(got.Reason, "two machines") {
		t.Errorf("%+v", got)
	}
}

// Miners have their own records; a hotkey that only others name has none.
func TestMiners(t *testing.T) {
	r := newRig(t, nil)
	m := r.speaker(state.Miner, 20, 20)
	m.say(map[string]any{"version": 183, "allocated": "5Fvalidator", "is_port_open": true})
	lonely := r.speaker(state.Miner, 21, 21)
	lonely.say(map[string]any{})
	r.speaker(state.Validator, 1, 1).say(payload(map[int]claim{
		4: {hotkey: m.hotkey(), score: 5, own: true, allocated: true}, 9: {hotkey: address(9), score: 6, own: true},
	}))
	r.speaker(state.Validator, 2, 2).say(payload(map[int]claim{4: {hotkey: m.hotkey(), score: 5, own: true, allocated: true}, 9: {hotkey: address(9)}}))
	r.speaker(state.Validator, 3, 3).say(payload(map[int]claim{4: {hotkey: address(10), score: 5, own: true, allocated: true}}))
	doc := r.document()
	if len(doc.Miners) != 3 {
		t.Fatalf("%+v", doc.Miners)
	}
	got := doc.Miners[0]
	if got.Hotkey != m.hotkey() || got.Verdict != "verified" || got.Allocated != "5Fvalidator" || got.RunID != m.run.ID.String() || *got.Version != 183 {
		t.Errorf("%+v", got)
	}
	if got.Result == nil || len(got.Result.Carried) != 2 || got.Result.Against != 1 || got.Result.GPU != -1 {
		t.Errorf("a missing gpu_specs stops the merge, or a report on another hotkey carries it: %+v", got.Result)
	}
	if flags := doc.Validators[slices.IndexFunc(doc.Validators, func(v validator) bool { return v.RunID == model.RunID{3, 0, 7}.String() })].Flags[0]; flags&4 == 0 {
		t.Errorf("the report on another hotkey has flags %d", flags)
	}
	if other := doc.Miners[1]; other.Hotkey != address(9) || other.Verdict != "" || other.Reason == "" || other.Result != nil {
		t.Errorf("%+v", other)
	}
	if last := doc.Miners[2]; last.Hotkey != lonely.hotkey() || last.UID != nil {
		t.Errorf("%+v", last)
	}
}

// Attributes are shown and never trusted; of a run with a record they are not read.
func TestLegacyRunsAreShownAndDoNotCount(t *testing.T) {
	r := newRig(t, nil)
	v := r.speaker(state.Validator, 1, 1)
	v.say(payload(map[int]claim{1: {gpu: "A", number: 1, score: 10, own: true, allocated: true}}))
	old := r.speaker(state.Validator, 2, 2)
	signature, err := state.SignLegacy(old.run.Name, old.key)
	if err != nil {
		t.Fatal(err)
	}
	forged := r.speaker(state.Validator, 3, 3)
	forged.run.Description = strings.Repeat("d", 2<<20) // more than a page of the catalog has
	for _, s := range []*speaker{v, old, forged} {
		r.runs.details = append(r.runs.details, catalog.Detail{Run: s.run, Attributes: []catalog.Attribute{
			{Path: "config/role", Value: *model.StringValue("validator")},
			{Path: "config/hotkey", Value: *model.StringValue(s.hotkey())},
			{Path: "config/signature", Value: *model.StringValue(signature)},
			{Path: "config/config/netuid", Value: *model.IntValue(27)},
			{Path: "config/stats/1/score", Value: *model.FloatValue(77)},
			{Path: "config/stats/1/own_score", Value: *model.BoolValue(true)},
			{Path: "config/stats/1/allocated", Value: *model.BoolValue(true)},
			{Path: "config/stats/2/score", Value: *model.FloatValue(88)},
			{Path: "config/stats/2/gpu_specs/gpu_name", Value: *model.StringValue("A")},
			{Path: "config/stats/2/gpu_specs/num_gpus", Value: *model.IntValue(-3)}, // of no right form
		}})
	}
	doc := r.document()
	if len(doc.Validators) != 3 || len(doc.Miners) != 1 {
		t.Fatalf("%+v", doc.Validators)
	}
	for hotkey, want := range map[string]string{v.hotkey(): "verified", old.hotkey(): "legacy", forged.hotkey(): "broken"} {
		if got := doc.of(hotkey); got.Verdict != want || got.Counted != (want == "verified") {
			t.Errorf("%s: %+v, want %s", hotkey, got, want)
		}
	}
	if s := doc.of(old.hotkey()).Scores[0]; s == nil || *s != 77 {
		t.Errorf("the legacy report is not shown: %v", s)
	}
	if got := doc.Miners[0].Result; got == nil || got.Score != 10 || len(got.Carried) != 1 || got.Against != 0 {
		t.Errorf("%+v", got)
	}
}

// A miner by its attributes shows what it says of itself.
func TestALegacyMiner(t *testing.T) {
	r := newRig(t, nil)
	m := r.speaker(state.Miner, 1, 1)
	signature, err := state.SignLegacy(m.run.Name, m.key)
	if err != nil {
		t.Fatal(err)
	}
	r.runs.details = append(r.runs.details, catalog.Detail{Run: m.run, Attributes: []catalog.Attribute{
		{Path: "config/role", Value: *model.StringValue("miner")},
		{Path: "config/hotkey", Value: *model.StringValue(m.hotkey())},
		{Path: "config/signature", Value: *model.StringValue(signature)},
		{Path: "config/config/netuid", Value: *model.IntValue(27)},
		{Path: "config/allocated", Value: *model.StringValue("somebody")},
		{Path: "config/is_port_open", Value: *model.BoolValue(true)},
		{Path: "config/version", Value: *model.IntValue(183)},
		{Path: "is_port_open", Value: *model.BoolValue(false)}, // not of the configuration
	}})
	doc := r.document()
	if len(doc.Miners) != 1 {
		t.Fatalf("%+v", doc.Miners)
	}
	if got := doc.Miners[0]; got.Verdict != "legacy" || got.Allocated != "somebody" || got.PortOpen == nil || !*got.PortOpen || got.Version == nil || *got.Version != 183 {
		t.Errorf("%+v", got)
	}
}

// A record whose payload was changed or taken away shows as broken, without content.
func TestARecordWithAnotherPayloadShowsAsBroken(t *testing.T) {
	r := newRig(t, nil)
	claims := payload(map[int]claim{1: {gpu: "A", number: 1, score: 10, own: true, allocated: true}})
	honest, changed, gone := r.speaker(state.Validator, 1, 1), r.speaker(state.Validator, 2, 2), r.speaker(state.Validator, 3, 3)
	for _, s := range []*speaker{honest, changed, gone} {
		s.say(claims)
	}
	db, err := sql.Open("sqlite", r.file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	_, err = db.Exec(`UPDATE records SET payload = replace(payload, '10', '99') WHERE idx = 1; UPDATE records SET payload = NULL WHERE idx = 2`)
	if err != nil {
		t.Fatal(err)
	}
	doc := r.document()
	if len(doc.Validators) != 3 {
		t.Fatalf("%+v", doc.Validators)
	}
	for s, says := range map[*speaker]string{changed: "it was changed after the signature", gone: "the payload is missing"} {
		if got := doc.of(s.hotkey()); got.Verdict != "broken" || got.Counted || !strings.Contains(got.Reason, says) || got.Scores[0] != nil {
			t.Errorf("%+v, want %q", got, says)
		}
	}
	if got := doc.Miners[0].Result; got == nil || got.Score != 10 || len(got.Carried) != 1 {
		t.Errorf("%+v", got)
	}
}

// What nobody honest writes: it is bounded, and the rest is drawn.
func TestHostilePayloads(t *testing.T) {
	r := newRig(t, nil)
	honest := r.speaker(state.Validator, 1, 1)
	honest.say(payload(map[int]claim{65000: {gpu: "A", number: 1, score: 10, own: true, allocated: true}}))
	flood := map[int]claim{}
	for uid := range 5000 {
		flood[uid] = claim{score: 1, own: true, allocated: true}
	}
	liar := r.speaker(state.Validator, 2, 2)
	liar.life = time.Second
	liar.say(payload(flood))
	for i, text := range []string{
		``, `null`, `[]`, `{"stats":[1,2]}`, `{"stats":{"01":{"score":1},"-1":{"score":1},"70000":{"score":1},"x":{}}}`,
		`{"stats":{"1":{"score":"high","own_score":1,"gpu_specs":7}}}`, `{"version":"new","stats":null,"allocated":5}`,
		`{"stats":{"1":{"score":1e308,"gpu_specs":{"gpu_name":"` + strings.Repeat("x", 100_000) + `","num_gpus":9223372036854775807}}}}`,
		`{"Stats":{"2":{"score":1}},"stats":{"3":{"Score":7,"OWN_SCORE":true,"allocated":true}}}`, // names are exact
		"\xff\xfe{", `{"stats":` + strings.Repeat(`{"1":`, 10_000) + strings.Repeat(`}`, 10_000) + `}`,
	} {
		s := r.speaker(state.Validator, 100+i, 100+i)
		s.put(s.sealText(1, []byte(text)))
	}
	r.now = r.now.Add(time.Minute)
	doc := r.document()
	if len(doc.Miners) > network.MaxMiners || len(doc.Validators) != 13 {
		t.Errorf("%d miners, %d validators", len(doc.Miners), len(doc.Validators))
	}
	i := row70(doc, 65000)
	if i < 0 || doc.Miners[i].Result == nil || doc.Miners[i].Result.Score != 10 {
		t.Error("the honest report has no row")
	}
	if i := row70(doc, 3); i >= 0 && doc.Miners[i].Result != nil {
		t.Errorf("a report with names in other letters counts: %+v", doc.Miners[i])
	}
	if size := len(r.body()); size > 1<<20 {
		t.Errorf("the answer has %d bytes", size)
	}
}

// 300 validators: those with a vote are shown, the others counted.
func TestLimits(t *testing.T) {
	r := newRig(t, nil)
	for i := range 280 {
		s := r.speaker(state.Validator, i+1, i+1)
		if i < 100 {
			s.life = time.Second
		}
		s.say(payload(map[int]claim{i: {score: 1, own: true, allocated: true}}))
	}
	r.now = r.now.Add(time.Minute)
	doc := r.document()
	counted := 0
	for _, v := range doc.Validators {
		if v.Counted {
			counted++
		}
	}
	if len(doc.Validators) != network.MaxValidators || counted != 180 || doc.LeftOut.Validators != 24 {
		t.Errorf("%d validators of which %d count, %+v left out", len(doc.Validators), counted, doc.LeftOut)
	}
}

// 256 × 64 fits the wire, and an update costs one record, not all of them.
func TestSizeAndUpdates(t *testing.T) {
	r := newRig(t, nil)
	random := rand.New(rand.NewPCG(3, 4))
	speakers := make([]*speaker, 64)
	claims := func() map[int]claim {
		out := map[int]claim{}
		for uid := range 256 {
			out[uid] = claim{
				hotkey: address(uid), gpu: []string{"NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB"}[random.IntN(2)],
				number: 1 + random.IntN(8), score: float64(random.IntN(1_000_000)) / 10_000, own: true, allocated: random.IntN(2) == 0,
			}
		}
		return out
	}
	for i := range speakers {
		speakers[i] = r.speaker(state.Validator, i+1, i+1)
		speakers[i].say(payload(claims()))
	}
	var zipped bytes.Buffer
	w, _ := gzip.NewWriterLevel(&zipped, 1) // what the server uses
	_, _ = w.Write(r.body())
	_ = w.Close()
	if zipped.Len() > 300_000 {
		t.Errorf("256 miners × 64 validators take %d bytes", zipped.Len())
	}
	t.Logf("256 × 64 of random scores: %d bytes, %d zipped", len(r.body()), zipped.Len())
	if r.log.entries != 64 {
		t.Errorf("%d records were read for 64 runs", r.log.entries)
	}
	speakers[5].say(payload(claims()))
	doc := r.document()
	if r.log.entries != 65 || doc.Index != 65 {
		t.Errorf("%d records were read after one update, at index %d", r.log.entries, doc.Index)
	}
}

// A reader that waits is answered by a record, and by evidence.
func TestWait(t *testing.T) {
	r := newRig(t, nil)
	v := r.speaker(state.Validator, 1, 1)
	v.say(map[string]any{})
	wait := func(since uint64) chan uint64 {
		out := make(chan uint64, 1)
		go func() {
			body, err := r.service.Network(context.Background(), httpapi.NetworkQuery{Workspace: "w", Project: "p", Since: since, Wait: 20 * time.Second})
			var doc document
			if err != nil || json.Unmarshal(body, &doc) != nil {
				doc.Index = 999
			}
			out <- doc.Index
		}()
		return out
	}
	answered := wait(1)
	v.say(map[string]any{"version": 2})
	if got := <-answered; got != 2 {
		t.Errorf("answered with index %d", got)
	}
	answered = wait(2)
	v.previous = state.Hash{}
	if _, err := r.log.Put(t.Context(), &v.run, v.seal(2, map[string]any{"version": 3})); err == nil {
		t.Fatal("a second record was taken")
	}
	if got := <-answered; got != 3 {
		t.Errorf("answered with index %d", got)
	}
	if doc := r.document(); doc.of(v.hotkey()).Verdict != "equivocated" {
		t.Errorf("%+v", doc.of(v.hotkey()))
	}
}

// fakeChain is a subnet as a test wants it.
type fakeChain struct {
	graph chain.Metagraph
	list  chain.Listing
	err   error
}

func (f *fakeChain) Metagraph(context.Context, int) (*chain.Metagraph, error) { return &f.graph, f.err }

func (f *fakeChain) List(context.Context, int) (*chain.Listing, error) { return &f.list, f.err }

// With a chain, places, permits, stake and endpoints come from it.
func TestChain(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead := closed.Addr().String()
	_ = closed.Close()

	fake := &fakeChain{}
	subnets := network.NewSubnets(fake, true, time.Now)
	r := newRig(t, subnets)
	names := map[string]*speaker{}
	for i, name := range []string{"good", "no permit", "stranger", "other chain", "old block", "no block"} {
		s := r.speaker(state.Validator, i+1, i+1)
		s.genesis, s.block = state.Hash{9}, 10_000
		names[name] = s
		if name != "stranger" {
			fake.graph.Neurons = append(fake.graph.Neurons, chain.Neuron{UID: uint16(i), Hotkey: s.hotkey(), Permit: name != "no permit", Stake: uint64(i+1) * 1_500_000_000})
		}
	}
	names["other chain"].genesis = state.Hash{8}
	names["old block"].block, names["no block"].block = 8_000, 0
	for _, s := range names {
		s.say(payload(map[int]claim{0: {score: 1, own: true, allocated: true}}))
	}
	fake.graph.Genesis, fake.graph.Block = [32]byte{9}, 10_001
	fake.list.Endpoints = []chain.Endpoint{
		{Hotkey: names["good"].hotkey(), Address: netip.MustParseAddrPort(ln.Addr().String()), Block: 5},
		{Hotkey: names["no permit"].hotkey(), Address: netip.MustParseAddrPort(dead), Block: 6},
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- subnets.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()

	doc := r.document()
	for name, want := range map[string]string{
		"good": "verified", "no permit": "unregistered", "stranger": "unregistered", "other chain": "broken", "old block": "stale", "no block": "stale",
	} {
		if got := doc.of(names[name].hotkey()); got.Verdict != want {
			t.Errorf("%s: %s (%s), want %s", name, got.Verdict, got.Reason, want)
		}
	}
	good := doc.of(names["good"].hotkey())
	if good.Stake == nil || *good.Stake != 1.5 || good.UID == nil || *good.UID != 0 || doc.Chain.Block != 10_001 {
		t.Errorf("%+v, chain %+v", good, doc.Chain)
	}
	eventually(t, "the endpoints are tried", func() bool {
		r.now = r.now.Add(3 * time.Second) // a document is kept for less
		d := r.document()
		a, b := d.of(names["good"].hotkey()).Endpoint, d.of(names["no permit"].hotkey()).Endpoint
		return a != nil && b != nil && a.Answers != nil && *a.Answers && b.Answers != nil && !*b.Answers && b.Error != ""
	})
}

// Private addresses are not tried for strangers, and a chain that is away is said.
func TestChainAway(t *testing.T) {
	fake := &fakeChain{err: context.DeadlineExceeded}
	subnets := network.NewSubnets(fake, false, time.Now)
	r := newRig(t, subnets)
	s := r.speaker(state.Validator, 1, 1)
	s.say(map[string]any{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- subnets.Run(ctx) }()
	doc := r.document()
	if doc.Chain == nil || !strings.Contains(doc.Chain.Error, "does not answer") || doc.of(s.hotkey()).Verdict != "verified" {
		t.Errorf("%+v, %+v", doc.Chain, doc.Validators)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for range 1000 {
		if ok() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("it did not come: " + what)
}
