//go:build e2e

package wandb

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	_ "modernc.org/sqlite" // the driver of netstate's database

	"github.com/kymogram/kymogram"
	"github.com/kymogram/kymogram/chain"
	"github.com/kymogram/kymogram/netstate"
)

// meets evaluates a condition on a field.
func meets(run map[string]any, name string, want any) bool {
	var have any = run
	found := true
	for _, part := range strings.Split(name, ".") {
		object, _ := have.(map[string]any)
		if have, found = object[part]; !found {
			break
		}
	}
	operators, is := want.(map[string]any)
	if !is {
		return found && reflect.DeepEqual(have, want)
	}
	for operator, argument := range operators {
		switch operator {
		case "$exists":
			if found != argument {
				return false
			}
		case "$in":
			if !found || !slices.ContainsFunc(argument.([]any), func(one any) bool { return reflect.DeepEqual(one, have) }) {
				return false
			}
		case "$regex":
			text, isText := have.(string)
			if !isText {
				raw, err := json.Marshal(have)
				if err != nil {
					return false
				}
				text = string(raw)
			}
			if !found || !regexp.MustCompile(argument.(string)).MatchString(text) {
				return false
			}
		default:
			panic(operator)
		}
	}
	return true
}

// reads checks what the programs make of what the others say.
func (s *subnet) reads(t *testing.T, all []*participant, first, second map[string]any) {
	v1, v2, m1, m2, other := all[0], all[1], all[2], all[3], all[4]
	order := s.order()
	older, younger := v1, v2
	if slices.Index(order, v1.id) > slices.Index(order, v2.id) {
		older, younger = v2, v1
	}
	with := func(of map[string]any, uid string) any { return of[uid] }
	for name, c := range map[string]struct {
		who    *participant
		method string
		args   []any
		want   any
	}{
		"allocated":       {m1, "get_allocated_hotkeys", []any{[]any{}, false}, append(slices.Clone(older.config["allocated_hotkeys"].([]any)), younger.config["allocated_hotkeys"].([]any)...)},
		"allocated, one":  {v1, "get_allocated_hotkeys", []any{[]any{v2.hotkey}, true}, []any{m1.hotkey, other.hotkey}},
		"allocated, none": {v1, "get_allocated_hotkeys", []any{[]any{m1.hotkey}, true}, []any{}},
		"penalized":       {v2, "get_penalized_hotkeys", []any{[]any{}, false}, []any{m2.hotkey}},
		"checklist":       {v2, "get_penalized_hotkeys_checklist", []any{[]any{}, false}, []any{other.hotkey}},
		"specs":           {v1, "get_miner_specs", []any{map[string]any{"5": m1.hotkey, "6": m2.hotkey, "7": other.hotkey}}, map[string]any{"5": []any{m1.hotkey, m1.config["specs"]}, "6": []any{m2.hotkey, m2.config["specs"]}}},
		// 5: both say the same. 6: the higher score. 7: nobody but with 0. 8: equal, so the
		// older run. 9: one without a GPU. 10: not its own score.
		"stats":         {v2, "get_stats_allocated", []any{[]any{}, false}, map[string]any{"5": with(first, "5"), "6": with(second, "6"), "8": with(map[string]any{"1": first["8"], "2": second["8"]}, map[bool]string{true: "1", false: "2"}[older == v1]), "9": with(first, "9")}},
		"stats, listed": {m1, "get_stats_allocated", []any{[]any{v1.hotkey}, true}, map[string]any{"5": with(first, "5"), "6": with(first, "6"), "8": with(first, "8"), "9": with(first, "9")}},
	} {
		if have := c.who.ask(c.method, c.args...); !reflect.DeepEqual(have, plain(t, c.want)) {
			t.Errorf("%s (-want +have)\n%s", name, cmp.Diff(plain(t, c.want), have))
		}
	}
	for _, p := range all {
		run := v2.ask("read", p.id).([]any)
		config := run[5].(map[string]any)
		delete(config, "signature")
		if diff := cmp.Diff(p.config, config); diff != "" || !reflect.DeepEqual(run[:4], []any{p.id, p.role + "-" + p.hotkey, "running", nil}) || run[7] != true {
			t.Errorf("%s reads as %v\n(-want +have)\n%s", p.role, append(run[:5:5], run[7]), diff)
		}
	}
	if have := len(m2.ask("dashboard").([]any)); have != len(all) {
		t.Errorf("the dashboard has %d runs, want %d", have, len(all))
	}
}

// ours is the project of the participants that use our own package.
const ours = "ours"

