package netstate_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/internal/state"
	"github.com/kymogram/kymogram/netstate"
	"github.com/kymogram/kymogram/test/rig"
)

// A signer that signs faster than its clock runs ahead of it. When its database and the
// server both go back to a backup, nothing is left that knows: readers refuse what is
// behind their memory, name no culprit, and say what to do. The way on is a new run.
func TestSignerAndServerAreRestored(t *testing.T) {
	needsFolder(t)
	n := newNetwork(t)
	ctx, r := t.Context(), rig.New(t)
	folder := t.TempDir()
	live, saved, backup := filepath.Join(folder, "live.db"), filepath.Join(folder, "saved.db"), filepath.Join(folder, "backup")
	with := func(path string) *netstate.Node {
		return n.join("a", netstate.Validator, func(o *netstate.Options) { o.DB = openDb(t, path) })
	}
	a, reader := with(live), n.join("r", netstate.Miner, nil)
	n.must(a.UpdateAllocatedHotkeys(ctx, []string{hotkey(t, "first")}))
	n.must(a.Series().Flush(ctx, true))
	r.CLI(t, "data", "backup", "--data", n.server.Data, "--to", backup)
	copyDb(t, live, saved)
	for range 200 {
		n.must(a.SignRun(ctx))
	}
	n.must(a.UpdateAllocatedHotkeys(ctx, []string{hotkey(t, "second")}))
	check := func(when, want string, verdicts map[string]string) {
		t.Helper()
		got, err := reader.AllocatedHotkeys(ctx, netstate.Select{})
		n.must(err)
		if len(got) != 1 || got[0] != hotkey(t, want) {
			t.Errorf("%s: %v, want %s", when, got, want)
		}
		list, err := reader.Verdicts(ctx)
		n.must(err)
		for _, v := range list {
			if v.Hotkey != hotkey(t, "a") {
				continue
			}
			if v.Verdict != verdicts[v.Run] || v.Verdict == "rollback" && !(strings.Contains(v.Reason, "the signer is not at fault") && strings.Contains(v.Reason, "a new run")) {
				t.Errorf("%s: %+v, want %s", when, v, verdicts[v.Run])
			}
			delete(verdicts, v.Run)
		}
		if len(verdicts) > 0 {
			t.Errorf("%s: no verdict on %v", when, verdicts)
		}
	}
	old := a.RunID()
	check("before", "second", map[string]string{old: "verified"})
	n.must(a.Close(ctx))
	n.server.Stop(t)
	n.server.Data = filepath.Join(folder, "restored")
	r.CLI(t, "data", "restore", "--from", backup, "--data", n.server.Data)
	n.server.Restart(t, "--no-auth")

	a = with(saved)
	n.must(a.UpdateAllocatedHotkeys(ctx, []string{hotkey(t, "third")}))
	check("restored", "second", map[string]string{old: "rollback"})
	n.must(a.Close(ctx))

	// As docs/netstate.md says.
	r.CLI(t, "runs", "delete", "neuralinternet/opencompute/"+old, "--server", n.server.Address)
	execDb(t, saved, "DELETE FROM wandb_runs WHERE hotkey = '"+hotkey(t, "a")+"'")
	a = with(saved)
	n.must(a.UpdateAllocatedHotkeys(ctx, []string{hotkey(t, "fourth")}))
	check("a new run", "fourth", map[string]string{a.RunID(): "verified"})
	signed := map[uint64]state.Hash{}
	for _, e := range n.posted() {
		record, err := e.Open()
		n.must(err)
		if before, taken := signed[record.Sequence]; taken && before != e.Hash() {
			t.Errorf("sequence %d was signed twice", record.Sequence)
		}
		signed[record.Sequence] = e.Hash()
	}
}
