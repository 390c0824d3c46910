package spool

import (
	"math"
	"runtime"
	"runtime/metrics"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// benchWriter is a writer whose full segments are deleted as if a server had
// acked them.
func benchWriter(b *testing.B) *Writer {
	b.Helper()
	f, err := OpenFolder(b.TempDir() + "/spool")
	if err != nil {
		b.Fatal(err)
	}
	w := testWriter(b, f, 1, WriterOptions{Cap: 8 << 30})
	stop := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		for tick := time.NewTicker(20 * time.Millisecond); ; {
			select {
			case <-stop:
				tick.Stop()
				return
			case <-tick.C:
				if err := Prune(w.dir, w.ID, math.MaxUint64-1); err != nil {
					b.Error(err)
				}
			}
		}
	})
	b.Cleanup(func() { close(stop); group.Wait() })
	return w
}

// threadTime is the processor's time of the calling thread.
func threadTime(b *testing.B) int64 {
	b.Helper()
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &usage); err != nil {
		b.Fatal(err)
	}
	return usage.Utime.Nano() + usage.Stime.Nano()
}

// timed reports what a call costs the thread that makes it, then how long at most
// 1,000,000 single calls take, with a pause between them.
func timed(b *testing.B, pause time.Duration, call func(i int) error) {
	b.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for i := range 100 {
		if err := call(i); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	began := threadTime(b)
	b.ResetTimer()
	for i := range b.N {
		if err := call(i); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	b.ReportMetric(float64(threadTime(b)-began)/float64(b.N), "cpu-ns/op")
	took := make([]int64, 1_000_000)
	if pause > 0 {
		took = took[:2_000]
	}
	took = took[:min(b.N, len(took))]
	for i := range took {
		time.Sleep(pause)
		start := time.Now()
		if err := call(i); err != nil {
			b.Fatal(err)
		}
		took[i] = int64(time.Since(start))
	}
	slices.Sort(took)
	for _, p := range []struct {
		name string
		part float64
	}{{"p50-ns", 0.5}, {"p99-ns", 0.99}, {"p99.9-ns", 0.999}, {"max-ns", 1}} {
		b.ReportMetric(float64(took[int(p.part*float64(len(took)-1))]), p.name)
	}
}

func BenchmarkPoint(b *testing.B) {
	w := benchWriter(b)
	s := testSeries(b, w, "m")
	timed(b, 0, func(i int) error { return w.Point(s, FlagStep, int64(i), int64(i), uint64(i)) })
}

// BenchmarkBlock is a vector of 1,000, and 128 steps of 64 series, as float64;
// single calls 1 ms apart, as in a training loop.
func BenchmarkBlock(b *testing.B) {
	for _, shape := range []struct {
		name         string
		series, rows int
	}{{"1x1000", 1, 1000}, {"64x128", 64, 128}} {
		b.Run(shape.name, func(b *testing.B) {
			w := benchWriter(b)
			series := make([]*Series, shape.series)
			for i := range series {
				series[i] = testSeries(b, w, "m"+string(rune('0'+i)))
			}
			block := linearBlock(series, shape.rows, 0, 1)
			timed(b, time.Millisecond, func(int) error { return w.Block(series, block) })
		})
	}
}

// lockTime is how many seconds goroutines waited for locks so far.
func lockTime() float64 {
	sample := []metrics.Sample{{Name: "/sync/mutex/wait/total:seconds"}}
	metrics.Read(sample)
	return sample[0].Value.Float64()
}

// BenchmarkPointParallel is 8 goroutines with a series each, and all with one.
func BenchmarkPointParallel(b *testing.B) {
	const workers = 8
	for _, shared := range []bool{false, true} {
		b.Run(map[bool]string{false: "own", true: "shared"}[shared], func(b *testing.B) {
			w := benchWriter(b)
			one := testSeries(b, w, "m")
			worst := make([][]int64, workers)
			waited := lockTime()
			b.ReportAllocs()
			b.ResetTimer()
			var group sync.WaitGroup
			for k := range workers {
				s := one
				if !shared {
					s = testSeries(b, w, "m"+string(rune('0'+k)))
				}
				group.Go(func() {
					for i := range b.N / workers {
						if i%16 != 0 {
							if err := w.Point(s, FlagStep, int64(i), int64(i), uint64(i)); err != nil {
								b.Error(err)
							}
							continue
						}
						start := time.Now()
						if err := w.Point(s, FlagStep, int64(i), int64(i), uint64(i)); err != nil {
							b.Error(err)
						}
						worst[k] = append(worst[k], int64(time.Since(start)))
					}
				})
			}
			group.Wait()
			b.StopTimer()
			b.ReportMetric((lockTime()-waited)/float64(b.N)*1e9, "lock-ns/op")
			all := slices.Concat(worst...)
			slices.Sort(all)
			if len(all) > 0 {
				b.ReportMetric(float64(all[int(0.999*float64(len(all)-1))]), "p99.9-ns")
				b.ReportMetric(float64(all[len(all)-1]), "max-ns")
			}
		})
	}
}
