package ingest

import (
	"math"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/testkit/cost"
)

// skipping is a batch of n rows that skips every other one of 2n sequences.
func skipping(n int) *model.Batch {
	b := &model.Batch{First: 1, Last: uint64(2 * n)}
	g := model.RowGroup{TimeNs: make([]int64, n), Seq: make([]uint64, n)}
	for i := range n {
		seq := uint64(2*i + 1)
		b.Skipped = append(b.Skipped, model.Skipped{First: seq + 1, Last: seq + 1})
		g.Seq[n-1-i] = seq
	}
	b.Groups = []model.RowGroup{g}
	return b
}

// A row is not compared with every range that the batch skips: 1.9 MB took a processor for
// 40 s. The bound is a hundredth of that, far above what a busy machine adds.
func TestSkippedRangesAreLinear(t *testing.T) {
	b := skipping(100_000)
	if took := cost.Time(func() {
		if err := checkStructure(b); err != nil {
			t.Fatal(err)
		}
	}); took > 2*time.Second {
		t.Errorf("%v for %d rows", took, len(b.Skipped))
	}
}

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
