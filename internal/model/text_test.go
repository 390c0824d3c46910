package model_test

import (
	"encoding/json"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/kymogram/kymogram/internal/model"
)

func TestSafeCSV(t *testing.T) {
	for in, want := range map[string]string{"": "", "a": "a", "=1": "'=1", "-1": "'-1", "'a": "''a", "\tx": "'\tx", "@x": "'@x", "+x": "'+x"} {
		if got := model.SafeCSV(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}

// The oracle of texts and numbers is the standard library's reader.
func TestTextsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		var back string
		if err := json.Unmarshal(model.AppendJSONText(nil, text), &back); err != nil || back != text {
			t.Fatalf("%q reads back as %q, %v", text, back, err)
		}
	})
	for f, want := range map[float64]string{0.1: "0.1", math.Inf(1): "Infinity", math.Inf(-1): "-Infinity", 1e300: "1e+300"} {
		if got := model.FloatText(f); got != want {
			t.Errorf("%v is %q", f, got)
		}
	}
	if model.FloatText(math.NaN()) != "NaN" {
		t.Error("NaN")
	}
}
