package promwrite

import (
	"fmt"
	"testing"
)

// BenchmarkDecode reads 200 scrapes of 50 series, one sample a TimeSeries.
func BenchmarkDecode(b *testing.B) {
	const scrapes, names = 200, 50
	var series [][]byte
	for row := range scrapes {
		for i := range names {
			labels := []string{"__name__", fmt.Sprintf("ml_metric_%02d", i), "instance", "node-0:9100", "job", "train", "run", "r"}
			series = append(series, series1(labels, field(nil, fSamples, oneSample(float64(i), int64(1_700_000_000_000+row)))))
		}
	}
	body := request1(series...)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	d := newDecoder(1 << 30)
	for b.Loop() {
		d.left = 1 << 30
		if err := d.write1(body); err != nil || len(d.parts()) != 1 {
			b.Fatal(err)
		}
		d.end()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(scrapes*names), "ns/point")
}
