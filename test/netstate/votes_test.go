package netstate_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kymogram/kymogram/internal/state"
	"github.com/kymogram/kymogram/netstate"
)

// request sends JSON past the proxy, as a program of another language would.
func (n *network) request(method, path string, body, answer any) {
	n.Helper()
	raw, err := json.Marshal(body)
	n.must(err)
	r, err := http.NewRequestWithContext(n.Context(), method, n.server.Address+path, bytes.NewReader(raw))
	n.must(err)
	r.Header.Set("Content-Type", "application/json")
	got, err := http.DefaultClient.Do(r)
	n.must(err)
	defer got.Body.Close()
	raw, err = io.ReadAll(got.Body)
	n.must(err)
	if got.StatusCode >= 300 {
		n.Fatalf("%s %s: %s", method, path, raw)
	}
	n.must(json.Unmarshal(raw, answer))
}

// say publishes a validator's config section letter by letter.
func (n *network) say(name, payload string) {
	n.Helper()
	n.sayFor(time.Hour, name, payload)
}

// sayFor says it for a while.
func (n *network) sayFor(life time.Duration, name, payload string) {
	n.Helper()
	var opened struct{ Run string }
	run := "run-" + name
	n.request(http.MethodPost, "/api/v1/open", map[string]any{
		"writer": fmt.Sprintf("%032x", name)[:32], "workspace": netstate.PublicWandbEntity, "project": netstate.PublicWandbName, "run_name": run, "resume_strategy": "allow",
	}, &opened)
	now := uint64(time.Now().UnixMilli())
	e, err := state.Seal(state.Record{
		Place:    state.Place{Netuid: netuid, Role: state.Validator, Workspace: netstate.PublicWandbEntity, Project: netstate.PublicWandbName, Run: run},
		Sequence: now, TimeMs: now, ExpiresMs: now + uint64(life.Milliseconds()), PayloadType: state.ConfigPayload,
	}, []byte(payload), seedWallet(n, name))
	n.must(err)
	n.request(http.MethodPost, "/api/v1/runs/"+opened.Run+"/state", e, &struct{}{})
}

// naive runs the plain program of package netstate's tests.
func naive(t *testing.T, payloads, addresses []string) (out map[string]any) {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3 for the second implementation")
	}
	weights := slices.Repeat([]float64{1}, len(payloads))
	cmd := exec.CommandContext(t.Context(), python, "../../netstate/testdata/naive.py")
	cmd.Stdin = strings.NewReader(text(t, map[string]any{"own_score_only": false, "weights": weights, "payloads": payloads, "addresses": addresses}) + "\n")
	raw, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// One network with hostile carriers of each kind: the page's winner of each miner is
