package netstate_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/netstate"
)

// A stranger was first in the run that a hotkey's database names: by a record, or by
// opening it under another participant's name. The hotkey begins a new run, says so
// once, and what waited goes out.
func TestAStrangerTookTheRun(t *testing.T) {
	n := newNetwork(t)
	for name, display := range map[string]string{"record": "", "named": "miner-" + hotkey(t, "thief")} {
		run := "run-" + name
		if display == "" {
			n.say(name, `{"role":"validator"}`) // of a key with this name
		} else {
			n.request(http.MethodPost, "/api/v1/open", map[string]any{
				"writer": strings.Repeat("7", 32), "workspace": netstate.PublicWandbEntity, "project": netstate.PublicWandbName,
				"run_name": run, "display_name": display, "resume_strategy": "allow",
			}, &struct{}{})
		}
		var said bytes.Buffer
		o := n.options("a-"+name, netstate.Validator)
		o.Log = slog.New(slog.NewTextHandler(&said, nil))
		_, err := o.DB.SaveRunID(t.Context(), hotkey(t, "a-"+name), run)
		n.must(err)
		join := func() *netstate.Node {
			node, err := netstate.Join(t.Context(), o)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			return node
		}
		node := join()
		n.must(node.UpdatePenalizedHotkeys(t.Context(), []string{hotkey(t, name)}))
		n.must(node.Close(t.Context()))
		again := join()
		if again.RunID() != node.RunID() || again.RunID() == run {
			t.Errorf("%s: the runs %s and %s", name, node.RunID(), again.RunID())
		}
		n.must(again.Close(t.Context()))
		if strings.Count(said.String(), "somebody else") != 1 {
			t.Errorf("%s: %s", name, said.String())
		}
		reader := n.join("reader-"+name, netstate.Miner, nil)
		got, err := reader.PenalizedHotkeys(t.Context(), netstate.Select{Validators: []string{hotkey(t, "a-"+name)}, Listed: true})
		n.must(err)
		if len(got) != 1 || got[0] != hotkey(t, name) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// The server was away when the hotkey joined, so it could not say that a stranger has
// the run. The update that finds it out says what to do, in the error and in the log
// of Run, and joining again loses nothing that waited.
func TestAStrangerTookTheRunOfWhoJoinedAlone(t *testing.T) {
	for name, display := range map[string]string{"record": "", "named": "miner-" + hotkey(t, "thief")} {
		t.Run(name, func(t *testing.T) {
			n := newNetwork(t)
			run := "run-" + name
			if display == "" {
				n.say(name, `{"role":"validator"}`)
			} else {
				n.request(http.MethodPost, "/api/v1/open", map[string]any{
					"writer": strings.Repeat("7", 32), "workspace": netstate.PublicWandbEntity, "project": netstate.PublicWandbName,
					"run_name": run, "display_name": display, "resume_strategy": "allow",
				}, &struct{}{})
			}
			o := n.options("a", netstate.Validator)
			_, err := o.DB.SaveRunID(t.Context(), hotkey(t, "a"), run)
			n.must(err)
			n.away.Store(true)
			node, err := netstate.Join(t.Context(), o)
			n.must(err)
			if err := node.UpdateAllocatedHotkeys(t.Context(), []string{hotkey(t, "early")}); err == nil {
				t.Error("nobody took it")
			}
			n.away.Store(false)
			for range 2 {
				wantCode(t, node.UpdatePenalizedHotkeys(t.Context(), []string{hotkey(t, "late")}), "state_refused", "join again: a new run begins")
			}
			n.must(node.Close(t.Context()))
			node, err = netstate.Join(t.Context(), o)
			n.must(err)
			defer node.Close(t.Context())
			n.must(node.UpdatePenalizedHotkeys(t.Context(), []string{hotkey(t, "late")}))
			for what, read := range map[string]func(context.Context, netstate.Select) ([]string, error){"early": node.AllocatedHotkeys, "late": node.PenalizedHotkeys} {
				if got, err := read(t.Context(), netstate.Select{}); err != nil || !slices.Equal(got, []string{hotkey(t, what)}) {
					t.Errorf("%s: %v %v", what, got, err)
				}
			}
		})
	}
}
