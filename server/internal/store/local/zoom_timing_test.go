package local_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wal"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/local"
)

// BenchmarkZooms asks for 1,000 buckets of ranges for which each level of summaries is
// just too coarse.
func BenchmarkZooms(b *testing.B) {
	const n = 10_000_000
	e, err := local.Open(b.Context(), local.Config{Dir: b.TempDir(), FS: hasty{wal.OS{}}})
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	run := model.RunID{1}
	if err := e.PutAttempt(b.Context(), run, model.Attempt{Number: 1}); err != nil {
		b.Fatal(err)
	}
	grow(b, e, run, n)
	random := rand.New(rand.NewPCG(1, 9))
	for _, width := range []int64{9_000_000, 7_000_000, 4_000_000, 1_000_000, 511_000, 250_000, 127_000, 63_000, 8_000} {
		b.Run(fmt.Sprint(width), func(b *testing.B) {
			cpu := cpuTime(b)
			for b.Loop() {
				from := random.Int64N(n - width)
				got, err := e.Buckets(b.Context(), store.BucketsRequest{Run: run, Axis: model.AxisStep, From: from, To: from + width - 1, N: 1000})
				if err != nil || len(got) < 400 {
					b.Fatal(len(got), err)
				}
			}
			b.ReportMetric(float64((cpuTime(b)-cpu).Microseconds())/float64(b.N)/1000, "cpu-ms/op")
		})
	}
}
