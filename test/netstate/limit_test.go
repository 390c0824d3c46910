package netstate_test

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/state"
	"github.com/kymogram/kymogram/netstate"
)

// Without a chain whoever comes is read until the limit: the rest is named, and costs a
// note. Whom the program names is read all the same, and what expired makes room.
func TestAReaderWithoutAChainHasALimit(t *testing.T) {
	const strangers = 24
	for what, older := range map[string]bool{"now": false, "with a server of before": true} {
		t.Run(what, func(t *testing.T) {
			n := newNetwork(t)
			n.older.Store(older)
			ctx := t.Context()
			n.say("v", report(t, 40, ""))
			for i := range strangers {
				n.sayFor(10*time.Minute, fmt.Sprint("stranger", i), report(t, 90, strings.Repeat("x", state.MaxPayload-400)))
			}
			n.say("late", report(t, 50, ""))
			for i := range 3 {
				n.say(fmt.Sprint("big", i), report(t, 90, strings.Repeat("y", state.MaxPayload/2)))
			}
			var late time.Duration
			var said strings.Builder
			o := n.options("reader", netstate.Miner)
			o.MaxBytes, o.Log = 4<<20, slog.New(slog.NewTextHandler(&said, nil))
			o.Now = func() time.Time { return time.Now().Add(late) }
			path := filepath.Join(filepath.Dir(o.Run.SpoolDir), "database.db")
			node, err := netstate.Join(ctx, o)
			n.must(err)
			verdicts := func() map[string]int {
				t.Helper()
				list, err := node.Verdicts(ctx)
				n.must(err)
				out := map[string]int{}
				for _, v := range list {
					out[v.Verdict]++
					if v.Verdict == netstate.NotRead && !strings.Contains(v.Reason, "not read: limit") {
						t.Errorf("%+v", v)
					}
				}
				return out
			}
			runs := strangers + 6 // the others, and the reader itself
			check := func(when string, left int) {
				t.Helper()
				if got := verdicts(); got[netstate.NotRead] != left || got["verified"] != runs-left {
					t.Errorf("%s: %v", when, got)
				}
			}
			got, err := node.StatsAllocated(ctx, netstate.Select{})
			n.must(err)
			if got[5].Score != 90 {
				t.Errorf("%+v", got)
			}
			check("first", strangers-3+2)
			c := n.count()
			for range 3 {
				check("again", strangers-3+2)
			}
			c.check(t, "unchanged", map[string]int{"list": 3}, 2500)
			n.lie(nil)
			if strings.Count(said.String(), "not read: limit") != 1 {
				t.Error(said.String())
			}
			if size := folderSize(t, filepath.Dir(path)); size > 12<<20 {
				t.Errorf("the reader's folder has %d bytes", size)
			}
			got, err = node.StatsAllocated(ctx, netstate.Select{Validators: []string{hotkey(t, "stranger20"), hotkey(t, "v")}, Listed: true})
			n.must(err)
			if got[5].Score != 90 {
				t.Errorf("who is named is not read: %+v", got)
			}
			check("one is named", strangers-3+2-1)
			n.say("next", report(t, 70, strings.Repeat("z", state.MaxPayload/2)))
			runs++
			check("no room", strangers-3+2-1+1)
			late = 20 * time.Minute
			if got, err = node.StatsAllocated(ctx, netstate.Select{}); err != nil || got[5].Score != 90 {
				t.Errorf("%+v %v", got, err)
			}
			if got := verdicts(); got["verified"] != 7 || got[netstate.NotRead] != strangers-4 || got["stale"] != 4 {
				t.Errorf("after they expired: %v", got)
			}
			n.must(node.Close(ctx))
		})
	}
}
