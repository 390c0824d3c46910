package state_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/kymogram/kymogram/internal/state"
	"github.com/kymogram/kymogram/internal/wallet"
)

// next is the record after another one.
func next(t testing.TB, on *state.Envelope, payload string, change ...func(r *state.Record)) *state.Envelope {
	t.Helper()
	before, err := state.Decode(on.Record)
	if err != nil {
		t.Fatal(err)
	}
	r := *before
	r.Sequence, r.Previous = r.Sequence+1, on.Hash()
	for _, c := range change {
		c(&r)
	}
	return seal(t, 1, r, payload)
}

func judged(t *testing.T, what string, r *state.Reader, e *state.Envelope, want state.Verdict, says string) state.Judgement {
	t.Helper()
	j := check(t, r, e)
	if j.Verdict != want || !strings.Contains(j.Reason, says) {
		t.Errorf("%s: %s, %q; want %s, %q", what, j.Verdict, j.Reason, want, says)
	}
	if (j.Payload != nil) != j.Verdict.Trusted() {
		t.Errorf("%s: %s with the payload %q", what, j.Verdict, j.Payload)
	}
	return j
}

// What a hostile server can do with records that were signed well.
func TestAHostileServer(t *testing.T) {
	memory := state.NewMemory()
	r := readerAt(memory, nowMs)
	first := seal(t, 1, sample(""), `{"a":1}`)
	second := next(t, first, `{"a":2}`)
	judged(t, "the first", r, first, state.Verified, "sequence")
	judged(t, "the second", r, second, state.Verified, "sequence")
	judged(t, "the second again", r, second, state.Verified, "sequence")
	judged(t, "a rollback", r, first, state.Rollback, "the signer is not at fault")
	judged(t, "a rollback after a restart of the reader", readerAt(memory, nowMs), first, state.Rollback, "the signer is not at fault")
	judged(t, "a loser of a race shown as the newest", r, next(t, first, `{"a":3}`, func(r *state.Record) { r.Sequence += 7 }), state.Rollback, "has a fork")
	third := next(t, second, `{}`)
	if j := judged(t, "the third", readerAt(memory, nowMs), third, state.Verified, ""); strings.Contains(j.Reason, "not shown") {
		t.Errorf("nothing is missing: %s", j.Reason)
	}
	judged(t, "a gap", r, next(t, next(t, third, `{}`), `{"a":4}`), state.Verified, "were not shown here")
	judged(t, "an old one after a day", readerAt(memory, nowMs+86_400_000), next(t, next(t, next(t, third, `{}`), `{}`), `{"a":4}`), state.Stale, "expired 23h ago")
	for what, move := range map[string]func(x *state.Expect){
		"chain":     func(x *state.Expect) { x.Genesis = state.Hash{1} },
		"subnet":    func(x *state.Expect) { x.Netuid = 1 },
		"workspace": func(x *state.Expect) { x.Workspace = "w" },
		"project":   func(x *state.Expect) { x.Project = "p" },
		"run":       func(x *state.Expect) { x.Run = "r" },
		"role":      func(x *state.Expect) { x.Role = state.Miner },
		"hotkey":    func(x *state.Expect) { a := key(t, 2).Account(); x.Hotkey = &a },
	} {
		moved := readerAt(state.NewMemory(), nowMs)
		move(&moved.Expect)
		judged(t, what, moved, first, state.Broken, "signed for the "+what)
	}
}

