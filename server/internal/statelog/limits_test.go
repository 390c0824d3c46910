package statelog_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/state"
	"github.com/kymogram/kymogram/server/internal/statelog"
)

// Old payloads go when they are too many; records, hashes and signatures stay.
func oldPayloadsGo(t *testing.T, in makes) {
	at := in(t)
	l := at.open(t)
	const extra = 3
	count := statelog.KeptPayload/state.MaxPayload + extra
	var on *state.Envelope
	for i := range count {
		on = signed(t, run(1), 1, on, fmt.Sprintf(`{"n":%d,"pad":"%s"}`, i, strings.Repeat("x", state.MaxPayload-30)))
		put(t, l, run(1), on)
	}
	dropped, entries := 0, 0
	for after := uint64(0); ; {
		page, err := l.History(t.Context(), run(1).ID, state.Span{After: after, Limit: 0})
		if err != nil {
			t.Fatal(err)
		}
		for i := range page.Entries {
			e := &page.Entries[i]
			if entries++; e.Dropped {
				dropped++
			}
			if e.Dropped != (len(e.Payload) == 0) || e.Dropped && entries > extra {
				t.Errorf("record %d has %d bytes, dropped: %t", e.Sequence, len(e.Payload), e.Dropped)
			}
			if _, err := e.Authentic(); err != nil {
				t.Errorf("record %d: %v", e.Sequence, err)
			}
		}
		if !page.More {
			break
		}
		after = page.Next
	}
	if entries != count || dropped == 0 || dropped > extra {
		t.Errorf("%d records, %d of them without payload", entries, dropped)
	}
	if i := at.verify(t); len(i.Damage) != 0 {
		t.Errorf("%v", i.Damage)
	}
}

// The payloads of a pair that proves something stay, however much its signer adds: who
// reads for the first time can check it.
func evidenceStays(t *testing.T, in makes) {
	at := in(t)
	l := at.open(t)
	base := signed(t, run(1), 1, nil, `{"n":0}`)
	put(t, l, run(1), base)
	on := signed(t, run(1), 1, base, `{"n":1}`)
	put(t, l, run(1), on)
	twin := signed(t, run(1), 1, base, `{"n":2}`, func(r *state.Record) { r.Machine[0] = 1 })
	if _, err := l.Put(t.Context(), run(1), twin); !errors.As(err, new(*state.Conflict)) {
		t.Fatal(err)
	}
	for i := range statelog.KeptPayload/state.MaxPayload + 3 {
		on = signed(t, run(1), 1, on, fmt.Sprintf(`{"n":%d,"pad":"%s"}`, i+3, strings.Repeat("x", state.MaxPayload-30)))
		put(t, l, run(1), on)
	}
	page, err := l.List(t.Context(), "lab", "net", state.Filter{})
	if err != nil || len(page.Evidence) != 1 {
		t.Fatalf("%d pairs, %v", len(page.Evidence), err)
	}
	if verdict, reason, err := page.Evidence[0].Check(); err != nil || verdict != state.Equivocated {
		t.Errorf("%s %s %v", verdict, reason, err)
	}
	history, err := l.History(t.Context(), run(1).ID, state.Span{Limit: 4})
	if err != nil || !history.Entries[0].Dropped || history.Entries[1].Dropped || history.Entries[2].Dropped || !history.Entries[3].Dropped {
		t.Errorf("the wrong payloads went: %v", err)
	}
	if i := at.verify(t); len(i.Damage) != 0 {
		t.Errorf("%v", i.Damage)
	}
}

