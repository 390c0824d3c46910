package row_test

import (
	"fmt"
	"math"
	"syscall"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/receiver/wandb/row"
	"github.com/kymogram/kymogram/server/internal/store/local"
)

// shape is a run of keys × rows; of the keys, each row holds only so many.
type shape struct{ keys, rows, each int }

// write makes the run in batches, as a client that sends every few seconds, and flushes and
// merges as a server at work does.
func (s shape) write(b *testing.B) *rig {
	b.Helper()
	rig := newRig(b, local.Config{Dir: b.TempDir()})
	rig.attempt(b, 1, nil)
	batch := max(1, min(5_000, 500_000/s.each, s.rows*s.each/s.keys)) // all keys are used
	for from := 0; from < s.rows; from += batch {
		n := min(batch, s.rows-from)
		g := model.RowGroup{Axes: []model.AxisColumn{{Axis: model.AxisStep, Values: make([]int64, n)}}, TimeNs: make([]int64, n)}
		for i := range n {
			g.Axes[0].Values[i], g.TimeNs[i] = int64(from+i), 1_700_000_000_000_000_000+int64(from+i)*1_000_000
		}
		first := from / batch * s.each % s.keys
		for k := range s.each + 1 {
			name := "_runtime"
			if k > 0 {
				name = fmt.Sprintf("group/key%06d", (first+k-1)%s.keys)
			}
			c := model.Column{Series: model.NewSeriesKey(name, "", nil), Kind: model.KindFloat, Floats: make([]float64, n)}
			for i := range n {
				c.Floats[i] = math.Sin(float64(from+i)/1000) + float64(k)
			}
			g.Columns = append(g.Columns, c)
		}
		rig.append(b, 1, 1, g)
		if from/batch%20 == 19 {
			if err := rig.engine.Flush(b.Context()); err != nil {
				b.Fatal(err)
			}
			if err := rig.engine.Compact(b.Context(), false); err != nil {
				b.Fatal(err)
			}
		}
	}
	if err := rig.engine.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
	return rig
}

// cpu reports the time of the processor, which other work on the machine does not change.
func cpu(b *testing.B, read func()) {
	b.Helper()
	now := func() float64 {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return float64(u.Utime.Sec+u.Stime.Sec)*1e3 + float64(u.Utime.Usec+u.Stime.Usec)/1e3
	}
	read() // what is worked out once
	b.ReportAllocs()
	b.ResetTimer()
	before := now()
	for b.Loop() {
		read()
	}
	b.ReportMetric((now()-before)/float64(b.N), "cpu-ms/op")
}

func BenchmarkReads(b *testing.B) {
	for _, s := range []shape{{10, 1_000_000, 10}, {10_000, 100, 10_000}, {1, 5_000_000, 1}, {100_000, 20_000, 50}, {10, 10_000, 10}} {
		b.Run(fmt.Sprintf("%dkeys,%drows,%deach", s.keys, s.rows, s.each), func(b *testing.B) {
			rig := s.write(b)
			ctx := b.Context()
			page := func(from int) {
				at := row.Range{From: int64(from), To: int64(from) + 999}
				rows := 0
				for _, err := range row.AllLines(ctx, rig.src, rig.run, at) {
					if err != nil {
						b.Fatal(err)
					}
					rows++
				}
				if rows != min(1000, s.rows-from) {
					b.Fatal(rows)
				}
			}
			sample := func(spec row.Spec) {
				n := 0
				for _, err := range row.Sampled(ctx, rig.src, rig.run, spec) {
					if err != nil {
						b.Fatal(err)
					}
					n++
				}
				if n == 0 {
					b.Fatal("no rows")
				}
			}
			b.Run("page", func(b *testing.B) { cpu(b, func() { page(s.rows / 2) }) })
			b.Run("open page", func(b *testing.B) {
				cpu(b, func() {
					if _, _, err := row.Lines(ctx, rig.src, rig.run, row.Range{From: int64(s.rows / 2), To: math.MaxInt64}, 1000); err != nil {
						b.Fatal(err)
					}
				})
			})
			b.Run("tail", func(b *testing.B) {
				cpu(b, func() {
					if _, err := row.Tail(ctx, rig.src, rig.run); err != nil {
						b.Fatal(err)
					}
				})
			})
			b.Run("sample of 500", func(b *testing.B) { cpu(b, func() { sample(row.Spec{Samples: 500}) }) })
			b.Run("sample of 500 by a key", func(b *testing.B) {
				cpu(b, func() { sample(row.Spec{Samples: 500, Keys: []string{"group/key000000", "_step"}}) })
			})
			b.Run("keys", func(b *testing.B) {
				cpu(b, func() {
					if _, err := row.Keys(ctx, rig.src, rig.run); err != nil {
						b.Fatal(err)
					}
				})
			})
		})
	}
}
