package influx

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

// BenchmarkDecode reads points with full mantissas: 200 lines of 50 fields, as many points
// with a line for each, all of one series, or of one whose lines have other fields in turn.
func BenchmarkDecode(b *testing.B) {
	const lines, fields = 200, 50
	for _, bench := range []struct {
		name, between string
		line          func(i int) (head, field string)
	}{
		{"wide", "", func(i int) (string, string) {
			return []string{"ml,host=node-0,run=r ", ","}[min(i%fields, 1)], fmt.Sprintf("field_%02d", i%fields)
		}},
		{"apart", "\n", func(i int) (string, string) { return fmt.Sprintf("ml_%02d,host=node-0,run=r ", i%fields), "value" }},
		{"long", "\n", func(int) (string, string) { return "ml,host=node-0,run=r ", "value" }},
		{"in turn", "\n", func(i int) (string, string) { return "ml,host=node-0,run=r ", []string{"other=1,value", "value"}[i%2] }},
	} {
		b.Run(bench.name, func(b *testing.B) {
			var body strings.Builder
			for i := range lines * fields {
				head, field := bench.line(i)
				fmt.Fprintf(&body, "%s%s=%v", head, field, math.Sqrt(float64(i+2)))
				if bench.between != "" || i%fields == fields-1 {
					fmt.Fprintf(&body, " %d\n", 1_700_000_000_000_000_000+i)
				}
			}
			rules, d := defaultRules(b), newDecoder()
			b.SetBytes(int64(body.Len()))
			b.ReportAllocs()
			for b.Loop() {
				d.begin(&reading{rules: rules, unit: 1, budget: 1 << 30}, maxSeries)
				if err := d.all(body.String()); err != nil || len(d.parts()) != 1 {
					b.Fatal(err)
				}
				d.end()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(lines*fields), "ns/point")
		})
	}
}
