package statelog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/state"
	"github.com/kymogram/kymogram/internal/wallet"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/statelog"
)

func now() time.Time { return time.UnixMilli(1_795_000_000_000) }

func openLog(t testing.TB, path string) *statelog.Log {
	t.Helper()
	l, err := statelog.Open(t.Context(), path, now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func key(t testing.TB, n byte) *wallet.Key {
	t.Helper()
	k, err := wallet.NewKey([32]byte(bytes.Repeat([]byte{n}, 32)))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func run(n byte) *catalog.Run {
	return &catalog.Run{ID: model.RunID{n}, Workspace: "lab", Project: "net", Name: fmt.Sprintf("run%d", n)}
}

// signed makes the record of a run on top of another one.
func signed(t testing.TB, at *catalog.Run, signer byte, on *state.Envelope, payload string, change ...func(*state.Record)) *state.Envelope {
	t.Helper()
	r := state.Record{
		Place:    state.Place{Netuid: 27, Role: state.Validator, Workspace: at.Workspace, Project: at.Project, Run: at.Name},
		Sequence: 1, TimeMs: uint64(now().UnixMilli()), ExpiresMs: uint64(now().Add(time.Hour).UnixMilli()), PayloadType: state.ConfigPayload,
	}
	if on != nil {
		before, err := state.Decode(on.Record)
		if err != nil {
			t.Fatal(err)
		}
		r.Sequence, r.Previous = before.Sequence+1, on.Hash()
	}
	for _, c := range change {
		c(&r)
	}
	e, err := state.Seal(r, []byte(payload), key(t, signer))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func put(t testing.TB, l *statelog.Log, at *catalog.Run, e *state.Envelope) *state.Entry {
	t.Helper()
	entry, err := l.Put(t.Context(), at, e)
	if err != nil {
		t.Fatal(err)
	}
	return entry
}

func takenOnTop(t *testing.T, in makes) {
	at := in(t)
	l := at.open(t)
	first := signed(t, run(1), 1, nil, `{"a":1}`)
	second := signed(t, run(1), 1, first, `{"a":2}`)
	if e := put(t, l, run(1), first); e.Index != 0 || e.Sequence != 1 || e.Digest != first.Hash() {
		t.Errorf("the first is %+v", e)
	}
	if e := put(t, l, run(1), second); e.Index != 1 {
		t.Errorf("the second is %+v", e)
	}
	if e := put(t, l, run(1), first); e.Index != 0 { // sent again, since the answer was lost
		t.Errorf("the first again is %+v", e)
	}
	_ = l.Close()
	newest, err := at.open(t).Head(t.Context(), run(1).ID)
	head := newest.Head
	if err != nil || !head.Envelope.Equal(second) || head.Signature != second.Signature || head.Role != state.Validator {
		t.Errorf("after a restart the head is %+v: %v", head, err)
	}
}

// A run that is named after a participant takes no record of a stranger, so that
// nobody is kept out of the own run by who was faster.
func runOfItsName(t *testing.T, in makes) {
	l := in(t).open(t)
	own, stranger := key(t, 1).Account().String(), key(t, 2).Account().String()
	for i, tt := range []struct {
		name  string
		taken bool
	}{
		{"validator-" + own, true},
		{"validator-" + stranger, false},
		{"miner-" + own, false},
		{"validator-of-mine", true},
		{own, true},
		{"", true},
	} {
		at := run(byte(i + 1))
		at.DisplayName = tt.name
		if _, err := l.Put(t.Context(), at, signed(t, at, 1, nil, `{}`)); (err == nil) != tt.taken {
			t.Errorf("in the run of %q: %v", tt.name, err)
		} else if !tt.taken && model.CodeOf(err) != model.CodeStateRefused {
			t.Errorf("in the run of %q it is refused with %v", tt.name, err)
		}
	}
}

// A config section speaks for who signed it.
func contentNamesSigner(t *testing.T, in makes) {
	l := in(t).open(t)
	own, stranger := key(t, 1).Account().String(), key(t, 2).Account().String()
	for i, tt := range []struct {
		payload string
		reason  string
	}{
		{`{"hotkey":"` + own + `","role":"validator"}`, ""},
		{`{"config":{"hotkey":"` + stranger + `","role":"miner"}}`, ""},
		{`{"hotkey":null}`, ""},
		{`not JSON`, ""},
		{`{"hotkey":"` + stranger + `","role":"validator"}`, "names the hotkey"},
		{`{"hotkey":"` + own + `","hotkey":"` + stranger + `"}`, "names the hotkey"},
		{`{"role":"miner"}`, "names the role"},
		{`{"hotkey":5}`, "names the hotkey"},
	} {
		_, err := l.Put(t.Context(), run(byte(i+1)), signed(t, run(byte(i+1)), 1, nil, tt.payload))
		if tt.reason == "" && err == nil {
			continue
		}
		if model.CodeOf(err) != model.CodeStateRefused || tt.reason == "" || !strings.Contains(err.Error(), tt.reason) {
			t.Errorf("%s: %v", tt.payload, err)
		}
	}
}

// Who may write attributes can rename a run. Its signer goes on all the same.
func renamedRun(t *testing.T, in makes) {
	l := in(t).open(t)
	first := signed(t, run(1), 1, nil, `{}`)
	put(t, l, run(1), first)
	renamed := run(1)
	renamed.DisplayName = "validator-" + key(t, 2).Account().String()
	put(t, l, renamed, signed(t, run(1), 1, first, `{}`))
}

func conflictsKeepEvidence(t *testing.T, in makes) {
	at := in(t)
	l, ctx := at.open(t), context.Background()
	first := signed(t, run(1), 1, nil, `{"a":1}`)
	conflict := func(what string, e *state.Envelope, head *state.Envelope) {
		t.Helper()
		_, err := l.Put(ctx, run(1), e)
		var c *state.Conflict
		switch {
		case !errors.As(err, &c):
			t.Errorf("%s: %v", what, err)
		case (c.Head == nil) != (head == nil) || head != nil && c.Head.Digest != head.Hash():
			t.Errorf("%s: the head is %+v", what, c.Head)
		}
	}
	conflict("a record that follows something unknown", signed(t, run(1), 1, first, `{}`), nil)
	put(t, l, run(1), first)
	second := signed(t, run(1), 1, first, `{"a":2}`)
	put(t, l, run(1), second)
	conflict("a lost race", signed(t, run(1), 1, first, `{"a":3}`, func(r *state.Record) { r.Sequence = 9 }), second)
	conflict("a lower sequence", signed(t, run(1), 1, second, `{}`, func(r *state.Record) { r.Sequence = 2 }), second)
	twin := signed(t, run(1), 1, first, `{"a":4}`)
	conflict("one sequence twice", twin, second)
	conflict("and again", twin, second)
	page, err := l.History(ctx, run(1).ID, state.Span{After: 0, Limit: 0})
	if err != nil {
		t.Fatal(err)
	}
	var forks []state.Hash
	for _, e := range page.Entries {
		if e.Fork {
			forks = append(forks, e.Digest)
		}
	}
	if len(page.Entries) != 4 || len(forks) != 2 { // a lower sequence is a twin of the second as well
		t.Fatalf("%d records, %d of them evidence", len(page.Entries), len(forks))
	}
	proof := state.Proof{A: &page.Entries[1].Envelope, B: &page.Entries[2].Envelope}
	if verdict, reason, err := proof.Check(); verdict != state.Equivocated || err != nil {
		t.Errorf("the evidence proves %s: %s %v", verdict, reason, err)
	}
	third := signed(t, run(1), 1, second, `{}`)
	if e := put(t, l, run(1), third); e.Index != 4 {
		t.Errorf("after the evidence the next one is %+v", e)
	}
	if i := at.verify(t); len(i.Damage) != 0 || i.Forks != 2 {
		t.Errorf("evidence counts as damage: %+v", i)
	}
}

func boundedEvidence(t *testing.T, in makes) {
	l := in(t).open(t)
	first := signed(t, run(1), 1, nil, `{}`)
	put(t, l, run(1), first)
	for i := range 3 * statelog.MaxForks {
		if _, err := l.Put(t.Context(), run(1), signed(t, run(1), 1, nil, fmt.Sprint(i))); !errors.As(err, new(*state.Conflict)) {
			t.Fatal(err)
		}
	}
	page, err := l.History(t.Context(), run(1).ID, state.Span{After: 0, Limit: 1}) // a page keeps one sequence together
	if err != nil || len(page.Entries) != 1+statelog.MaxForks || page.More {
		t.Errorf("%d records are kept: %v", len(page.Entries), err)
	}
}

func refusedRecords(t *testing.T, in makes) {
	l, day := in(t).open(t), uint64(86_400_000)
	put(t, l, run(1), signed(t, run(1), 1, nil, `{}`))
	broken := signed(t, run(2), 1, nil, `{}`)
	broken.Signature[5] ^= 1
	for _, c := range []struct {
		name, reason string
		e            *state.Envelope
	}{
		{"a broken signature", "signature is not one of hotkey", broken},
		{"the record of another run", "for the run run3", signed(t, run(3), 1, nil, `{}`)},
		{"a clock a day ahead", "1d ahead of this clock", signed(t, run(2), 1, nil, `{}`, func(r *state.Record) { r.TimeMs += day; r.ExpiresMs += day })},
		{"a clock a day behind", "signed 1d ago by this server's clock, and expired 23h ago: the signer's clock is behind", signed(t, run(2), 1, nil, `{}`, func(r *state.Record) { r.TimeMs -= day; r.ExpiresMs -= day })},
		{"a name twice", `names "a" twice`, signed(t, run(2), 1, nil, `{"b":{"a":1,"a":2}}`)},
		{"another project", "for the project other", signed(t, run(2), 1, nil, `{}`, func(r *state.Record) { r.Project = "other" })},
	} {
		_, err := l.Put(t.Context(), run(2), c.e)
		if model.CodeOf(err) != model.CodeStateRefused || !strings.Contains(err.Error(), c.reason) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	mine := signed(t, run(1), 1, nil, `{}`)
	_, err := l.Put(t.Context(), run(1), signed(t, run(1), 2, mine, `{}`))
	if model.CodeOf(err) != model.CodeStateRefused || !strings.Contains(err.Error(), "the run's records are of") {
		t.Errorf("another hotkey in the run: %v", err)
	}
}

func listAndWait(t *testing.T, in makes) {
	l := in(t).open(t)
	if p, err := l.List(t.Context(), "lab", "net", state.Filter{}); err != nil || len(p.Entries) != 0 || p.Next != 0 {
		t.Errorf("an empty project: %+v %v", p, err)
	}
	a, b := signed(t, run(1), 1, nil, `{}`), signed(t, run(2), 2, nil, `{}`, func(r *state.Record) { r.Role = state.Miner })
	put(t, l, run(1), a)
	put(t, l, run(2), b)
	put(t, l, run(1), signed(t, run(1), 1, a, `{"x":1}`))
	p, err := l.List(t.Context(), "lab", "net", state.Filter{})
	if err != nil || len(p.Entries) != 2 || p.Entries[0].Index != 1 || p.Entries[1].Index != 2 || p.Next != 3 || p.Size != 3 {
		t.Fatalf("%+v %v", p, err)
	}
	netuid := uint16(28)
	for name, c := range map[string]struct {
		f    state.Filter
		want int
	}{
		"miners": {state.Filter{Role: state.Miner}, 1}, "since 2": {state.Filter{Since: 2}, 1}, "another subnet": {state.Filter{Netuid: &netuid}, 0},
	} {
		if p, err := l.List(t.Context(), "lab", "net", c.f); err != nil || len(p.Entries) != c.want || p.Next != 3 {
			t.Errorf("%s: %+v %v", name, p, err)
		}
	}
	got := make(chan *state.Page, 1)
	go func() {
		if err := l.Wait(context.Background(), "lab", "net", state.Filter{Since: 3}); err != nil {
			t.Error(err)
		}
		p, _ := l.List(context.Background(), "lab", "net", state.Filter{Since: 3})
		got <- p
	}()
	put(t, l, run(2), signed(t, run(2), 2, b, `{"x":2}`, func(r *state.Record) { r.Role = state.Miner }))
	if p := <-got; len(p.Entries) != 1 || p.Entries[0].Index != 3 {
		t.Errorf("the wait brought %+v", p)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Wait(ended, "lab", "net", state.Filter{Since: 4}); err != nil {
		t.Errorf("a wait that ends: %v", err)
	}
	if err := l.Wait(t.Context(), "lab", "net", state.Filter{Since: 4, Limit: statelog.MaxPage + 1}); model.CodeOf(err) != model.CodeInvalid {
		t.Errorf("a page that is too large: %v", err)
	}
}

// Each record of a history has a verdict with a reason, also where a page begins in
// the middle, and pages from the newest on have every record once.
func verdictsOfHistory(t *testing.T, in makes) {
	l := in(t).open(t)
	var heads []*state.Envelope
	var head *state.Envelope
	for i := range 7 {
		head = signed(t, run(1), 1, head, fmt.Sprintf(`{"n":%d}`, i))
		put(t, l, run(1), head)
		heads = append(heads, head)
	}
	other := func(r *state.Record) { r.Machine = state.Machine{9} }
	for _, twin := range []*state.Envelope{
		signed(t, run(1), 1, heads[1], `{"n":77}`),       // sequence 3 again, by the same machine
		signed(t, run(1), 1, heads[3], `{"n":4}`, other), // sequence 5 on another machine, which agrees
	} {
		if _, err := l.Put(t.Context(), run(1), twin); !errors.As(err, new(*state.Conflict)) {
			t.Fatal(err)
		}
	}
	want := map[uint64]string{
		1: "verified: the first record", 2: "verified: it follows sequence 1", 3: "equivocated: hotkey", 4: "verified: it follows sequence 3",
		5: "shared_key: two machines", 6: "verified: it follows sequence 5", 7: "verified: it follows sequence 6",
	}
	check := func(entries []state.Entry) (sequences []uint64) {
		for _, e := range entries {
			if said := string(e.Verdict) + ": " + e.Reason; !strings.HasPrefix(said, want[e.Sequence]) {
				t.Errorf("sequence %d is %s, want %s", e.Sequence, said, want[e.Sequence])
			}
			sequences = append(sequences, e.Sequence)
		}
		return sequences
	}
	var all []uint64
	for below := uint64(state.MaxNumber); ; {
		page, err := l.History(t.Context(), run(1).ID, state.Span{Before: below, Limit: 2})
		if err != nil {
			t.Fatal(err)
		}
		all = append(check(page.Entries), all...)
		if below = page.Next; !page.More {
			break
		}
	}
	if got := fmt.Sprint(all); got != "[1 2 3 3 4 5 5 6 7]" {
		t.Errorf("%s", got)
	}
	page, err := l.History(t.Context(), run(1).ID, state.Span{After: 4})
	if err != nil || fmt.Sprint(check(page.Entries)) != "[5 5 6 7]" {
		t.Errorf("%v %v", page, err)
	}
}

// A list has each newest record and each pair of records with one sequence once, by
// index, however small its pages are; the newest record of a run comes with the pair
// that weighs most.
func listsCarryEvidence(t *testing.T, in makes) {
	l := in(t).open(t)
	other := func(r *state.Record) { r.Machine = state.Machine{9} }
	twice := func(at byte, signer byte, changes ...func(*state.Record)) (first *state.Envelope) {
		first = signed(t, run(at), signer, nil, `{"a":1}`)
		put(t, l, run(at), first)
		for i, change := range append(changes, other) { // the last one agrees
			payload := `{"a":1,"version":2}`
			if i < len(changes) {
				payload = fmt.Sprintf(`{"a":%d}`, i+5)
			}
			if _, err := l.Put(t.Context(), run(at), signed(t, run(at), signer, nil, payload, change)); !errors.As(err, new(*state.Conflict)) {
				t.Fatal(err)
			}
		}
		return first
	}
	agreed := twice(1, 1) // index 0, pair 1
	put(t, l, run(2), signed(t, run(2), 2, nil, `{}`))
	twice(3, 3, other, other)                             // index 3, pairs 4, 5, 6
	put(t, l, run(1), signed(t, run(1), 1, agreed, `{}`)) // index 7: run 1 has no record at 0 any more
	for _, limit := range []int{1, 2, 3, 100} {
		var got []string
		for since, more := uint64(0), true; more; {
			p, err := l.List(t.Context(), "lab", "net", state.Filter{Since: since, Limit: limit})
			if err != nil || len(p.Entries)+len(p.Evidence) > limit || p.Next <= since {
				t.Fatalf("limit %d: %+v %v", limit, p, err)
			}
			for _, e := range p.Entries {
				got = append(got, fmt.Sprintf("%d of %d", e.Index, e.RunID[0]))
			}
			for _, e := range p.Evidence {
				verdict, _, err := e.Check()
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, fmt.Sprintf("%s of %d", verdict, e.RunID[0]))
			}
			since, more = p.Next, p.More
		}
		slices.Sort(got)
		if want := "[2 of 2 3 of 3 7 of 1 equivocated of 3 equivocated of 3 shared_key of 1 shared_key of 3]"; fmt.Sprint(got) != want {
			t.Errorf("limit %d: %s", limit, got)
		}
	}
	for at, want := range map[byte]state.Verdict{1: "", 2: "", 3: state.Equivocated} { // of run 1 another record is the newest
		newest, err := l.Head(t.Context(), run(at).ID)
		if err != nil || newest.Head == nil || len(newest.Evidence) != len(want)/len(state.Equivocated) {
			t.Fatalf("run %d: %+v %v", at, newest, err)
		}
		for _, e := range newest.Evidence {
			if verdict, _, err := e.Check(); verdict != want || err != nil {
				t.Errorf("run %d: %s %v", at, verdict, err)
			}
		}
	}
	netuid := uint16(28)
	for _, f := range []state.Filter{{Netuid: &netuid}, {Role: state.Miner}} {
		if p, err := l.List(t.Context(), "lab", "net", f); err != nil || len(p.Evidence) != 0 || p.Evidence == nil {
			t.Errorf("%+v: %+v %v", f, p, err)
		}
	}
}