// What a holder of the key can do.
func TestAHostileKeyHolder(t *testing.T) {
	other := func(r *state.Record) { r.Machine = state.Machine{9} }
	for _, c := range []struct {
		what, payload, says string
		change              func(r *state.Record)
		want                state.Verdict
	}{
		{"one machine, two contents", `{"stats":{"1":{"score":2}}}`, "on one machine", func(*state.Record) {}, state.Equivocated},
		{"one machine, one content", `{"stats":{"1":{"score":1}}}`, "on one machine", func(r *state.Record) { r.Block++ }, state.Equivocated},
		{"two machines, two contents", `{"stats":{"1":{"score":2}}}`, "contradict each other in stats.1.score", other, state.Equivocated},
		{"two machines that agree", `{"stats":{"1":{"score":1}},"specs":{"free":7}}`, "two machines use", other, state.SharedKey},
		{"two machines, two types", `{"stats":{"1":{"score":1}}}`, "contradict", func(r *state.Record) { other(r); r.PayloadType = "age/v1" }, state.Equivocated},
	} {
		memory := state.NewMemory()
		r := readerAt(memory, nowMs)
		record := sample("")
		first := seal(t, 1, record, `{"stats":{"1":{"score":1}},"specs":{"free":5}}`)
		judged(t, c.what, r, first, state.Verified, "")
		c.change(&record)
		twin := seal(t, 1, record, c.payload)
		j := judged(t, c.what, r, twin, c.want, c.says)
		if j.Proof == nil {
			t.Fatalf("%s: no proof", c.what)
		}
		if verdict, _, err := j.Proof.Check(); verdict != c.want || err != nil {
			t.Errorf("%s: the proof shows %s: %v", c.what, verdict, err)
		}
		// It stays: for the first one, after a restart. Of the next record an equivocation does.
		judged(t, c.what+", the first again", readerAt(memory, nowMs), first, c.want, c.says)
		later := state.Verified
		if c.want == state.Equivocated {
			later = state.Equivocated
		}
		judged(t, c.what+", the next one", r, next(t, first, `{}`), later, "")
	}
	ahead := sample("")
	ahead.TimeMs, ahead.ExpiresMs = ahead.TimeMs+86_400_000, ahead.ExpiresMs+86_400_000
	ahead.Sequence = state.MaxNumber
	r := readerAt(state.NewMemory(), nowMs)
	judged(t, "a clock a day ahead", r, seal(t, 1, ahead, `{}`), state.Stale, "1d ahead of this clock")
	judged(t, "and the right clock after it", r, seal(t, 1, sample(""), `{}`), state.Verified, "")
}

// What a server shows as evidence counts as what a reader saw itself, whichever comes
// first; what proves nothing accuses nobody.
func TestEvidenceOfOthers(t *testing.T) {
	record := sample("")
	first := seal(t, 1, record, `{"stats":{"1":{"score":1}},"version":1}`)
	record.Machine = state.Machine{9}
	agrees := seal(t, 1, record, `{"stats":{"1":{"score":1}},"version":2}`)
	contradicts := seal(t, 1, record, `{"stats":{"1":{"score":2}}}`)
	forged := *contradicts
	forged.Signature[9] ^= 1
	record.Run = "another"
	for _, c := range []struct {
		what  string
		twins []*state.Envelope
		want  state.Verdict
	}{
		{"agrees", []*state.Envelope{agrees}, state.SharedKey},
		{"contradicts", []*state.Envelope{contradicts}, state.Equivocated},
		{"an equivocation outweighs a shared key", []*state.Envelope{agrees, contradicts, agrees}, state.Equivocated},
		{"a forged one", []*state.Envelope{&forged}, state.Verified},
		{"of another place", []*state.Envelope{seal(t, 1, record, `{}`)}, state.Verified},
		{"the same record", []*state.Envelope{first}, state.Verified},
		{"half a pair", []*state.Envelope{nil}, state.Verified},
	} {
		for _, before := range []bool{true, false} {
			memory := state.NewMemory()
			r := readerAt(memory, nowMs)
			if !before {
				judged(t, c.what, r, first, state.Verified, "")
			}
			for _, twin := range c.twins {
				if err := r.Convict(t.Context(), &state.Proof{A: first, B: twin}); err != nil {
					t.Fatal(err)
				}
			}
			judged(t, c.what, readerAt(memory, nowMs), first, c.want, "")
			later := state.Verified
			if c.want == state.Equivocated {
				later = c.want
			}
			judged(t, c.what+", the next", r, next(t, first, `{}`), later, "")
		}
	}
}

