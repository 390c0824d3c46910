package ingest

import (
	"fmt"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
)

// BenchmarkJudge checks a batch of 50 series × 100 rows without a fault.
func BenchmarkJudge(b *testing.B) {
	const series, rows = 50, 100
	g := model.RowGroup{Axes: []model.AxisColumn{{Axis: model.AxisStep, Values: make([]int64, rows)}}, TimeNs: make([]int64, rows)}
	for row := range uint64(rows) {
		g.Seq = append(g.Seq, row+1)
	}
	for i := range series {
		key := model.NewSeriesKey(fmt.Sprint("metric/", i), "", map[string]string{"layer": "7"})
		g.Columns = append(g.Columns, model.Column{Series: key, Kind: model.KindFloat, Floats: make([]float64, rows)})
	}
	batch := &model.Batch{First: 1, Last: rows, Groups: []model.RowGroup{g}}
	b.ReportAllocs()
	for b.Loop() {
		if err := checkStructure(batch); err != nil {
			b.Fatal(err)
		}
		if v := judge(batch, false); !v.clean() {
			b.Fatal(v.refusals())
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(series*rows), "ns/point")
}
