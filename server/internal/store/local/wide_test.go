package local_test

import (
	"fmt"
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wal"
	"github.com/kymogram/kymogram/server/internal/store/local"
)

// wideBatch is the first batch of a writer: a row of relative steps in so many
// columns, a group for each part of them.
func wideBatch(run model.RunID, w byte, columns, perGroup int) *model.Batch {
	b := &model.Batch{Run: run, Writer: model.WriterID{w}, Attempt: 1, First: 1, Last: 1}
	for from := 0; from < columns; from += perGroup {
		g := model.RowGroup{Axes: []model.AxisColumn{{Axis: model.AxisStep, Relative: true, Values: []int64{1}}}, TimeNs: []int64{int64(w)}, Seq: []uint64{1}}
		for i := from; i < min(from+perGroup, columns); i++ {
			g.Columns = append(g.Columns, model.Column{Series: model.NewSeriesKey(fmt.Sprintf("metric/%05d", i), "", nil), Kind: model.KindFloat, Floats: []float64{float64(i)}})
		}
		b.Groups = append(b.Groups, g)
	}
	return b
}

// TestSecondWriterOfAWideRun: the work for the first relative steps of a second
// writer grows with the columns, not with their square. Allocated bytes stand for
// it: whoever looks at a column makes its key.
func TestSecondWriterOfAWideRun(t *testing.T) {
	perColumn := func(columns, perGroup int) float64 {
		e := must(local.Open(t.Context(), local.Config{Dir: t.TempDir()}))
		defer e.Close()
		run := model.RunID{1}
		if err := e.PutAttempt(t.Context(), run, model.Attempt{Number: 1}); err != nil {
			t.Fatal(err)
		}
		must(e.Append(t.Context(), wideBatch(run, 1, columns, perGroup)))
		b := wideBatch(run, 2, columns, perGroup)
		before := allocated()
		must(e.Append(t.Context(), b))
		return float64(allocated()-before) / float64(columns)
	}
	for _, perGroup := range []int{1, 8000} {
		few, many := perColumn(500, perGroup), perColumn(8000, perGroup)
		t.Logf("%d columns a group: %.0f B a column of 500, %.0f of 8,000", perGroup, few, many)
		if many > 2*few {
			t.Errorf("%d columns a group: a column of 8,000 allocates %.0f B, one of 500 %.0f", perGroup, many, few)
		}
	}
}

// BenchmarkSecondWriter is the least time of that batch, a column: 8,000 columns
// cost at most twice of what 500 cost.
func BenchmarkSecondWriter(b *testing.B) {
	for _, columns := range []int{500, 2000, 8000} {
		b.Run(fmt.Sprint(columns), func(b *testing.B) {
			least := time.Duration(math.MaxInt64)
			for b.Loop() {
				e := must(local.Open(b.Context(), local.Config{Dir: b.TempDir(), FS: hasty{wal.OS{}}}))
				run := model.RunID{1}
				if err := e.PutAttempt(b.Context(), run, model.Attempt{Number: 1}); err != nil {
					b.Fatal(err)
				}
				must(e.Append(b.Context(), wideBatch(run, 1, columns, columns)))
				second := wideBatch(run, 2, columns, columns)
				began := time.Now()
				must(e.Append(b.Context(), second))
				least = min(least, time.Since(began))
				if err := e.Close(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(least.Nanoseconds())/float64(columns), "least-ns/column")
		})
	}
}

// allocated is what the process has allocated so far.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// must is for calls whose failure ends the test.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
