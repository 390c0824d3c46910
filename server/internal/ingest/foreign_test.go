package ingest_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/ingest"
)

// A request of many new runs opens a part of them. Sent again it goes on, and then all are there.
func TestARequestOpensSoManyRuns(t *testing.T) {
	n := start(t)
	door := n.Foreign("influx")
	var parts []ingest.Part
	for i := range 1_100 {
		parts = append(parts, ingest.Part{Run: fmt.Sprint("r", i), Batch: model.Batch{Groups: []model.RowGroup{{
			Unique: model.UniqueTime, TimeNs: []int64{second},
			Columns: []model.Column{{Series: model.NewSeriesKey("m", model.ScaleStep, nil), Kind: model.KindFloat, Floats: []float64{1}}},
		}}}})
	}
	for i, want := range []uint64{500, 1_000, 1_100} {
		ack, err := door.Append(context.Background(), "w", "p", parts)
		if code := model.CodeOf(err); ack.Stored != want || (code == model.CodeUnavailable) != (want < 1_100) {
			t.Errorf("try %d: %d points stored, want %d: %v", i+1, ack.Stored, want, err)
		}
	}
}

// Attempts with many attributes come a part at a time, and in the order of the request.
func TestARequestDescribesSoManyAttempts(t *testing.T) {
	n := start(t)
	door := n.Foreign("influx")
	var parts []ingest.Part
	for i := range 250 {
		part := ingest.Part{Run: "r", Process: fmt.Sprint(i), Batch: model.Batch{Groups: []model.RowGroup{{
			Unique: model.UniqueTime, TimeNs: []int64{int64(i) + second},
			Columns: []model.Column{{Series: model.NewSeriesKey("m", model.ScaleStep, nil), Kind: model.KindFloat, Floats: []float64{1}}},
		}}}}
		for k := range 100 {
			part.Attributes = append(part.Attributes, model.Label{Name: fmt.Sprint("config/", k), Value: fmt.Sprint(i)})
		}
		parts = append(parts, part)
	}
	for try, want := range []uint64{200, 250} {
		ack, err := door.Append(context.Background(), "w", "p", parts)
		if code := model.CodeOf(err); ack.Stored != want || (code == model.CodeUnavailable) != (want < 250) {
			t.Errorf("try %d: %d points stored, want %d: %v", try+1, ack.Stored, want, err)
		}
	}
}
