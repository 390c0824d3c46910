package local_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wal"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/local"
)

const twiceRows = 2_000_000

// sendMany sends 2 M points of a series in requests of so many rows.
func sendMany(b *testing.B, e *local.Engine, request int) {
	b.Helper()
	run := model.RunID{1}
	if err := e.PutAttempt(b.Context(), run, model.Attempt{Number: 1}); err != nil {
		b.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 9))
	for from := 0; from < twiceRows; from += request {
		g := model.RowGroup{Unique: model.UniqueTime, Axes: []model.AxisColumn{{Axis: model.AxisStep}}, Columns: []model.Column{{Series: model.NewSeriesKey("loss", "", nil), Kind: model.KindFloat}}}
		for i := from; i < min(from+request, twiceRows); i++ {
			g.Axes[0].Values = append(g.Axes[0].Values, int64(i))
			g.TimeNs = append(g.TimeNs, int64(i)*1e6)
			g.Columns[0].Floats = append(g.Columns[0].Floats, 2+0.1*random.NormFloat64())
		}
		if _, err := e.Append(b.Context(), &model.Batch{Run: run, Writer: model.WriterID{1}, Attempt: 1, Groups: []model.RowGroup{g}}); err != nil {
			b.Fatal(err)
		}
	}
}

// readsOf are a chart, a zoom and a page of these points.
func readsOf(b *testing.B, e *local.Engine) map[string]func() {
	const axis, unit = model.AxisTime, int64(1e6)
	buckets := func(from, to int64) func() {
		return func() {
			got, err := e.Buckets(b.Context(), store.BucketsRequest{Run: model.RunID{1}, Axis: axis, From: from * unit, To: to * unit, N: 1000})
			if err != nil || len(got) < 400 {
				b.Fatal(len(got), err)
			}
		}
	}
	page := func() {
		got, err := e.Scan(b.Context(), store.ScanRequest{Run: model.RunID{1}, Axis: axis, From: 1_000_000 * unit, To: twiceRows * unit, Limit: 2000})
		if err != nil || len(got.TimeNs) != 2000 {
			b.Fatal(err)
		}
	}
	return map[string]func(){"chart": buckets(0, twiceRows), "zoom": buckets(700_000, 1_000_000), "page": page}
}

// BenchmarkSentTwice sends 2 M points once, or twice, to an engine at work. It says how long
// it takes until 1.05 copies are left, and what reads take: at once, the first and the next ones
// after that, and after a restart.
func BenchmarkSentTwice(b *testing.B) {
	for times := 1; times <= 2; times++ {
		b.Run(fmt.Sprint(times), func(b *testing.B) {
			for b.Loop() {
				sendTo(b, times)
			}
		})
	}
}

func sendTo(b *testing.B, times int) {
	b.Helper()
	config := local.Config{Dir: b.TempDir(), FS: hasty{wal.OS{}}}
	e := must(local.Open(b.Context(), config))
	ctx, stop := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	for n := range times {
		if n > 0 {
			time.Sleep(5 * time.Second)
		}
		sendMany(b, e, 50_000+7_000*n)
	}
	sent := time.Now()
	reads := readsOf(b, e)
	reads["chart"]()
	b.ReportMetric(float64(time.Since(sent).Milliseconds()), "ms-live")
	for time.Since(sent) < time.Minute && e.Stats().Points > twiceRows*105/100 {
		time.Sleep(20 * time.Millisecond)
	}
	b.ReportMetric(time.Since(sent).Seconds(), "s-until-kept-once")
	time.Sleep(time.Until(sent.Add(40 * time.Second))) // what is left is due after 30 s
	b.ReportMetric(float64(e.Stats().Points)-twiceRows, "points-too-many")
	b.ReportMetric(float64(e.LiveBytes()), "B-kept")
	b.ReportMetric(float64(e.Stats().WrittenBytes)/float64(e.Stats().KeptBytes), "written/kept")
	report := func(when string) {
		e.Forget()
		for _, what := range []string{"chart", "again", "zoom", "page"} {
			cpu := cpuTime(b)
			reads[strings.Replace(what, "again", "chart", 1)]()
			b.ReportMetric(float64((cpuTime(b)-cpu).Microseconds())/1000, "ms-"+what+when)
		}
	}
	report("")
	stop()
	if err := errors.Join(<-done, e.Close()); err != nil {
		b.Fatal(err)
	}
	e = must(local.Open(b.Context(), config))
	reads = readsOf(b, e)
	report("-restarted")
	if err := e.Close(); err != nil {
		b.Fatal(err)
	}
}
