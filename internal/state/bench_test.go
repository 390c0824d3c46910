package state_test

import (
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/state"
	"github.com/kymogram/kymogram/internal/wallet"
)

// One record with a payload of 60 KB, 256 reports: form, hash and signature.
func BenchmarkOpen(b *testing.B) {
	key, err := wallet.NewKey([32]byte{1})
	if err != nil {
		b.Fatal(err)
	}
	now := time.Now()
	e, err := state.Seal(state.Record{
		Place: state.Place{Role: "validator", Workspace: "w", Project: "p", Run: "r"}, Sequence: 1, PayloadType: "config/v1",
		TimeMs: uint64(now.UnixMilli()), ExpiresMs: uint64(now.Add(time.Hour).UnixMilli()),
	}, make([]byte, 60_000), key)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := e.Open(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "verifications/s")
}