// join lets a participant in by our own package, with the same hotkey.
func (s *subnet) join(t *testing.T, p *participant, name string) *netstate.Node {
	t.Helper()
	folder := t.TempDir()
	pool, err := sql.Open("sqlite", filepath.Join(folder, "database.db"))
	if err != nil {
		t.Fatal(err)
	}
	db, err := netstate.OpenComputeDb(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	key, err := chain.SeedWallet(seed(name))
	if err != nil {
		t.Fatal(err)
	}
	node, err := netstate.Join(t.Context(), netstate.Options{
		DB: db, Wallet: key, Role: p.role, Netuid: p.netuid, Entity: subnetEntity, Project: ours, Server: s.server.Address, APIKey: s.key, Version: 183,
		Config: p.config["config"].(map[string]any), Log: slog.New(slog.DiscardHandler),
		Run: kymogram.Options{SpoolDir: filepath.Join(folder, "spool"), NoEnvironment: true, NoSystemMetrics: true, CloseTimeout: 5 * time.Second, Log: slog.New(slog.DiscardHandler)},
	})
	if err != nil {
		t.Fatalf("%s joins: %v", name, err)
	}
	t.Cleanup(func() { _ = node.Close(context.Background()); _ = db.Close(); _ = pool.Close() })
	if node.Hotkey() != p.hotkey {
		t.Fatalf("the hotkey is %s, the program has %s", node.Hotkey(), p.hotkey)
	}
	return node
}

// sameByNetstate makes the same calls with our package, and compares: the attributes of the
// runs, what readers get, and what the page shows of either.
func (s *subnet) sameByNetstate(t *testing.T, v1, v2, m1, m2 *participant) {
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	list := func(p *participant, key string) (out []string) {
		for _, one := range p.config[key].([]any) {
			out = append(out, one.(string))
		}
		return out
	}
	validators, nodes := []*participant{v1, v2}, map[*participant]*netstate.Node{}
	for i, v := range validators {
		node := s.join(t, v, fmt.Sprintf("validator %d", i+1))
		var stats netstate.Stats
		must(json.Unmarshal([]byte(text(t, v.config["stats"])), &stats))
		must(node.UpdateStats(ctx, stats))
		must(node.UpdateConfig(ctx, map[string]any{"allocated_hotkeys": v.config["allocated_hotkeys"]}))
		must(node.UpdatePenalizedHotkeys(ctx, list(v, "penalized_hotkeys")))
		nodes[v] = node
	}
	must(nodes[v1].UpdatePenalizedHotkeysChecklist(ctx, list(v1, "penalized_hotkeys_checklist")))
	for i, m := range []*participant{m1, m2} {
		node := s.join(t, m, fmt.Sprintf("miner %d", i+1))
		must(node.UpdateSpecs(ctx, m.config["specs"]))
		must(node.UpdateMinerPortOpen(ctx, m.config["is_port_open"].(bool)))
		must(node.SyncAllocated(ctx, netstate.Select{Validators: []string{v1.hotkey}, Listed: m == m1}))
		if m == m2 { // whom nobody allocates
			must(node.UpdateAllocated(ctx, ""))
		}
		nodes[m] = node
	}
	// The attributes of the two runs of a participant are the same, but for what only ours has.
	for p, node := range nodes {
		must(node.Series().Flush(ctx, true))
		theirs, _ := s.attributesOf(subnetPlace, p.id)
		mine, signature := s.attributesOf(subnetEntity+"/"+ours, node.RunID())
		delete(mine, "config/recipient")
		if diff := cmp.Diff(theirs, mine); diff != "" || signature == "" {
			t.Errorf("%s %s (-by W&B +by netstate)\n%s", p.role, p.hotkey, diff)
		}
	}
	s.sameAnswers(t, nodes, v1, m1, m2)
	s.sameOnThePage(t, validators)
	// A run that came by W&B has no record: netstate calls it legacy, and trusts no content.
	judge, err := netstate.Join(ctx, s.reader(t, subnetProject))
	must(err)
	defer func() { _ = judge.Close(context.Background()) }()
	for _, p := range []*participant{v1, v2, m1, m2} {
		verdict, err := judge.VerifyRun(ctx, p.id)
		must(err)
		if verdict.Verdict != "legacy" {
			t.Errorf("netstate judges %s %s: %s: %s", p.role, p.id, verdict.Verdict, verdict.Reason)
		}
	}
	if stats, err := judge.StatsAllocated(ctx, netstate.Select{OwnScoreOnly: true}); err != nil || len(stats) > 0 {
		t.Errorf("netstate believes what nobody signed: %v, %v", stats, err)
	}
}

// reader are the options of somebody who only reads.
func (s *subnet) reader(t *testing.T, project string) netstate.Options {
	t.Helper()
	folder := t.TempDir()
	pool, err := sql.Open("sqlite", filepath.Join(folder, "database.db"))
	if err != nil {
		t.Fatal(err)
	}
	db, err := netstate.OpenComputeDb(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close(); _ = pool.Close() })
	key, err := chain.SeedWallet(seed("reader"))
	if err != nil {
		t.Fatal(err)
	}
	return netstate.Options{
		DB: db, Wallet: key, Role: netstate.Miner, Netuid: 27, Entity: subnetEntity, Project: project, Server: s.server.Address, APIKey: s.key, Log: slog.New(slog.DiscardHandler),
		Run: kymogram.Options{SpoolDir: filepath.Join(folder, "spool"), NoEnvironment: true, NoSystemMetrics: true, CloseTimeout: 5 * time.Second, Log: slog.New(slog.DiscardHandler)},
	}
}

