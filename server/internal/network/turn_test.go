package network_test

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/state"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/httpapi"
)

// large is a payload of almost 1 MiB.
func large() map[string]any {
	p := payload(map[int]claim{7: {gpu: "A", number: 1, score: 50, own: true, allocated: true}})
	p["padding"] = strings.Repeat("x", 1_000_000)
	return p
}

// A project of any size is answered at once, after a bounded number of bytes. Each
// answer says how far it is, and the last one is whole.
func TestALargeProjectIsJudgedInTurns(t *testing.T) {
	const runs, turn = 48, 24 // 16 MiB, and what the last page holds
	r := newRig(t, nil)
	text, err := json.Marshal(large())
	if err != nil {
		t.Fatal(err)
	}
	for i := range runs {
		s := r.speaker(state.Validator, i+1, i+1)
		s.put(s.sealText(1, text))
	}
	answers, before := 0, -1
	for {
		doc, read := r.document(), r.log.entries
		answers++
		if read > answers*turn {
			t.Fatalf("answer %d: %d records were read", answers, read)
		}
		if doc.Judging == nil {
			if len(doc.Validators) != runs || doc.Index != runs || len(carried(doc.Miners[0])) != runs {
				t.Errorf("the last answer has %d validators at index %d, %+v", len(doc.Validators), doc.Index, doc.Miners)
			}
			break
		}
		if doc.Judging.Of != runs || doc.Judging.Done <= before || doc.Index >= runs || len(doc.Validators) != doc.Judging.Done {
			t.Fatalf("answer %d: %+v, index %d, %d validators", answers, doc.Judging, doc.Index, len(doc.Validators))
		}
		before = doc.Judging.Done
	}
	if answers < 2 || r.log.entries != runs {
		t.Errorf("%d answers, %d records read", answers, r.log.entries)
	}
	var all sync.WaitGroup
	for range 20 { // who asks later reads nothing again
		all.Go(func() {
			if _, err := r.service.Network(t.Context(), httpapi.NetworkQuery{Workspace: "w", Project: "p"}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if r.log.entries != runs {
		t.Errorf("%d records were read for %d runs", r.log.entries, runs)
	}
}

// What validators say is kept of those that are shown, and read again for others.
func TestReportsOfOthersAreReadWhenTheyAreShown(t *testing.T) {
	r := newRig(t, nil)
	var honest []*speaker
	for i := range 300 {
		s := r.speaker(state.Validator, i+1, i+1)
		s.say(payload(map[int]claim{7: {gpu: "A", number: 1, score: 50, own: true, allocated: true}}))
		honest = append(honest, s)
	}
	first := r.document()
	if len(first.Validators) != 256 || len(carried(first.Miners[0])) != 256 || first.Judging != nil {
		t.Fatalf("%d validators, %+v", len(first.Validators), first.Miners)
	}
	for i := range honest { // the shown ones say something else in an old record
		if first.of(honest[i].hotkey()) != nil {
			honest[i].life = time.Millisecond
			honest[i].say(payload(nil))
		}
	}
	r.now = r.now.Add(10e9)
	doc := r.document()
	if got := doc.Miners[0].Result; got == nil || len(got.Carried) != 44 {
		t.Errorf("%+v, judging %+v", got, doc.Judging)
	}
}

// Runs without a record are looked at in turns too, each once.
func TestLegacyRunsAreReadInTurns(t *testing.T) {
	r := newRig(t, nil)
	r.speaker(state.Validator, 1, 1).say(map[string]any{})
	many := make([]catalog.Attribute, 30_000)
	for i := range many {
		many[i] = catalog.Attribute{Path: "config/role", Value: *model.StringValue("miner")}
	}
	for i := range 20 {
		s := r.speaker(state.Miner, 100+i, 100+i)
		r.runs.details = append(r.runs.details, catalog.Detail{Run: s.run, Attributes: many})
	}
	answers := 0
	for doc := r.document(); doc.Judging != nil; doc = r.document() {
		if answers++; answers > 10 || r.runs.read > 5*answers {
			t.Fatalf("answer %d: %d runs were read, %+v", answers, r.runs.read, doc.Judging)
		}
	}
	if answers < 3 || r.runs.read != 20 {
		t.Errorf("%d answers, %d runs read", answers, r.runs.read)
	}
}

// 64 validators that report on 5,000 uids each, 64 MB: the first answers, until one is whole.
func BenchmarkFirstNetwork(b *testing.B) {
	r := newRig(b, nil)
	claims := map[int]claim{}
	for uid := range 5000 {
		claims[uid] = claim{gpu: "NVIDIA H100", number: 8, score: float64(uid % 100), own: true, allocated: true}
	}
	for i := range 64 {
		r.speaker(state.Validator, i+1, i+1).say(payload(claims))
	}
	answers := 0
	for b.Loop() {
		r.forget()
		for whole := false; !whole; answers++ {
			var doc struct{ Judging *struct{} }
			if err := json.Unmarshal(r.body(), &doc); err != nil {
				b.Fatal(err)
			}
			whole = doc.Judging == nil
		}
	}
	b.ReportMetric(float64(answers)/float64(b.N), "answers")
}