// the reader's, and that of a program that knows neither.
func TestPageAndReaderHaveTheSameWinners(t *testing.T) {
	n := newNetwork(t)
	m := func(uid int) string { return hotkey(t, fmt.Sprint("miner", uid)) }
	report := func(uid int, changes string) string {
		fields := map[string]json.RawMessage{}
		n.must(json.Unmarshal(fmt.Appendf(nil, `{"uid":%d,"hotkey":"%s","gpu_specs":{"gpu_name":"H100","num_gpus":1},"score":50,"own_score":true,"allocated":true,
			"reliability_score":0.75,"created_at":"2026-11-22 10:00:00"}`, uid, m(uid)), &fields))
		n.must(json.Unmarshal([]byte("{"+strings.TrimPrefix(changes, ",")+"}"), &fields))
		return fmt.Sprintf(`"%d":%s`, uid, text(t, fields))
	}
	all := func(changes ...string) string {
		var out []string
		for uid := range 12 {
			out = append(out, report(uid, strings.Join(changes, "")))
		}
		return `{"role":"validator","stats":{` + strings.Join(out, ",") + `}}`
	}
	long := strings.Repeat("G", 70)
	said := map[string]string{
		"honest1": all(), "honest2": all(), "honest3": all(),
		"copies":     all(`,"created_at":"1970-01-01 00:00:00"`),
		"unreliable": all(`,"reliability_score":-7`),
		"swaps":      all(`,"hotkey":"` + hotkey(t, "swaps-own") + `"`),
		"float":      all(`,"gpu_specs":{"gpu_name":"H100","num_gpus":1.0},"uid":null`),
		"long1":      `{"stats":{` + report(20, `,"gpu_specs":{"gpu_name":"`+long+`1","num_gpus":8}`) + `,` + report(21, `,"reliability_score":-7`) + `}}`,
		"long2":      `{"stats":{` + report(20, `,"gpu_specs":{"gpu_name":"`+long+`2","num_gpus":8}`) + `,` + report(21, ``) + `}}`,
		"wrong": `{"stats":{` + strings.Join([]string{
			report(30, `,"score":1e308`), report(31, `,"score":-5`), report(32, `,"score":101`), report(33, `,"hotkey":""`),
			report(34, `,"hotkey":"`+m(34)[:47]+`x"`), report(35, `,"uid":36`), report(37, `,"own_score":1`), `"038":{"score":1}`,
			report(39, `,"gpu_specs":[1]`), report(40, `,"score":100`), report(41, `,"gpu_specs":{"gpu_name":"H100","num_gpus":-3}`),
		}, ",") + `}}`,
	}
	var hotkeys, payloads []string
	byHotkey := map[string]string{}
	for name, payload := range said {
		n.say(name, payload)
		hotkeys = append(hotkeys, hotkey(t, name))
		byHotkey[hotkey(t, name)] = payload
	}
	slices.Sort(hotkeys) // of equals the first by hotkey wins
	for _, key := range hotkeys {
		payloads = append(payloads, byHotkey[key])
	}
	addresses := []string{hotkey(t, "swaps-own")}
	for uid := range 50 {
		addresses = append(addresses, m(uid))
	}
	want := naive(t, payloads, addresses)

	reader := n.join("reader", netstate.Miner, nil)
	stats, err := reader.StatsAllocated(t.Context(), netstate.Select{})
	n.must(err)
	read := map[string]any{}
	for uid, s := range stats {
		read[strconv.Itoa(uid)] = []any{gpuOf(s.GPU)[0], gpuOf(s.GPU)[1], s.Score, s.Hotkey, s.Reliability, s.CreatedAt, s.Allocated}
	}
	if diff := cmp.Diff(want, read); diff != "" || len(read) != 15 {
		t.Errorf("the reader (-naive +reader)\n%s", diff)
	}
	var doc struct {
		GPUs   [][2]any
		Miners []struct {
			UID    int
			Result *struct {
				Hotkey      string
				Score       float64
				GPU         int
				Reliability float64 `json:"reliability_score"`
				CreatedAt   string  `json:"created_at"`
			}
		}
		Validators []struct {
			Hotkey string
			Notes  []string
		}
		Findings []struct{ Kind, Hotkey, Text string }
	}
	n.request(http.MethodGet, "/api/v1/projects/neuralinternet/opencompute/network", nil, &doc)
	drawn := map[string]any{}
	for _, m := range doc.Miners {
		if r := m.Result; r != nil {
			gpu := [2]any{nil, nil}
			if r.GPU >= 0 {
				gpu = doc.GPUs[r.GPU]
			}
			drawn[strconv.Itoa(m.UID)] = []any{gpu[0], gpu[1], r.Score, r.Hotkey, r.Reliability, r.CreatedAt, true}
		}
	}
	if diff := cmp.Diff(want, drawn); diff != "" {
		t.Errorf("the page (-naive +page)\n%s", diff)
	}
	// What does not count is said: on the page, and to the reader.
	for _, v := range doc.Validators {
		if note := strings.Join(v.Notes, ";"); strings.Contains(note, "10 of its reports have a wrong form") != (v.Hotkey == hotkey(t, "wrong")) {
			t.Errorf("%s: %q", v.Hotkey, note)
		}
	}
	verdicts, err := reader.Verdicts(t.Context())
	n.must(err)
	for _, v := range verdicts {
		if strings.Contains(v.Reason, "10 of its reports have a wrong form") != (v.Run == "run-wrong") {
			t.Errorf("%+v", v)
		}
	}
	named := 0
	for _, f := range doc.Findings {
		if f.Kind == "other_hotkey" {
			named++
			if f.Hotkey != hotkey(t, "swaps") || !strings.Contains(f.Text, "12 miners") || !strings.Contains(f.Text, hotkey(t, "swaps-own")) {
				t.Errorf("%+v", f)
			}
		}
	}
	if named != 1 {
		t.Errorf("%d findings of another hotkey in %+v", named, doc.Findings)
	}
}

func gpuOf(g *netstate.GPU) [2]any {
	if g == nil {
		return [2]any{}
	}
	return [2]any{g.Name, float64(g.Count)}
}
