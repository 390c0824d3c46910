package wandb

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
)

// TestRunOfAnotherClient: what Kymogram's own SDK logged is config and summary for the API.
func TestRunOfAnotherClient(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	session, err := l.ingest.Join(t.Context(), model.OpenRequest{Writer: newWriter(), Workspace: "w", Project: "p", RunName: "own", OrchestrationID: "job", SDK: "python/0.1"})
	if err != nil {
		t.Fatal(err)
	}
	var updates []model.Update
	for path, value := range map[string]*model.Value{
		"config/lr": model.FloatValue(0.1), "config/layers": model.IntValue(4), "config/model/name": model.StringValue("a\"b"), "config/model/big": model.BoolValue(true),
		"config/seeds/0": model.IntValue(7), "other": model.IntValue(1),
	} {
		updates = append(updates, model.Update{Op: model.OpSetAttribute, Path: path, Value: value})
	}
	batch := &model.Batch{Updates: updates, Groups: []model.RowGroup{{
		TimeNs: []int64{1, 2}, Axes: []model.AxisColumn{{Axis: model.AxisStep, Values: []int64{0, 1}}},
		Columns: []model.Column{{Series: model.NewSeriesKey("loss", "", nil), Kind: model.KindFloat, Floats: []float64{1, 0.5}}},
	}}}
	if _, err := session.Append(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	run := l.run("own")
	for field, want := range map[string]string{
		"config":         `{"lr":{"value":0.1},"layers":{"value":4},"model":{"value":{"name":"a\"b","big":true}},"seeds":{"value":{"0":7}}}`,
		"summaryMetrics": `{"loss":0.5}`,
	} {
		var got, expected any
		if err := json.Unmarshal([]byte(run[field].(string)), &got); err != nil { //nolint:forcetypeassert // a test may
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(want), &expected); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, expected) {
			t.Errorf("%s is %v, want %v", field, got, expected)
		}
	}
}
