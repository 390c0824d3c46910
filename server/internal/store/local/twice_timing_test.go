package local_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wal"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/local"
)

// twiceSent is an engine with 2 M points of a series, sent so many times, in requests that
// are cut in another way each time.
func twiceSent(b *testing.B, rule model.Uniqueness, times int) *local.Engine {
	b.Helper()
	e, err := local.Open(b.Context(), local.Config{Dir: b.TempDir(), FS: hasty{wal.OS{}}})
	if err != nil {
		b.Fatal(err)
	}
	run := model.RunID{1}
	if err := e.PutAttempt(b.Context(), run, model.Attempt{Number: 1}); err != nil {
		b.Fatal(err)
	}
	const n = 2_000_000
	for each := range times {
		random := rand.New(rand.NewPCG(1, 9))
		request := 50_000 + 7_000*each
		for from := 0; from < n; from += request {
			g := model.RowGroup{Unique: rule, Axes: []model.AxisColumn{{Axis: model.AxisStep}}, Columns: []model.Column{{Series: model.NewSeriesKey("loss", "", nil), Kind: model.KindFloat}}}
			for i := from; i < min(from+request, n); i++ {
				g.Axes[0].Values = append(g.Axes[0].Values, int64(i))
				g.TimeNs = append(g.TimeNs, int64(i)*1e6)
				g.Columns[0].Floats = append(g.Columns[0].Floats, 2+0.1*random.NormFloat64())
			}
			if _, err := e.Append(b.Context(), &model.Batch{Run: run, Writer: model.WriterID{1}, Attempt: 1, Groups: []model.RowGroup{g}}); err != nil {
				b.Fatal(err)
			}
			if err := e.Flush(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	}
	return e
}

// BenchmarkTwiceSent reads points that were sent once and those that were sent twice, in
// the same rounds and before a merge: the ratios of their CPU.
func BenchmarkTwiceSent(b *testing.B) {
	for name, rule := range map[string]model.Uniqueness{"time": model.UniqueTime, "axes": model.UniqueAxes} {
		b.Run(name, func(b *testing.B) {
			var engines [2]*local.Engine
			for i := range engines {
				engines[i] = twiceSent(b, rule, i+1)
				defer engines[i].Close()
			}
			var took [4][2]time.Duration
			for b.Loop() {
				for i, e := range engines {
					e.Forget()
					for what, read := range reads2M(b, e) {
						cpu := cpuTime(b)
						read()
						took[what][i] += cpuTime(b) - cpu
					}
				}
			}
			for what, name := range []string{"first", "chart", "zoom", "page"} {
				b.ReportMetric(float64(took[what][1].Microseconds())/float64(b.N)/1000, name+"-ms")
				b.ReportMetric(float64(took[what][1])/float64(took[what][0]), name+"-ratio")
			}
		})
	}
}

func reads2M(b *testing.B, e *local.Engine) []func() {
	buckets := func(from, to int64) func() {
		return func() {
			got, err := e.Buckets(b.Context(), store.BucketsRequest{Run: model.RunID{1}, Axis: model.AxisStep, From: from, To: to, N: 1000})
			if err != nil || len(got) < 400 {
				b.Fatal(len(got), err)
			}
		}
	}
	page := func() {
		got, err := e.Scan(b.Context(), store.ScanRequest{Run: model.RunID{1}, Axis: model.AxisStep, From: 1_000_000, To: 2_000_000, Limit: 2000})
		if err != nil || len(got.TimeNs) != 2000 {
			b.Fatal(err)
		}
	}
	return []func(){buckets(0, 2_000_000), buckets(0, 2_000_000), buckets(700_000, 1_000_000), page}
}
