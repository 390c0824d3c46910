package netstate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kymogram/kymogram/internal/state"
	"github.com/kymogram/kymogram/internal/wallet"
)

type naiveCase struct {
	OwnScoreOnly bool      `json:"own_score_only"`
	Addresses    []string  `json:"addresses"` // the only ones whose checksum holds
	Weights      []float64 `json:"weights"`
	Payloads     []string  `json:"payloads"`
}

// hostile draws config sections, most of them right in most parts, as JSON text:
// what no encoder of ours would write is among them.
type hostile struct{ *rand.Rand }

func (h hostile) of(choices ...string) string { return choices[h.IntN(len(choices))] }

// mostly is the first choice fifteen times of sixteen.
func (h hostile) mostly(usual string, odd ...string) string {
	if h.IntN(16) > 0 {
		return usual
	}
	return h.of(odd...)
}

func (h hostile) specs() string {
	specs := fmt.Sprintf(`{"gpu_name": "%s", "num_gpus": %d}`, h.of("A", "B", "ü"), h.IntN(2)+1)
	return h.mostly(specs, "null", `"H100"`, "[]", "{}", `{"gpu_name": null, "num_gpus": 1}`, `{"gpu_name": "A", "num_gpus": 1.0}`,
		`{"gpu_name": "A", "num_gpus": 99999999999999999999}`, `{"gpu_name": "A", "num_gpus": 1.5}`, `{"gpu_name": "A", "num_gpus": -1}`,
		`{"gpu_name": "", "num_gpus": 1}`, `{"gpu_name": "`+strings.Repeat("A", 129)+`", "num_gpus": 1}`, `{"gpu_name": "A", "num_gpus": "x", "num_gpus": 2}`, `{"gpu_name": "A", "num_gpus": true}`, `{"Gpu_Name": "A", "num_gpus": 1}`)
}

func (h hostile) entry(uid, hotkey string) string {
	parts := []string{
		`"score": ` + h.mostly(h.of("1", "2", "2.0", "2.5", "100"), "0", "-0.0", "-1", "100.0001", "101", "1e400", "1e308", "true", `"5"`, "null", strings.Repeat("9", 400)),
		`"hotkey": "` + hotkey + `"`,
		`"` + h.mostly("own_score", "Own_score", "own_\\u0455core", "own_score ") + `": ` + h.mostly("true", "false", "1", "null", `"true"`),
		`"` + h.mostly("allocated", "ALLOCATED") + `": ` + h.mostly("true", "false", "1"),
		`"reliability_score": ` + h.mostly(h.of("1", "-7", "0.5", "3"), "null", `"x"`),
		`"created_at": ` + h.mostly(h.of(`"2026-01-01"`, `"2026-01-02"`, `""`), "null", "5", `"`+strings.Repeat("9", 65)+`"`),
	}
	if h.IntN(3) == 0 {
		parts = append(parts, `"uid": `+h.of(uid, uid+".0", uid+"e0", "7", `"`+uid+`"`, "null"))
	}
	if h.IntN(8) > 0 {
		parts = append(parts, `"gpu_specs": `+h.specs())
	}
	if h.IntN(8) == 0 {
		parts = append(parts, `"score": 7`) // twice: the last counts
	}
	return h.mostly("{"+strings.Join(parts, ", ")+"}", "null", "[1]", `"x"`, "{}", "{"+strings.Join(parts, ", ")+"}")
}

func addressOf(n byte) string { return wallet.Account{n}.String() }

func (h hostile) payload(voter int) string {
	var entries []string
	for range h.IntN(5) {
		number := strconv.Itoa(h.IntN(3))
		uid := h.mostly(number, "01", "+1", " 1", "-1", "65536", "1.0", "٤", "", "1e0", "65535")
		entries = append(entries, `"`+uid+`": `+h.entry(number, h.mostly(addressOf(1), addressOf(2), "", addressOf(1)[:40], "5miner", addressOf(byte(10+voter)))))
	}
	stats := h.mostly("{"+strings.Join(entries, ", ")+"}", "null", "[]", "3")
	whole := `{"role": "validator", "stats": ` + stats + "}"
	return h.mostly(whole, whole, whole, "[]", "null", "{", `{"Stats": `+stats+"}", `{"stats": NaN}`, whole+"x")
}

// naive asks the plain program, once for all cases.
func naive(t *testing.T, cases []naiveCase) (out []map[string]any) {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3 for the second implementation")
	}
	var in bytes.Buffer
	for _, c := range cases {
		for n := range byte(20) {
			c.Addresses = append(c.Addresses, addressOf(n))
		}
		if err := json.NewEncoder(&in).Encode(c); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), python, "testdata/naive.py")
	cmd.Stdin = &in
	var said strings.Builder
	cmd.Stderr = &said
	text, err := cmd.Output()
	if err != nil {
		t.Fatalf("naive.py: %v\n%s", err, said.String())
	}
	for d := json.NewDecoder(bytes.NewReader(text)); d.More(); {
		var one map[string]any
		if err := d.Decode(&one); err != nil {
			t.Fatal(err)
		}
		out = append(out, one)
	}
	if len(out) != len(cases) {
		t.Fatalf("%d answers for %d cases", len(out), len(cases))
	}
	return out
}

