package spool

import (
	"testing"

	"github.com/kymogram/kymogram/internal/model"
)

// TestDefinitionsSayHowPointsAreToldApart: the JSON is what Python's MetricsLogger writes.
func TestDefinitionsSayHowPointsAreToldApart(t *testing.T) {
	for text, want := range map[string]bool{
		`{"metric":"m","scale":"ML_STEP","labels":{},"unique":"time"}`: true,
		`{"metric":"m","scale":"ML_STEP","labels":{}}`:                 false,
	} {
		payload := append([]byte{TypeSeries, byte(model.KindFloat), 0, 0, 7, 0, 0, 0}, text...)
		var r Record
		if err := Decode(payload, &r); err != nil || r.Definition.UniqueTime != want {
			t.Errorf("%s is read as %+v, %v", text, r.Definition, err)
		}
		written, err := AppendDefinition(nil, r.Definition)
		if err != nil || string(written) != string(payload) {
			t.Errorf("%s is written as %s, %v", text, written, err)
		}
	}
}
