package netstate_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kymogram/kymogram/netstate"
)

// dump reads tables as the subnet's programs do, with Python's sqlite3.
const dump = `import json, sqlite3, sys
db = sqlite3.connect(sys.argv[1])
queries = {
    "miner": "SELECT uid, ss58_address FROM miner ORDER BY uid",
    "miner_details": "SELECT hotkey, details, no_specs_count FROM miner_details ORDER BY hotkey",
    "challenge_details": "SELECT uid, ss58_address, success, elapsed_time, difficulty, created_at FROM challenge_details ORDER BY rowid",
    "allocation": "SELECT hotkey, details FROM allocation ORDER BY hotkey",
    "blacklist": "SELECT hotkey, details FROM blacklist ORDER BY hotkey",
    "wandb_runs": "SELECT hotkey, run_id FROM wandb_runs ORDER BY hotkey",
    "pog_stats": "SELECT hotkey, gpu_name, num_gpus, created_at FROM pog_stats ORDER BY id",
    "stats": "SELECT uid, hotkey, gpu_specs, score, allocated, own_score, reliability_score, created_at FROM stats ORDER BY uid",
    "tb": "SELECT id, hotkey, details FROM tb",
    "indexes": "SELECT name FROM sqlite_master WHERE type = 'index' AND name LIKE 'idx%' ORDER BY name",
}
print(json.dumps({name: db.execute(query).fetchall() for name, query in queries.items()}))`

func dumped(t *testing.T, path string) (out map[string][][]any) {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3 to read the file with")
	}
	text, err := exec.CommandContext(t.Context(), python, "-c", dump, path).Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// Every table of the specification, as Python's sqlite3 finds it.
func TestTablesAsTheSubnetReadsThem(t *testing.T) {
	path := filepath.Join(t.TempDir(), "database.db")
	db, ctx := openDb(t, path), t.Context()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(db.AddChallenges(ctx, netstate.Challenge{UID: 3, Hotkey: "a", Success: true, Elapsed: 1500 * time.Millisecond, Difficulty: 6, At: at},
		netstate.Challenge{UID: 4, Hotkey: "b", Elapsed: time.Second, Difficulty: 7, At: at}))
	must(db.SaveMiner(ctx, 3, "c")) // a registered in place of c
	must(db.SaveMiner(ctx, 5, "b")) // b moved
	must(db.SaveMinerDetails(ctx, "a", map[string]any{"ü": 1}))
	for range 3 {
		must(db.SaveMinerDetails(ctx, "a", nil))
	}
	must(db.SaveMinerDetails(ctx, "b", map[string]any{"x": 1}))
	for range 9 {
		must(db.SaveMinerDetails(ctx, "b", nil))
	}
	must(db.Allocate(ctx, "a", map[string]any{"port": 1}))
	must(db.Allocate(ctx, "a", map[string]any{"port": 2}))
	must(db.Allocate(ctx, "b", nil))
	must(db.Deallocate(ctx, "b"))
	must(db.Penalize(ctx, "p", "why"))
	must(db.Penalize(ctx, "q", nil))
	must(db.Pardon(ctx, "q"))
	for _, id := range []string{"first", "second"} {
		if kept, err := db.SaveRunID(ctx, "a", id); err != nil || kept != "first" {
			t.Errorf("%q, %v", kept, err)
		}
	}
	for i := range 6 {
		must(db.AddPoG(ctx, "a", netstate.GPU{Name: "g", Count: i}, at))
	}
	must(db.WriteStats(ctx, netstate.Stats{3: {Hotkey: "a", GPU: &netstate.GPU{Name: "H100", Count: 8}, Score: 1.5, OwnScore: true, CreatedAt: "2026-01-01 00:00:00"}}))
	must(db.WriteStats(ctx, netstate.Stats{3: {Hotkey: "c", Score: 2, Allocated: true, Reliability: 0.5, CreatedAt: "2026-01-01 00:00:01"}}))
	const stamp = "2026-01-02 03:04:05"
	want := map[string][][]any{
		"miner":             {{3.0, "c"}, {5.0, "b"}},
		"miner_details":     {{"a", `{"ü":1}`, 3.0}, {"b", "{}", 5.0}},
		"challenge_details": {{3.0, "a", 1.0, 1.5, 6.0, stamp}, {4.0, "b", 0.0, 1.0, 7.0, stamp}},
		"allocation":        {{"a", `{"port":2}`}},
		"blacklist":         {{"p", `"why"`}},
		"wandb_runs":        {{"a", "first"}},
		"pog_stats":         {{"a", "g", 2.0, stamp}, {"a", "g", 3.0, stamp}, {"a", "g", 4.0, stamp}, {"a", "g", 5.0, stamp}},
		"stats":             {{3.0, "c", "null", 2.0, 1.0, 0.0, 0.5, "2026-01-01 00:00:01"}},
		"tb":                {},
		"indexes":           {{"idx_ss58_address"}, {"idx_uid"}},
	}
	if diff := cmp.Diff(want, dumped(t, path)); diff != "" {
		t.Errorf("(-want +python)\n%s", diff)
	}
	if all, won, err := db.Challenges(ctx, "a"); err != nil || all != 1 || won != 1 {
		t.Errorf("%d of %d, %v", won, all, err)
	}
}