func TestBlocksAndTheSubnet(t *testing.T) {
	r := readerAt(state.NewMemory(), nowMs)
	r.Clock = func() state.Clock { return state.Clock{Now: time.UnixMilli(nowMs), Block: 4_000_200, MaxBlocks: 100} }
	e := seal(t, 1, sample(""), `{}`)
	judged(t, "an old block", r, e, state.Stale, "200 blocks ago; 100 are allowed")
	none := sample("")
	none.Block = 0
	judged(t, "no block", readerWith(r, state.NewMemory()), seal(t, 1, none, `{}`), state.Stale, "names no block")
	none.Block = 5_000_000
	judged(t, "a block to come", readerWith(r, state.NewMemory()), seal(t, 1, none, `{}`), state.Stale, "ahead of the chain's")
	r = readerAt(state.NewMemory(), nowMs)
	reason := "hotkey is not on subnet 27"
	r.Registry = func(context.Context, uint16, string, wallet.Account) (string, error) { return reason, nil }
	judged(t, "a stranger", r, e, state.Unregistered, reason)
	reason = ""
	judged(t, "registered meanwhile", r, e, state.Verified, "")
	r.Registry = func(context.Context, uint16, string, wallet.Account) (string, error) {
		return "", fmt.Errorf("no node answers")
	}
	if _, err := r.Check(t.Context(), e); err == nil || !strings.Contains(err.Error(), "no node answers") {
		t.Errorf("a chain that fails: %v", err)
	}
}

func readerWith(r *state.Reader, m state.Memory) *state.Reader {
	out := *r
	out.Memory = m
	return &out
}

func TestLegacyIsNeverTrusted(t *testing.T) {
	text, err := state.SignLegacy("0djlnjjs", key(t, 1))
	if err != nil {
		t.Fatal(err)
	}
	mine := key(t, 1).Account()
	for what, j := range map[string]state.Judgement{
		"legacy":      state.CheckLegacy(mine, "0djlnjjs", text),
		"another run": state.CheckLegacy(mine, "0djlnjjt", text),
		"another key": state.CheckLegacy(key(t, 2).Account(), "0djlnjjs", text),
		"no hex":      state.CheckLegacy(mine, "0djlnjjs", "x"+text[1:]),
	} {
		if j.Verdict.Trusted() || (j.Verdict == state.Legacy) != (what == "legacy") || j.Reason == "" {
			t.Errorf("%s: %+v", what, j)
		}
	}
}

// A state machine: a signer makes records, loses races, signs twice, on two
// machines; a server shows any of them in any order. The model knows which were
// shown. What is accepted never goes back and is never one of two.
func TestSequences(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		memory := state.NewMemory()
		made := []*state.Envelope{seal(t, 1, sample(""), `{"n":0}`)}
		sequences := []uint64{nowMs}
		var highest uint64
		var head state.Hash
		poisoned := false
		rt.Repeat(map[string]func(*rapid.T){
			"sign": func(rt *rapid.T) {
				on := rapid.IntRange(0, len(made)-1).Draw(rt, "on")
				step := rapid.IntRange(0, 3).Draw(rt, "step")
				machine := byte(rapid.IntRange(1, 2).Draw(rt, "machine"))
				content := rapid.IntRange(0, 2).Draw(rt, "content")
				e := next(t, made[on], fmt.Sprintf(`{"n":%d}`, content), func(r *state.Record) {
					r.Sequence = sequences[on] + uint64(step)
					r.Machine = state.Machine{machine}
				})
				made, sequences = append(made, e), append(sequences, sequences[on]+uint64(step))
			},
			"show": func(rt *rapid.T) {
				i := rapid.IntRange(0, len(made)-1).Draw(rt, "record")
				e, sequence := made[i], sequences[i]
				r := readerAt(memory, nowMs) // a new one: only the memory stays
				j, err := r.Check(t.Context(), e)
				if err != nil {
					rt.Fatal(err)
				}
				switch {
				case sequence < highest && j.Verdict != state.Rollback:
					rt.Fatalf("sequence %d after %d is %s: %s", sequence, highest, j.Verdict, j.Reason)
				case sequence == highest && e.Hash() != head && j.Verdict != state.Equivocated && j.Verdict != state.SharedKey:
					rt.Fatalf("a second record %d is %s: %s", sequence, j.Verdict, j.Reason)
				case poisoned && j.Verdict.Trusted():
					rt.Fatalf("after an equivocation %d is %s", sequence, j.Verdict)
				case j.Proof != nil:
					if v, _, err := j.Proof.Check(); err != nil || v == "" {
						rt.Fatalf("the proof does not hold: %v", err)
					}
				}
				if j.Verdict == state.Equivocated {
					poisoned = true
				}
				if sequence > highest && j.Verdict != state.Rollback {
					highest, head = sequence, e.Hash()
				}
			},
		})
	})
}

