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

// Turns are of all rows of a batch without sequences, or of none; they stay with their rows.
func TestTurns(t *testing.T) {
	group := func(turns ...uint32) model.RowGroup {
		return model.RowGroup{TimeNs: []int64{1, 2}, Turn: turns, Columns: []model.Column{{Kind: model.KindText, Texts: []string{"a", "\xff"}}}}
	}
	for _, groups := range [][]model.RowGroup{{group(1, 2, 3)}, {group(1)}, {group(1, 2), group()}, {group(), group(1, 2)}} {
		if checkStructure(&model.Batch{Groups: groups}) == nil {
			t.Errorf("taken: %v", groups)
		}
	}
	numbered := group(1, 2)
	numbered.Seq = []uint64{1, 2}
	if checkStructure(&model.Batch{First: 1, Last: 2, Groups: []model.RowGroup{numbered}}) == nil {
		t.Error("turns next to sequences are taken")
	}
	b := &model.Batch{Groups: []model.RowGroup{group(3, 0), group(2, 1)}}
	if err := checkStructure(b); err != nil {
		t.Fatal(err)
	}
	keepRows(&b.Groups[0], []bool{false, true})
	if got := b.Groups[0].Turn; len(got) != 1 || got[0] != 0 {
		t.Errorf("the turns of the second row are %v", got)
	}
}