// Random calls, and a model of maps beside them.
func TestTablesAgainstAModel(t *testing.T) {
	path := filepath.Join(t.TempDir(), "database.db")
	db, ctx, random := openDb(t, path), t.Context(), rand.New(rand.NewPCG(3, 3))
	lists := map[string]map[string]string{"allocation": {}, "blacklist": {}}
	miners, misses, details := map[int]string{}, map[string]int{}, map[string]string{}
	for step := range 400 {
		hotkey, uid := fmt.Sprint("hotkey", random.IntN(6)), random.IntN(6)
		var err error
		switch random.IntN(8) {
		case 0:
			err, lists["allocation"][hotkey] = db.Allocate(ctx, hotkey, step), fmt.Sprint(step)
		case 1:
			err = db.Deallocate(ctx, hotkey)
			delete(lists["allocation"], hotkey)
		case 2:
			err, lists["blacklist"][hotkey] = db.Penalize(ctx, hotkey, step), fmt.Sprint(step)
		case 3:
			err = db.Pardon(ctx, hotkey)
			delete(lists["blacklist"], hotkey)
		case 4:
			err = db.SaveMiner(ctx, uid, hotkey)
			for other, who := range miners {
				if who == hotkey {
					delete(miners, other)
				}
			}
			miners[uid] = hotkey
		case 5:
			err = db.SaveMinerDetails(ctx, hotkey, step)
			misses[hotkey], details[hotkey] = 0, fmt.Sprint(step)
		default:
			err = db.SaveMinerDetails(ctx, hotkey, nil)
			if misses[hotkey] = min(misses[hotkey]+1, 5); misses[hotkey] == 5 || details[hotkey] == "" {
				details[hotkey] = "{}"
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	got := dumped(t, path)
	for name, want := range lists {
		if len(got[name]) != len(want) {
			t.Errorf("%s: %v, want %v", name, got[name], want)
		}
		for _, row := range got[name] {
			if want[row[0].(string)] != row[1] {
				t.Errorf("%s: %v, want %v", name, row, want)
			}
		}
	}
	if len(got["miner"]) != len(miners) || len(got["miner_details"]) != len(details) {
		t.Errorf("%v, want %v", got, miners)
	}
	for _, row := range got["miner"] {
		if miners[int(row[0].(float64))] != row[1] {
			t.Errorf("%v, want %v", row, miners)
		}
	}
	for _, row := range got["miner_details"] {
		if who := row[0].(string); details[who] != row[1] || float64(misses[who]) != row[2] {
			t.Errorf("%v, want %s after %d misses", row, details[who], misses[who])
		}
	}
	listed, err := db.Allocations(ctx)
	if err != nil || len(listed) != len(lists["allocation"]) {
		t.Errorf("%v, %v", listed, err)
	}
	penalized, err := db.Penalized(ctx)
	if err != nil || strings.Join(keys(penalized), ",") != strings.Join(keys(lists["blacklist"]), ",") {
		t.Errorf("%v, %v", penalized, err)
	}
}

func keys[T any](of map[string]T) []string { return slices.Sorted(maps.Keys(of)) }
