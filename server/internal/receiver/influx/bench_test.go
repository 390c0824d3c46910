package influx

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

// BenchmarkDecode reads 200 lines of 50 fields with full mantissas.
func BenchmarkDecode(b *testing.B) {
	const lines, fields = 200, 50
	var body strings.Builder
	for row := range lines {
		body.WriteString("ml,host=node-0,run=r ")
		for i := range fields {
			fmt.Fprintf(&body, "%sfield_%02d=%v", []string{"", ","}[min(i, 1)], i, math.Sqrt(float64(row*fields+i+2)))
		}
		fmt.Fprintf(&body, " %d\n", 1_700_000_000_000_000_000+row)
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
}
