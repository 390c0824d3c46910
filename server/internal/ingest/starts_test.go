package ingest_test

import (
	"fmt"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
)

// A run has more series than the answer to an open lists: by name each is found, and
// one without a point is known to have none.
func TestAnOpenAsksForSeriesByName(t *testing.T) {
	n := start(t)
	s := n.join(request(1))
	b := points(1, 41)
	b.Groups[0].Columns = nil
	const series = 10_050
	for i := range series {
		column := model.Column{Series: model.NewSeriesKey(fmt.Sprintf("m%05d", i), "", nil), Kind: model.KindFloat, Floats: []float64{1}}
		b.Groups[0].Columns = append(b.Groups[0].Columns, column)
	}
	n.append(s, b)
	r := request(2)
	r.WithStarts = true
	if all, err := n.Open(t.Context(), r); err != nil || all.StartsComplete {
		t.Fatalf("the open lists %d series, complete %v (%v); the test needs more", len(all.Starts), all.StartsComplete, err)
	}
	r.StartsOf = []model.SeriesName{{Metric: "m10049", Scale: model.ScaleStep}, {Metric: "m00000", Scale: model.ScaleStep}, {Metric: "other", Scale: model.ScaleStep}}
	opened, err := n.Open(t.Context(), r)
	if err != nil || !opened.StartsComplete {
		t.Fatalf("%+v, %v", opened, err)
	}
	equal(t, "starts", []model.Start{{Metric: "m10049", Scale: model.ScaleStep, Next: 42}, {Metric: "m00000", Scale: model.ScaleStep, Next: 42}}, opened.Starts)
	r.RunName, r.Writer, r.ForkFromRun = "fork", model.WriterID{3}, "run"
	step := int64(20)
	r.ForkAtStep = &step
	forked, err := n.Open(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "inherited starts", []model.Start{{Metric: "m10049", Scale: model.ScaleStep, Next: 21}, {Metric: "m00000", Scale: model.ScaleStep, Next: 21}}, forked.Starts)
	r.StartsOf = make([]model.SeriesName, model.MaxStartsOf+1)
	if _, err := n.Open(t.Context(), r); model.CodeOf(err) != model.CodeInvalid {
		t.Errorf("too many names: %v", err)
	}
}
