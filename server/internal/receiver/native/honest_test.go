package native

import (
	"testing"

	"google.golang.org/grpc/mem"

	kymogramv1 "github.com/kymogram/kymogram/gen/kymogram/v1"
)

// The heaviest batches that an agent makes, of 1 MiB and a record of 1 MiB more, are never too
// heavy: rows of very many series, series of one point each, and rows of one series.
func TestTheHeaviestBatchOfAnAgentIsTaken(t *testing.T) {
	wide, single, long := &kymogramv1.RowGroup{}, []*kymogramv1.RowGroup{}, &kymogramv1.RowGroup{}
	definitions := []*kymogramv1.SeriesDefinition{}
	for id := range uint32(150_000) { // 16 bytes of the agent's estimate each
		wide.Columns = append(wide.Columns, &kymogramv1.Column{Series: id, Floats: []float64{1}})
	}
	wide.TimeNs, wide.Seq = []int64{1}, []uint32{0}
	for id := range uint32(16_000) { // 85 bytes
		definitions = append(definitions, &kymogramv1.SeriesDefinition{Id: id, Metric: "loss/train", Kind: 1})
		single = append(single, &kymogramv1.RowGroup{
			TimeNs: []int64{1}, Seq: []uint32{id}, Axes: []*kymogramv1.AxisColumn{{Axis: 1, Values: []int64{1}}},
			Columns: []*kymogramv1.Column{{Series: id, Floats: []float64{1}}},
		})
	}
	for range 110_000 { // 20 bytes
		long.TimeNs, long.Seq = append(long.TimeNs, 1), append(long.Seq, 1)
	}
	long.Columns = []*kymogramv1.Column{{Series: 1, Floats: make([]float64, 110_000)}}
	for name, b := range map[string]*kymogramv1.Batch{
		"wide":   {First: 1, Last: 1, Groups: []*kymogramv1.RowGroup{wide}},
		"single": {First: 1, Last: 16_000, Series: definitions, Groups: single},
		"long":   {First: 1, Last: 2, Groups: []*kymogramv1.RowGroup{long}},
	} {
		data, err := (&kymogramv1.StreamRequest{Message: &kymogramv1.StreamRequest_Batch{Batch: b}}).MarshalVT()
		if err != nil {
			t.Fatal(err)
		}
		raw := Raw{mem.SliceBuffer(data)}
		sum, err := raw.Weigh(&kymogramv1.StreamRequest{}, 8<<20, 64<<20)
		t.Logf("%s: %d bytes weigh %d", name, len(data), sum)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
