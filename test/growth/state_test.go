package growth

import (
	"crypto/rand"
	"strconv"
	"time"

	"github.com/kymogram/kymogram/internal/state"
	"github.com/kymogram/kymogram/internal/wallet"
)

// signer is a run of w/p that signs records.
type signer struct {
	l        *lab
	id, name string
	role     string
	key      *wallet.Key
	sequence uint64
	previous state.Hash
}

func (l *lab) signer(name, role string) *signer {
	l.t.Helper()
	var seed [32]byte
	_, _ = rand.Read(seed[:]) // never fails, see crypto/rand
	key, err := wallet.NewKey(seed)
	if err != nil {
		l.t.Fatal(err)
	}
	return &signer{l: l, id: l.open(name), name: name, role: role, key: key}
}

// seal signs the next record.
func (s *signer) seal(payload []byte) *state.Envelope {
	s.l.t.Helper()
	s.sequence++
	now := uint64(time.Now().UnixMilli())
	e, err := state.Seal(state.Record{
		Place:    state.Place{Netuid: 27, Role: s.role, Workspace: "w", Project: "p", Run: s.name},
		Sequence: s.sequence, Previous: s.previous, TimeMs: now, ExpiresMs: now + 3_600_000, PayloadType: state.ConfigPayload,
	}, payload, s.key)
	if err != nil {
		s.l.t.Fatal(err)
	}
	s.previous = e.Hash()
	return e
}

func (s *signer) say(payload []byte) {
	s.l.t.Helper()
	s.l.ok("POST", "/api/v1/runs/"+s.id+"/state", document(s.seal(payload)))
}

// stats is a validator's report on so many miners.
func stats(miners int) []byte {
	out := map[string]any{}
	for uid := range miners {
		out[strconv.Itoa(uid)] = map[string]any{"hotkey": wallet.Account{byte(uid), byte(uid >> 8)}.String(), "score": uid % 101, "own_score": true, "allocated": true, "gpu_specs": map[string]any{"gpu_name": "H100", "num_gpus": 8}}
	}
	return document(map[string]any{"version": 183, "stats": out})
}

// speakers are validators that report on so many miners.
func speakers(validators, miners int) func(l *lab) string {
	return func(l *lab) string {
		l.t.Helper()
		for i := range validators {
			l.signer(text(i, "v-%d"), state.Validator).say(stats(miners))
		}
		return ""
	}
}

// ofRecords is one run with so many records.
func ofRecords(l *lab, n int) string {
	l.t.Helper()
	s := l.signer("r", state.Validator)
	for range n {
		s.say(stats(1))
	}
	return s.id
}

const projectPath = "/api/v1/projects/{workspace}/{project}"

func stateRoutes() []row[*lab] {
	byRuns := func(l *lab, n int) string { return speakers(n, 1)(l) }
	size := func(path string) func(*lab, int) func() { return reads(path, ofRecords) }
	grown := func(l *lab, n int) string { // with a tree of all records
		id := ofRecords(l, n)
		l.ok("GET", "/api/v1/projects/w/p/log/head", nil)
		return id
	}
	return []row[*lab]{
		{call: "GET " + projectPath + "/network", grows: "validators", n: 20, run: reads("/api/v1/projects/w/p/network", func(l *lab, n int) string { return speakers(n, 50)(l) })},
		{call: "GET " + projectPath + "/network", grows: "miners", n: 100, run: reads("/api/v1/projects/w/p/network", func(l *lab, n int) string { return speakers(4, n)(l) })},
		{call: "GET " + projectPath + "/network", grows: "records of a run", n: 50, run: size("/api/v1/projects/w/p/network")},
		{call: "GET " + projectPath + "/state", grows: "runs", n: 20, run: reads("/api/v1/projects/w/p/state", byRuns)},
		{call: "GET /api/v1/runs/{id}/state", grows: "records of the run", n: 50, run: size("/api/v1/runs/RUN/state")},
		{call: "GET /api/v1/runs/{id}/state/history", grows: "records of the run", n: 50, run: size("/api/v1/runs/RUN/state/history")},
		{call: "POST /api/v1/runs/{id}/state", grows: "bytes of the payload", n: 1_500, run: func(l *lab, n int) func() {
			s := l.signer("r", state.Validator)
			return func() { s.say(stats(n / 2)) }
		}},
		{call: "GET " + projectPath + "/log/head", grows: "records", n: 50, run: size("/api/v1/projects/w/p/log/head")},
		{call: "GET " + projectPath + "/log/proof", grows: "records", n: 50, run: reads("/api/v1/projects/w/p/log/proof?index=0&size=SIZE", grown)},
		{call: "GET " + projectPath + "/log/leaves", grows: "records", n: 50, run: reads("/api/v1/projects/w/p/log/leaves?from=0&size=SIZE&limit=50", grown)},
		{call: "GET " + projectPath + "/log/consistency", grows: "records", n: 50, run: reads("/api/v1/projects/w/p/log/consistency?from=1&to=SIZE", grown)},
		{call: "POST " + projectPath + "/log/witness", grows: "records", n: 50, run: func(l *lab, n int) func() {
			ofRecords(l, n)
			body := document(map[string]any{"size": n, "hotkey": "5C", "signature": "00"})
			return func() { l.any("POST", "/api/v1/projects/w/p/log/witness", body, nil) }
		}},
	}
}
