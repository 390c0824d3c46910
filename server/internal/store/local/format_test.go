package local

import (
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wal/faultfs"
	"github.com/kymogram/kymogram/server/internal/store/local/column"
	"github.com/kymogram/kymogram/server/internal/store/local/record"
	"github.com/kymogram/kymogram/server/internal/store/local/state"
)

func sample() *record.Batch {
	return &record.Batch{
		Run: model.RunID{1}, Writer: model.WriterID{2}, Attempt: 1, Last: 3, NextOrd: 2,
		Skipped: []model.Skipped{{First: 1, Last: 1, Reason: "torn"}}, Series: []record.Series{{ID: 0, Kind: model.KindFloat, Text: "x\x00ML_STEP"}, {ID: 1, Kind: model.KindText, Text: "t\x00ML_STEP"}},
		Starts: []record.Start{{Key: record.StartKey{Writer: 0, Series: 0, Episode: 4, Episodic: true}, At: 7}},
		Groups: []record.Group{{
			Rows: column.Rows{Mask: 1, Axes: [column.NumAxes][]int64{{5, 6}}, Time: []int64{1, 2}, Seq: []uint64{2, 3}, Arrival: []int64{0, 1}}, Series: []uint32{0, 1},
			Columns: []column.Values{{Kind: model.KindFloat, Floats: []float64{1, 2}}, {Kind: model.KindText, Docs: [][]byte{{'a'}, {}}}},
		}},
	}
}

// FuzzReplay gives any bytes to the replay of the log: errors, never a panic.
func FuzzReplay(f *testing.F) {
	enc := &record.Encoder{}
	if err := enc.Batch(sample()); err != nil {
		f.Fatal(err)
	}
	f.Add(enc.Buf)
	s := int64(4)
	enc = &record.Encoder{}
	enc.Attempt(model.RunID{1}, model.Attempt{Number: 1, ResumeFrom: &s})
	f.Add(enc.Buf)
	enc = &record.Encoder{}
	enc.Writer(model.RunID{1}, 0, model.WriterID{2}, 1, new(uint64))
	f.Add(enc.Buf)
	e, err := Open(f.Context(), Config{Dir: "/data", FS: faultfs.New()})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		e.table = state.NewTable(state.Limits{FlushRows: 1024, FlushBytes: 8 << 20, MemoryBytes: 256 << 20}, time.Now, e.damage)
		for lsn := range uint64(2) {
			_ = e.replay(lsn+1, b)
		}
		for _, r := range e.table.All() {
			r.Hold()
			for _, v := range r.Views(r.Order()) {
				_ = v.End()
			}
			r.Unlock()
		}
	})
}