// What was checked ahead is judged as what was not, also when it was changed since.
func TestVerifyAllChangesNoJudgement(t *testing.T) {
	var ahead []*state.Envelope
	for i := range 20 {
		e := seal(t, byte(1+i), sample(""), `{}`)
		if i%3 == 0 {
			e.Signature[i] ^= 1
		}
		ahead = append(ahead, e)
	}
	state.VerifyAll(ahead)
	for i, e := range ahead {
		plain := &state.Envelope{Record: e.Record, Signature: e.Signature, Payload: e.Payload}
		want, got := check(t, readerAt(state.NewMemory(), nowMs), plain), check(t, readerAt(state.NewMemory(), nowMs), e)
		if got.Verdict != want.Verdict || got.Reason != want.Reason || (got.Verdict == state.Verified) != (i%3 != 0) {
			t.Errorf("%d: %s, want %s", i, got.Reason, want.Reason)
		}
		e.Signature[7] ^= 2
		judged(t, "changed after the check", readerAt(state.NewMemory(), nowMs), e, state.Broken, "signature")
	}
}

// A memory that has a record without its payload convicts nobody of what it did not
// read: two machines signed, no more. Both payloads, or one machine, say what is so.
func TestARecordThatIsKnownWithoutItsPayload(t *testing.T) {
	other := sample("")
	other.Machine[0]++
	for what, c := range map[string]struct {
		r       state.Record
		payload string
		before  state.Verdict // when only the second payload was read
		after   state.Verdict // with evidence that has both
	}{
		"another machine that contradicts": {other, `{"allocated_hotkeys":["x"]}`, state.SharedKey, state.Equivocated},
		"another machine that agrees":      {other, `{}`, state.SharedKey, state.SharedKey},
		"the same machine":                 {sample(""), `{"version":2}`, state.Equivocated, state.Equivocated},
	} {
		first, second := seal(t, 1, sample(""), `{}`), seal(t, 1, c.r, c.payload)
		memory := state.NewMemory()
		record, err := first.Signed()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := memory.Advance(t.Context(), record.Place, state.Hash{}, first.Bare()); err != nil {
			t.Fatal(err)
		}
		r := readerAt(memory, nowMs)
		pair := &state.Proof{A: first.Bare(), B: second}
		if err := r.Convict(t.Context(), pair); err != nil {
			t.Fatal(err)
		}
		if kept, err := memory.Proof(t.Context(), record.Place); err != nil || kept != nil {
			t.Errorf("%s: a pair that nobody can check was kept: %v", what, err)
		}
		if what != "another machine that agrees" {
			judged(t, what, r, second, c.before, "")
		}
		if err := r.Convict(t.Context(), &state.Proof{A: first, B: second}); err != nil {
			t.Fatal(err)
		}
		judged(t, what+", with evidence", r, first, c.after, "")
		head, err := memory.Head(t.Context(), record.Place)
		if err != nil || len(head.Payload) == 0 {
			t.Errorf("%s: the payload that was read is not kept: %v", what, err)
		}
	}
}
