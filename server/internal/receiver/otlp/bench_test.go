package otlp

import (
	"fmt"
	"testing"

	"go.opentelemetry.io/proto/otlp/common/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
)

// BenchmarkDecode reads 200 exports of 50 gauges, as a collector puts them together.
func BenchmarkDecode(b *testing.B) {
	const exports, names = 200, 50
	attributes := []*v1.KeyValue{text1("instance", "node-0:9100"), text1("job", "train")}
	data := &metrics.MetricsData{}
	for row := range exports {
		sm := &metrics.ScopeMetrics{Scope: &v1.InstrumentationScope{Name: "loop"}}
		for i := range names {
			p := &metrics.NumberDataPoint{TimeUnixNano: uint64(1_700_000_000_000_000_000 + row), Attributes: attributes, Value: &metrics.NumberDataPoint_AsDouble{AsDouble: float64(i)}}
			m := gaugeOf(p)
			m.Name = fmt.Sprintf("ml_metric_%02d", i)
			sm.Metrics = append(sm.Metrics, m)
		}
		data.ResourceMetrics = append(data.ResourceMetrics, &metrics.ResourceMetrics{ScopeMetrics: []*metrics.ScopeMetrics{sm}})
	}
	body := marshal(b, data)
	book, err := newRuleBook(nil)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		d := newDecoder(book.find("p"), 1, 1<<30)
		if err := d.request(body); err != nil || len(d.batches()) != 1 {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(exports*names), "ns/point")
}
