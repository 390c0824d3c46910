package ingest

import (
	"math"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
)

// A row may stand beside skipped ranges, never in one.
func TestRowsInSkippedRanges(t *testing.T) {
	for _, seq := range []uint64{3, 4, 5, 8, math.MaxUint64} {
		b := &model.Batch{
			First: 1, Last: math.MaxUint64, Skipped: []model.Skipped{{First: 3, Last: 5}, {First: 8, Last: 8}, {First: 10, Last: math.MaxUint64}},
			Groups: []model.RowGroup{{TimeNs: make([]int64, 1), Seq: []uint64{seq}}},
		}
		if checkStructure(b) == nil {
			t.Errorf("a row in the skipped range with %d is taken", seq)
		}
		b.Groups[0].Seq[0] = 9
		if err := checkStructure(b); err != nil {
			t.Error(err)
		}
	}
	for _, gaps := range [][]model.Skipped{{{First: 3, Last: math.MaxUint64}, {First: 1, Last: 2}}, {{First: 3, Last: 4}, {First: 4, Last: 5}}, {{First: 0, Last: 1}}} {
		if checkRange(&model.Batch{First: 1, Last: math.MaxUint64, Skipped: gaps}) == nil {
			t.Errorf("ranges that do not rise are taken: %v", gaps)
		}
	}
}