// largePages has more than a page holds, of small and of large records.
func largePages(t *testing.T, in makes) {
	l := in(t).open(t)
	const runs = 70
	var on *state.Envelope
	for n := range byte(runs) {
		put(t, l, run(n+2), signed(t, run(n+2), n+2, nil, `{"pad":"`+strings.Repeat("x", 100_000)+`"}`))
		on = signed(t, run(1), 1, on, `{"pad":"`+strings.Repeat("y", 100_000)+`"}`)
		put(t, l, run(1), on)
	}
	var seen []uint64
	pages := 0
	for since, more := uint64(0), true; more; pages++ {
		p, err := l.List(t.Context(), "lab", "net", state.Filter{Since: since})
		if err != nil || len(p.Entries) > 45 {
			t.Fatalf("%d records, %v", len(p.Entries), err)
		}
		for _, e := range p.Entries {
			seen = append(seen, e.Index)
		}
		since, more = p.Next, p.More
	}
	want := []uint64{2*runs - 1}
	for n := range uint64(runs) {
		want = append(want, 2*n)
	}
	slices.Sort(want)
	if !slices.Equal(seen, want) || pages != 2 {
		t.Errorf("%d pages have %v", pages, seen)
	}
	if p, err := l.List(t.Context(), "lab", "net", state.Filter{Bare: true}); err != nil || len(p.Entries) != runs+1 || p.More {
		t.Errorf("a bare list has %d, %v", len(p.Entries), err)
	}
	for _, span := range []state.Span{{}, {Before: state.MaxNumber}} {
		sum := 0
		for more := true; more; {
			p, err := l.History(t.Context(), run(1).ID, span)
			if err != nil || len(p.Entries) > 45 {
				t.Fatalf("%d records, %v", len(p.Entries), err)
			}
			for _, e := range p.Entries {
				sum += int(e.Sequence)
			}
			if more = p.More; span.Before > 0 {
				span.Before = p.Next
			} else {
				span.After = p.Next
			}
		}
		if sum != runs*(runs+1)/2 {
			t.Errorf("%+v: the sequences' sum is %d", span, sum)
		}
	}
}

// Signers with one hotkey race: each record is taken once, in one chain, and the
// losers sign again.
func signersRace(t *testing.T, in makes) {
	at := in(t)
	l := at.open(t)
	const signers, each = 4, 15
	var all sync.WaitGroup
	for n := range signers {
		all.Go(func() {
			for made := 0; made < each; {
				newest, err := l.Head(t.Context(), run(1).ID)
				head := newest.Head
				if err != nil {
					t.Error(err)
					return
				}
				var on *state.Envelope
				if head != nil {
					on = &head.Envelope
				}
				e := signed(t, run(1), 1, on, fmt.Sprintf(`{"signer":%d,"n":%d}`, n, made), func(r *state.Record) { r.Sequence += uint64(n) })
				switch _, err := l.Put(t.Context(), run(1), e); {
				case err == nil:
					made++
				case !errors.As(err, new(*state.Conflict)):
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	page, err := l.History(t.Context(), run(1).ID, state.Span{After: 0, Limit: 0})
	if err != nil {
		t.Fatal(err)
	}
	before, taken := state.Hash{}, 0
	for i := range page.Entries {
		e := &page.Entries[i]
		if e.Fork {
			continue
		}
		r, err := e.Authentic()
		if err != nil || r.Previous != before {
			t.Fatalf("record %d does not follow: %v", e.Sequence, err)
		}
		before = e.Envelope.Hash()
		taken++
	}
	if taken != signers*each {
		t.Errorf("%d records", taken)
	}
	if i := at.verify(t); len(i.Damage) != 0 {
		t.Errorf("%v", i.Damage)
	}
	if s := l.Stats(); s.Taken != signers*each || s.Refused != 0 {
		t.Errorf("%+v", s)
	}
}

// bin counts what it is asked about.
type bin struct {
	gone      map[model.RunID]bool
	deletions uint64
	asked     int
}

func (b *bin) Deletions() uint64 { return b.deletions }

func (b *bin) Gone(_ context.Context, ids []model.RunID) (gone []model.RunID, _ error) {
	b.asked += len(ids)
	for _, id := range ids {
		if b.gone[id] {
			gone = append(gone, id)
		}
	}
	return gone, nil
}

// Lists name deleted runs, and ask about each run once, however often they are read.
func listsAskOnce(t *testing.T, in makes) {
	l, b := in(t).open(t), &bin{gone: map[model.RunID]bool{}}
	l.Heed(b)
	list := func(asked int, want ...model.RunID) {
		t.Helper()
		page, err := l.List(t.Context(), "lab", "net", state.Filter{})
		if err != nil || !slices.Equal(page.Deleted, want) || b.asked != asked {
			t.Errorf("%v, asked %d times, %v; want %v after %d", page.Deleted, b.asked, err, want, asked)
		}
	}
	for n := byte(1); n <= 3; n++ {
		put(t, l, run(n), signed(t, run(n), n, nil, `{}`))
	}
	list(3)
	list(3)
	b.gone[run(2).ID], b.deletions = true, 1
	list(6, run(2).ID)
	put(t, l, run(4), signed(t, run(4), 4, nil, `{}`))
	list(7, run(2).ID)
	delete(b.gone, run(2).ID)
	b.deletions = 2
	list(11)
}
