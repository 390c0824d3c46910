package netstate_test

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/internal/state"
	"github.com/kymogram/kymogram/netstate"
	"github.com/kymogram/kymogram/test/rig"
)

// A server goes back to its backup. Readers say that the server is behind and accuse
// no signer, keep what they saw, and follow the signers on; a signer that lost a
// record on the server still says what it said.
func TestAServerRestoredFromABackup(t *testing.T) {
	needsFolder(t)
	n := newNetwork(t)
	ctx := t.Context()
	a, reader := n.join("a", netstate.Validator, nil), n.join("r", netstate.Validator, nil)
	n.must(a.UpdateAllocatedHotkeys(ctx, []string{hotkey(t, "first")}))
	backup := filepath.Join(t.TempDir(), "backup")
	r := rig.New(t)
	r.CLI(t, "data", "backup", "--data", n.server.Data, "--to", backup)
	n.must(a.UpdatePenalizedHotkeys(ctx, []string{hotkey(t, "thief")}))
	n.must(a.UpdateAllocatedHotkeys(ctx, []string{hotkey(t, "second")}))
	allocated := func(when, want string) {
		t.Helper()
		got, err := reader.AllocatedHotkeys(ctx, netstate.Select{})
		n.must(err)
		if len(got) != 1 || got[0] != hotkey(t, want) {
			t.Errorf("%s: %v, want %s", when, got, want)
		}
	}
	verdict := func(when, want, says string) {
		t.Helper()
		verdicts, err := reader.Verdicts(ctx)
		n.must(err)
		for _, v := range verdicts {
			if v.Hotkey == hotkey(t, "a") && (v.Verdict != want || !strings.Contains(v.Reason, says)) {
				t.Errorf("%s: %+v, want %s", when, v, want)
			}
		}
	}
	allocated("before", "second")

	n.server.Stop(t)
	folder := filepath.Join(t.TempDir(), "restored")
	r.CLI(t, "data", "restore", "--from", backup, "--data", folder)
	n.server.Data = folder
	n.server.Restart(t, "--no-auth")
	verdict("after the restore", "rollback", "the signer is not at fault")
	allocated("after the restore", "second")

	n.must(a.UpdateAllocatedHotkeys(ctx, []string{hotkey(t, "third")}))
	verdict("after the next record", "verified", "were not shown here")
	allocated("after the next record", "third")
	penalized, err := reader.PenalizedHotkeys(ctx, netstate.Select{})
	n.must(err)
	if len(penalized) != 1 || penalized[0] != hotkey(t, "thief") {
		t.Errorf("what was said between backup and restore is gone: %v", penalized)
	}
}

// A run in the trash has no vote and does not show; restored, it has both again.
func TestADeletedRunHasNoVote(t *testing.T) {
	n := newNetwork(t)
	ctx := t.Context()
	a, reader := n.join("a", netstate.Validator, nil), n.join("r", netstate.Validator, nil)
	n.must(a.UpdateAllocatedHotkeys(ctx, []string{hotkey(t, "miner")}))
	var page state.Page
	n.get("/api/v1/projects/neuralinternet/opencompute/state", &page)
	run := page.Entries[slices.IndexFunc(page.Entries, func(e state.Entry) bool { return e.Run == a.RunID() })].RunID.String()
	r := rig.New(t)
	for _, one := range []struct {
		act  string
		want int
	}{
		{"", 1}, {"delete", 0}, {"restore", 1}, {"delete --now", 0},
	} {
		if one.act != "" {
			r.CLI(t, append(append([]string{"runs"}, strings.Fields(one.act)...), run, "--server", n.server.Address)...)
		}
		got, err := reader.AllocatedHotkeys(ctx, netstate.Select{})
		n.must(err)
		verdicts, err := reader.Verdicts(ctx)
		n.must(err)
		var page struct{ Validators []any }
		n.get("/api/v1/projects/neuralinternet/opencompute/network", &page)
		others := 1 // the reader's own run
		if len(got) != one.want || len(verdicts) != others+one.want || len(page.Validators) != others+one.want {
			t.Errorf("after %q: %v, %v, %v on the page, want %d", one.act, got, verdicts, page.Validators, one.want)
		}
	}
}

func (n *network) get(path string, into any) {
	n.Helper()
	response, err := http.Get(n.url + path)
	n.must(err)
	defer response.Body.Close()
	n.must(json.NewDecoder(response.Body).Decode(into))
}
