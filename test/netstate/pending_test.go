package netstate_test

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/netstate"
)

// A change that no server took is found again by the next process, and a newer one of
// the same key is not undone by it.
func TestAChangeThatWaitsOutlivesItsProcess(t *testing.T) {
	n := newNetwork(t)
	ctx, folder := t.Context(), t.TempDir()
	file := filepath.Join(folder, "database.db")
	with := func(o *netstate.Options) { o.DB = openDb(t, file) }
	reader := n.join("reader", netstate.Validator, nil)
	first := n.join("a", netstate.Validator, with)
	n.away.Store(true)
	wantCode(t, first.UpdateAllocatedHotkeys(ctx, []string{hotkey(t, "x")}), model.CodeUnavailable, "waits")
	wantCode(t, first.UpdateConfig(ctx, map[string]any{"gone": nil, "note": 7}), model.CodeUnavailable, "waits")
	n.away.Store(false)
	n.join("a", netstate.Validator, with) // first says nothing any more, as if it were killed
	got, err := reader.AllocatedHotkeys(ctx, netstate.Select{})
	if n.must(err); !slices.Equal(got, []string{hotkey(t, "x")}) {
		t.Errorf("after the next process joined: %v", got)
	}
	if last := n.posted()[len(n.posted())-1]; !strings.Contains(string(last.Payload), `"note":7`) {
		t.Errorf("%s", last.Payload)
	}

	// Two processes: what the one left waiting does not undo what the other said since.
	second := n.join("a", netstate.Validator, with)
	n.away.Store(true)
	wantCode(t, first.UpdatePenalizedHotkeys(ctx, []string{hotkey(t, "old")}), model.CodeUnavailable, "waits")
	n.away.Store(false)
	n.must(second.UpdatePenalizedHotkeys(ctx, []string{hotkey(t, "new")}))
	n.must(first.SignRun(ctx))
	got, err = reader.PenalizedHotkeys(ctx, netstate.Select{})
	if n.must(err); !slices.Equal(got, []string{hotkey(t, "new")}) {
		t.Errorf("%v", got)
	}
}

// A state of 10 MB is refused with the limit, and what comes after it goes out; also
// when the process was killed before it heard of the refusal.
func TestAStateOf10MB(t *testing.T) {
	n := newNetwork(t)
	ctx, file := t.Context(), filepath.Join(t.TempDir(), "database.db")
	with := func(o *netstate.Options) { o.DB = openDb(t, file) }
	a, reader := n.join("a", netstate.Validator, with), n.join("r", netstate.Validator, nil)
	large := map[string]any{"large": strings.Repeat("x", 10<<20)}
	err := a.UpdateConfig(ctx, large)
	if err == nil || !strings.Contains(err.Error(), "1048576") {
		t.Fatalf("%v", err)
	}
	n.must(a.UpdateAllocatedHotkeys(ctx, []string{hotkey(t, "x")}))

	n.away.Store(true)
	wantCode(t, a.UpdateConfig(context.Background(), map[string]any{"small": 1}), model.CodeUnavailable, "waits")
	n.away.Store(false)
	execDb(t, file, "UPDATE state_pending SET value = json_quote(printf('%.*c', 10485760, 'x'))")
	n.join("a", netstate.Validator, with)
	got, err := reader.AllocatedHotkeys(ctx, netstate.Select{})
	if n.must(err); len(got) != 1 {
		t.Errorf("%v", got)
	}
}