// ballots are those of a case; a payload stands for the record that covers it.
func (c *naiveCase) ballots() (out []ballot) {
	for i, payload := range c.Payloads {
		out = append(out, ballot{&seen{hash: state.HashOf([]byte(payload)), config: readConfig([]byte(payload))}, c.Weights[i]})
	}
	return out
}

// listed are stats in the form of the plain program.
func listed(stats Stats) map[string]any {
	out := map[string]any{}
	for uid, s := range stats {
		one := []any{nil, nil, s.Score, s.Hotkey, s.Reliability, s.CreatedAt, s.Allocated}
		if s.GPU != nil {
			one[0], one[1] = s.GPU.Name, float64(s.GPU.Count)
		}
		out[strconv.Itoa(uid)] = one
	}
	return out
}

// Whatever strangers write, Go and a naive program in Python agree on who won.
func TestStatsAllocatedIsWhatANaiveProgramSays(t *testing.T) {
	h := hostile{rand.New(rand.NewPCG(2, 2))}
	var cases []naiveCase
	var got []map[string]any
	var kept totals
	empty := 0
	for range 3000 {
		c := naiveCase{OwnScoreOnly: h.IntN(2) == 0, Payloads: []string{}, Weights: []float64{}}
		byStake := h.IntN(3) == 0
		for v := range h.IntN(6) {
			weight := 1.0
			if byStake {
				weight = float64(h.IntN(4))
			}
			c.Payloads, c.Weights = append(c.Payloads, h.payload(v)), append(c.Weights, weight)
		}
		won := listed(kept.of(c.ballots(), c.OwnScoreOnly))
		if len(won) == 0 {
			empty++
		}
		cases, got = append(cases, c), append(got, won)
	}
	if empty > len(got)*2/3 {
		t.Fatalf("%d of %d cases are without a winner", empty, len(got))
	}
	for i, want := range naive(t, cases) {
		if diff := cmp.Diff(want, got[i]); diff != "" {
			t.Fatalf("case %d (-naive +got)\n%s\n%+v", i, diff, cases[i])
		}
	}
}

// Each thing that a result follows from changes alone, and the result follows: one
// payload, one weight, the rule, who votes, in which order. What did not change is not
// counted again, and is nobody's to change.
func TestAKeptTotalIsThatOfNow(t *testing.T) {
	entry := func(hotkey byte, score int, more string) string {
		return fmt.Sprintf(`{"stats": {"1": {"hotkey": "%s", "score": %d, "own_score": true, "gpu_specs": {"gpu_name": "A", "num_gpus": 1}%s}}}`, addressOf(hotkey), score, more)
	}
	base := naiveCase{
		OwnScoreOnly: true,
		Payloads:     []string{entry(1, 10, `, "allocated": true`), entry(2, 20, ``), entry(3, 20, `, "allocated": true`), entry(4, 20, `, "allocated": true`)},
		Weights:      []float64{1, 1, 1, 1},
	}
	changes := map[string]func(c *naiveCase){
		"a payload": func(c *naiveCase) { c.Payloads[1] = entry(2, 30, ``) }, "a weight": func(c *naiveCase) { c.Weights[0] = 7 },
		"the rule": func(c *naiveCase) { c.OwnScoreOnly = false }, "a voter less": func(c *naiveCase) { c.Payloads, c.Weights = c.Payloads[2:], c.Weights[2:] },
		"a voter more": func(c *naiveCase) { c.Payloads, c.Weights = append(c.Payloads, entry(5, 40, ``)), append(c.Weights, 1) },
		"the order":    func(c *naiveCase) { slices.Reverse(c.Payloads) }, "weights change places": func(c *naiveCase) { c.Weights[0], c.Weights[3] = 0, 2 },
	}
	var kept totals
	var cases []naiveCase
	var got []map[string]any
	for _, what := range slices.Sorted(maps.Keys(changes)) {
		changed := naiveCase{base.OwnScoreOnly, nil, slices.Clone(base.Weights), slices.Clone(base.Payloads)}
		changes[what](&changed)
		for _, c := range []naiveCase{base, changed, base} {
			for range 2 {
				before := len(kept.kept)
				first := kept.of(c.ballots(), c.OwnScoreOnly)
				cases, got = append(cases, c), append(got, listed(first))
				if len(cases) > 1 && len(kept.kept) != before && cmp.Equal(cases[len(cases)-2], c) {
					t.Errorf("%s: counted again", what)
				}
				*first[1].GPU = GPU{Name: "changed by its caller", Count: 7}
			}
		}
		if n := len(got); cmp.Equal(got[n-6], got[n-4]) {
			t.Errorf("%s changes nothing", what)
		}
	}
	for i, want := range naive(t, cases) {
		if diff := cmp.Diff(want, got[i]); diff != "" {
			t.Errorf("case %d (-naive +got)\n%s\n%+v", i, diff, cases[i])
		}
	}
}
