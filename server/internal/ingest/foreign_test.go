package ingest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/ingest"
)

// A request of many new runs opens a part of them. Sent again it goes on, and then all are there.
func TestARequestOpensSoManyRuns(t *testing.T) {
	alone(t)
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

// Points that can never be stored make no run. Next to others they are counted with it.
func TestRefusedPointsMakeNoRun(t *testing.T) {
	n := start(t)
	door := n.Foreign("influx")
	part := func(run, label string) ingest.Part {
		return ingest.Part{Run: run, Batch: model.Batch{Groups: []model.RowGroup{{
			Unique: model.UniqueTime, TimeNs: []int64{second},
			Columns: []model.Column{{Series: model.NewSeriesKey("m", model.ScaleStep, map[string]string{"k": label}), Kind: model.KindFloat, Floats: []float64{1}}},
		}}}}
	}
	long := strings.Repeat("x", 2_000)
	ack, err := door.Append(t.Context(), "w", "p", []ingest.Part{part("bad", long), part("good", "a")})
	if err != nil || ack.Stored != 1 || len(ack.Refused) != 1 || ack.Refused[0].Message == "" {
		t.Fatalf("%+v, %v", ack, err)
	}
	if _, err := n.FindRun(t.Context(), "w", "p", "bad"); model.CodeOf(err) != model.CodeNotFound {
		t.Errorf("a run without a point is there: %v", err)
	}
	if ack, err = door.Append(t.Context(), "w", "p", []ingest.Part{part("good", long)}); err != nil || len(ack.Refused) != 1 {
		t.Fatalf("%+v, %v", ack, err)
	}
	run, err := n.FindRun(t.Context(), "w", "p", "good")
	if err != nil {
		t.Fatal(err)
	}
	if d := n.detail(run); d.Refused != 1 {
		t.Errorf("the run counts %d refused points", d.Refused)
	}
}

// Attempts with many attributes come a part at a time, and in the order of the request.
func TestARequestDescribesSoManyAttempts(t *testing.T) {
	alone(t)
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

// alone skips a test in which one goroutine works, where -short says that the race detector
// looks on: it would take minutes and find nothing.
func alone(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("one goroutine works here")
	}
}
