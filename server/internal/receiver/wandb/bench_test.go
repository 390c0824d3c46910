package wandb

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"syscall"
	"testing"
)

// cpu is the processor time of this process, in nanoseconds.
func cpu(b *testing.B) float64 {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkStream stores chunks of rows, as long as they come every few seconds. A value is
// a key or _runtime.
func BenchmarkStream(b *testing.B) {
	for _, keys := range []int{1, 10, 100} {
		rows := 10_000 / keys
		b.Run(fmt.Sprint(keys, " keys"), func(b *testing.B) {
			l := newLab(b)
			l.begins("run")
			b.ReportAllocs()
			sum, at := 0.0, 0
			for b.Loop() {
				b.StopTimer()
				var body strings.Builder
				fmt.Fprintf(&body, `{"files":{"wandb-history.jsonl":{"offset":%d,"content":[`, at)
				for i := range rows {
					if i > 0 {
						body.WriteByte(',')
					}
					body.WriteString(`"{`)
					for k := range keys {
						fmt.Fprintf(&body, `\"train/key_%02d\":%v,`, k, math.Sqrt(float64(at*keys+k+2)))
					}
					fmt.Fprintf(&body, `\"_step\":%d,\"_runtime\":%v,\"_timestamp\":%v}"`, at, float64(at)*1.001, 1_700_000_000+float64(at)*1.001)
					at++
				}
				body.WriteString(`]}}}`)
				text := []byte(body.String())
				b.StartTimer()
				before := cpu(b)
				if w := l.do(b.Context(), http.MethodPost, "/files/w/p/run/file_stream", text); w.Code != http.StatusOK {
					b.Fatal(w.Code, w.Body)
				}
				sum += cpu(b) - before
			}
			b.ReportMetric(sum/float64(b.N)/float64(rows*(keys+1)), "cpu-ns/value")
		})
	}
}

// BenchmarkUpsert is the start of a process in a new run, and a change of a config.
func BenchmarkUpsert(b *testing.B) {
	for _, again := range []bool{false, true} {
		b.Run(fmt.Sprint("again ", again), func(b *testing.B) {
			l := newLab(b)
			l.begins("run")
			n, before := 0, cpu(b)
			for b.Loop() {
				if n++; again {
					l.upsert("run", map[string]any{"config": fmt.Sprintf(`{"lr":{"value":%d}}`, n)})
					continue
				}
				l.begins(fmt.Sprint("run", n))
			}
			b.ReportMetric((cpu(b)-before)/float64(b.N)/1e6, "cpu-ms/op")
		})
	}
}

// BenchmarkFilteredRuns lists the first runs of a filter that looks into the configs of 1,000.
func BenchmarkFilteredRuns(b *testing.B) {
	l := newLab(b)
	const runs = 1_000
	for i := range runs {
		var config strings.Builder
		for n := 0; config.Len() < 1_900; n++ {
			fmt.Fprintf(&config, `"option_%d":{"value":{"rate":%g,"name":"some words of a setting","on":true,"list":[1,2,3]}},`, n, 0.001*float64(n))
		}
		l.upsert(fmt.Sprint("run", i), map[string]any{"config": fmt.Sprintf(`{%s"lr":{"value":%g}}`, config.String(), 0.0002*float64(i%100))})
	}
	variables := map[string]any{"filters": `{"$and":[{"config.lr.value":{"$lt":0.002}},{"state":"running"}]}`}
	b.ReportAllocs()
	before := cpu(b)
	for b.Loop() {
		l.want(`query Q($filters: JSONString) { project(entityName: "w", name: "p") { runCount(filters: $filters) runs(filters: $filters, first: 50) { edges { node { name } } } } }`, variables)
	}
	b.ReportMetric((cpu(b)-before)/1e3/float64(b.N)/runs, "cpu-µs/run")
}
