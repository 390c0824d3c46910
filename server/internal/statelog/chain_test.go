package statelog

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/state"
	"github.com/kymogram/kymogram/internal/wallet"
	"github.com/kymogram/kymogram/server/internal/catalog"
)

// equivocates adds a run with one record and n others with its sequence.
func equivocates(t *testing.T, l *Log, i, n int) (evidence []state.Hash) {
	t.Helper()
	key, err := wallet.NewKey([32]byte(bytes.Repeat([]byte{byte(i + 1)}, 32)))
	if err != nil {
		t.Fatal(err)
	}
	at := &catalog.Run{ID: model.RunID{byte(i + 1)}, Workspace: "lab", Project: "net", Name: fmt.Sprint("run", i)}
	for k := range n + 1 {
		e, err := state.Seal(state.Record{
			Place:    state.Place{Netuid: uint16(i % 2), Role: state.Validator, Workspace: "lab", Project: "net", Run: at.Name},
			Sequence: 1, TimeMs: uint64(time.Now().UnixMilli()), ExpiresMs: uint64(time.Now().Add(time.Hour).UnixMilli()), PayloadType: state.ConfigPayload,
		}, fmt.Append(nil, `{"n":`, k, `}`), key)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Put(t.Context(), at, e); k == 0 && err != nil {
			t.Fatal(err)
		}
		if k > 0 {
			evidence = append(evidence, e.Hash())
		}
	}
	return evidence
}

// A list hashes the evidence since the last link, however much there is, and what it says
// is the hash over all of it, wherever the list ends.
func TestEvidenceIsHashedOnce(t *testing.T) {
	l, err := Open(t.Context(), t.TempDir()+"/state.db", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	const runs = 20
	var want state.Hash
	ends := map[uint64]state.Hash{0: {}} // by the end of a list
	index, one := uint64(0), state.Hash{}
	end := func() state.Filter { return state.Filter{Since: index} }
	list := func(f state.Filter) *state.Page {
		p, err := l.List(context.Background(), "lab", "net", f)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	for i := range runs {
		index++
		ends[index] = want
		for _, h := range equivocates(t, l, i, MaxForks) {
			want = state.HashOf(append(want[:], h[:]...))
			index++
			ends[index] = want
			if i%2 == 1 {
				one = state.HashOf(append(one[:], h[:]...))
			}
		}
		if p := list(end()); p.Next != index || p.Chain != want {
			t.Fatalf("a list to %d has %s, and the evidence is %s to %d", p.Next, p.Chain, want, index)
		}
	}
	for since := range index {
		if p := list(state.Filter{Since: since, Limit: 1}); p.Chain != ends[p.Next] {
			t.Errorf("from %d to %d: %s", since, p.Next, p.Chain)
		}
	}
	netuid := uint16(1)
	if p := list(state.Filter{Since: index, Netuid: &netuid}); p.Chain != one {
		t.Errorf("of one subnet: %s", p.Chain)
	}
	few := testing.AllocsPerRun(20, func() { list(end()) })
	for i := range 2 {
		equivocates(t, l, runs+i, MaxForks)
	}
	index += 2 * (MaxForks + 1)
	list(end())
	if many := testing.AllocsPerRun(20, func() { list(end()) }); few > 1_000 || many > 1_000 {
		t.Errorf("a list of nothing beside %d pairs takes %.0f and %.0f pieces of memory", (runs+2)*MaxForks, few, many)
	}
}
