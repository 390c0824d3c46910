package native

import (
	"fmt"
	"testing"

	"google.golang.org/grpc/mem"

	kymogramv1 "github.com/kymogram/kymogram/gen/kymogram/v1"
)

// BenchmarkDecode reads a batch of 50 series × 100 rows from its bytes.
func BenchmarkDecode(b *testing.B) {
	const series, rows = 50, 100
	m := &kymogramv1.Batch{First: 1, Last: rows}
	g := &kymogramv1.RowGroup{Axes: []*kymogramv1.AxisColumn{{Axis: 1}}}
	for row := range rows {
		g.TimeNs, g.Seq = append(g.TimeNs, int64(row)), append(g.Seq, uint32(row))
		g.Axes[0].Values = append(g.Axes[0].Values, int64(row))
	}
	for id := range uint32(series) {
		m.Series = append(m.Series, &kymogramv1.SeriesDefinition{Id: id, Metric: fmt.Sprint("metric/", id), Kind: 1})
		g.Columns = append(g.Columns, &kymogramv1.Column{Series: id, Floats: make([]float64, rows)})
	}
	m.Groups = []*kymogramv1.RowGroup{g}
	data, err := (&kymogramv1.StreamRequest{Message: &kymogramv1.StreamRequest_Batch{Batch: m}}).MarshalVT()
	if err != nil {
		b.Fatal(err)
	}
	d := newDecoder(NewDefinitions(definitionBytes).open(""))
	b.ReportAllocs()
	for b.Loop() {
		var got kymogramv1.StreamRequest
		raw := Raw{mem.SliceBuffer(data)}
		if _, err := raw.Weigh(&got, 16<<20, 64<<20); err != nil {
			b.Fatal(err)
		}
		if err := raw.Decode(&got); err != nil {
			b.Fatal(err)
		}
		if _, err := d.decode(got.GetBatch()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(series*rows), "ns/point")
}