// sameAnswers compares what the unmodified program reads through W&B with what netstate
// reads of its own records.
func (s *subnet) sameAnswers(t *testing.T, nodes map[*participant]*netstate.Node, v1, m1, m2 *participant) {
	ctx, reader := t.Context(), nodes[v1]
	same := func(name string, by, mine any, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(by, plain(t, mine)); diff != "" {
			t.Errorf("%s (-by W&B +by netstate)\n%s", name, diff)
		}
	}
	set := func(value any) any { // netstate gives each hotkey once, by hotkey of the validator
		all := value.([]any)
		slices.SortFunc(all, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
		return slices.Compact(all)
	}
	sorted := func(all []string, err error) ([]string, error) {
		slices.Sort(all)
		return all, err
	}
	mine, err := sorted(reader.AllocatedHotkeys(ctx, netstate.Select{}))
	same("allocated", set(v1.ask("get_allocated_hotkeys", []any{}, false)), mine, err)
	mine, err = sorted(reader.PenalizedHotkeys(ctx, netstate.Select{}))
	same("penalized", set(v1.ask("get_penalized_hotkeys", []any{}, false)), mine, err)
	mine, err = sorted(reader.PenalizedHotkeysChecklist(ctx, netstate.Select{}))
	same("checklist", set(v1.ask("get_penalized_hotkeys_checklist", []any{}, false)), mine, err)
	found, err := reader.MinerSpecs(ctx, map[int]string{5: m1.hotkey, 6: m2.hotkey})
	specs := map[string]any{}
	for uid, one := range found {
		specs[fmt.Sprint(uid)] = []any{one.Hotkey, one.Specs}
	}
	same("specs", v1.ask("get_miner_specs", map[string]any{"5": m1.hotkey, "6": m2.hotkey}), specs, err)
	// uid 8 is a tie: the program takes the older run, netstate the hotkey that sorts first.
	stats, err := reader.StatsAllocated(ctx, netstate.Select{OwnScoreOnly: true})
	theirs := v1.ask("get_stats_allocated", []any{}, false).(map[string]any)
	if _, is := stats[8]; !is || theirs["8"] == nil {
		t.Errorf("nobody answers for uid 8: %v, %v", stats, theirs)
	}
	delete(stats, 8)
	delete(theirs, "8")
	same("stats", theirs, stats, err)
}

// sameOnThePage compares what the Network page shows of either project.
func (s *subnet) sameOnThePage(t *testing.T, validators []*participant) {
	type page struct {
		Validators []struct {
			Hotkey, Verdict string
			Counted         bool
			Version         *int
			Scores          []any
		}
		Miners []struct {
			UID       *int
			Hotkey    string
			RunID     string `json:"run_id"`
			Allocated string
			PortOpen  *bool `json:"port_open"`
		}
	}
	read := func(project string) (p page) {
		for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Second) { // it looks every 10 s
			p = page{}
			s.client.Get(t, "/api/v1/projects/"+subnetEntity+"/"+project+"/network", url.Values{"netuid": {"27"}}, &p)
			if len(p.Validators) >= len(validators) || time.Now().After(deadline) {
				return p
			}
		}
	}
	theirs, mine := read(subnetProject), read(ours)
	// By hotkey: what a validator says of each uid, and a miner of itself.
	rows := func(p page, verdict string, counted bool) map[string]any {
		out := map[string]any{}
		for _, v := range p.Validators {
			if v.Verdict != verdict || v.Counted != counted {
				t.Errorf("the page says of %s: %s, counted %v; want %s, %v", v.Hotkey, v.Verdict, v.Counted, verdict, counted)
			}
			said := map[int]any{}
			for i, m := range p.Miners {
				if m.UID != nil && v.Scores[i] != nil {
					said[*m.UID] = fmt.Sprint(v.Scores[i])
				}
			}
			out[v.Hotkey] = []any{said, v.Version}
		}
		for _, m := range p.Miners {
			if m.RunID != "" {
				out[m.Hotkey] = []any{m.Allocated, m.PortOpen}
			}
		}
		return out
	}
	if diff := cmp.Diff(rows(theirs, "legacy", false), rows(mine, "verified", true)); diff != "" || len(mine.Validators) != len(validators) || len(mine.Miners) < 6 {
		t.Errorf("the page (-by W&B +by netstate)\n%s", diff)
	}
}
