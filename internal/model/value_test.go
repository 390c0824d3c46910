package model

import (
	"math"
	"testing"
)

// To many readers "-0" is an integer, which has no sign.
func TestNegativeZeroIsAFloat(t *testing.T) {
	if got := string(AppendJSONFloat(nil, math.Copysign(0, -1))); got != "-0.0" {
		t.Errorf("-0.0 is written %s", got)
	}
}
