package netstate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os/exec"
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

// Whatever strangers write, Go and a naive program in Python agree on who won.
func TestStatsAllocatedIsWhatANaiveProgramSays(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3 for the second implementation")
	}
	h := hostile{rand.New(rand.NewPCG(2, 2))}
	var in bytes.Buffer
	var got []map[string]any
	var addresses []string
	for n := range byte(20) {
		addresses = append(addresses, addressOf(n))
	}
	empty := 0
	for range 3000 {
		c := naiveCase{Addresses: addresses, OwnScoreOnly: h.IntN(2) == 0, Payloads: []string{}, Weights: []float64{}}
		byStake := h.IntN(3) == 0
		var voters []*seen
		stakes := map[wallet.Account]float64{}
		for v := range h.IntN(6) {
			record := &state.Record{Place: state.Place{Hotkey: wallet.Account{byte(v)}}}
			payload, weight := h.payload(v), 1.0
			if byStake {
				weight = float64(h.IntN(4))
				stakes[record.Hotkey] = weight
			}
			c.Payloads, c.Weights = append(c.Payloads, payload), append(c.Weights, weight)
			voters = append(voters, &seen{record: record, config: readConfig([]byte(payload))})
		}
		line, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		in.Write(append(line, '\n'))
		won := map[string]any{}
		stats := aggregate(voters, Select{OwnScoreOnly: c.OwnScoreOnly, ByStake: byStake}, func(a wallet.Account) float64 { return stakes[a] })
		for uid, s := range stats {
			one := []any{nil, nil, s.Score, s.Hotkey, s.Reliability, s.CreatedAt, s.Allocated}
			if s.GPU != nil {
				one[0], one[1] = s.GPU.Name, float64(s.GPU.Count)
			}
			won[strconv.Itoa(uid)] = one
		}
		if len(won) == 0 {
			empty++
		}
		got = append(got, won)
	}
	cmd := exec.CommandContext(t.Context(), python, "testdata/naive.py")
	cmd.Stdin = bytes.NewReader(in.Bytes())
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("naive.py: %v\n%s", err, said.String())
	}
	lines, cases := strings.Split(strings.TrimSpace(string(out)), "\n"), strings.Split(in.String(), "\n")
	if len(lines) != len(got) || empty > len(got)*2/3 {
		t.Fatalf("%d answers for %d cases, %d without a winner", len(lines), len(got), empty)
	}
	for i, line := range lines {
		var want map[string]any
		if err := json.Unmarshal([]byte(line), &want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got[i]); diff != "" {
			t.Fatalf("case %d (-naive +got)\n%s\n%s", i, diff, cases[i])
		}
	}
}
