package postgres

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kymogram/kymogram/internal/model"
)

// TestNoticesFit: whatever news there are, each notice is one that PostgreSQL takes, and what
// comes out of all of them is what went in.
func TestNoticesFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[a-z]{1,128}`)
		places := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) [2]string { return [2]string{name.Draw(t, "w"), name.Draw(t, "p")} }), 1, 20).Draw(t, "places")
		want := map[model.RunChange]bool{}
		var all []model.RunChange
		for i := range rapid.IntRange(0, 2000).Draw(t, "runs") {
			at := places[rapid.IntRange(0, len(places)-1).Draw(t, "at")]
			c := model.RunChange{Run: model.RunID{byte(i), byte(i >> 8)}, Workspace: at[0], Project: at[1]}
			want[c] = true
			all = append(all, c)
		}
		got := map[model.RunChange]bool{}
		for _, n := range split("me", all) {
			text, err := n.payload()
			if err != nil || len(text) >= 8000 {
				t.Fatalf("%d bytes, %v", len(text), err)
			}
			if _, other := heard("me", text); other {
				t.Fatal("one's own notice was heard")
			}
			c, other := heard("another", text)
			if !other || c.Lost || len(c.News)+len(c.Records) == 0 {
				t.Fatalf("%+v, %v of %s", c, other, text)
			}
			for _, change := range slices.Concat(c.News, c.Records) { // the first run is zeros: records
				if got[change] {
					t.Fatalf("%+v came twice", change)
				}
				got[change] = true
			}
		}
		if len(got) != len(want) {
			t.Fatalf("%d of %d runs", len(got), len(want))
		}
		for c := range want {
			if !got[c] {
				t.Fatalf("%+v did not come", c)
			}
		}
	})
}

// TestNoticesThatAreNone: a text that this version does not understand counts as a loss, and so
// does a key whose id fits in no notice.
func TestNoticesThatAreNone(t *testing.T) {
	for _, text := range []string{"", "x", "[]", `{"runs":["?"]}`, `{"news":1}`} {
		if c, other := heard("me", text); !other || !c.Lost {
			t.Errorf("%q: %+v, %v", text, c, other)
		}
	}
	text, err := (&notice{From: "a", Keys: []string{strings.Repeat("k", 10_000)}}).payload()
	c, other := heard("me", text)
	if err != nil || len(text) >= 8000 || !other || !c.Lost {
		t.Errorf("%d bytes: %+v, %v, %v", len(text), c, other, err)
	}
}

// TestOutboxIsBounded: while nothing can be sent, a run waits once. Past the limit what is
// remembered is that something was lost.
func TestOutboxIsBounded(t *testing.T) {
	o := newOutbox()
	if next, lost := o.take(); len(next) > 0 || !lost {
		t.Errorf("the first says %d runs, lost %v", len(next), lost)
	}
	run := func(i int) model.RunChange {
		return model.RunChange{Run: model.RunID{byte(i), byte(i >> 8), byte(i >> 16)}, Workspace: "w", Project: "p"}
	}
	for i := range 3 * mostSent / 2 {
		o.put(run(i), run(0))
	}
	first, lost := o.take()
	o.giveBack(first, lost)
	var got []model.RunChange
	for len(o.ready) > 0 {
		<-o.ready
		next, lost := o.take()
		if got = append(got, next...); lost || len(next) > mostSent {
			t.Errorf("%d at once, lost %v", len(next), lost)
		}
	}
	slices.SortFunc(got, func(a, b model.RunChange) int { return slices.Compare(a.Run[:], b.Run[:]) })
	if len(slices.Compact(got)) != 3*mostSent/2 {
		t.Errorf("%d runs", len(got))
	}
	for i := range mostWaiting + 1 {
		o.put(run(i))
	}
	if next, lost := o.take(); !lost || len(next) != 1 {
		t.Errorf("past the limit: %d runs, lost %v", len(next), lost)
	}
}
