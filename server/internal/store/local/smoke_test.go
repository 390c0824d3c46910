package local

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wal/faultfs"
	"github.com/kymogram/kymogram/server/internal/store"
)

func TestPointsSurviveReopen(t *testing.T) {
	fs := faultfs.New()
	e, err := Open(t.Context(), Config{Dir: "/data", FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	run, w := model.RunID{1}, model.WriterID{2}
	if err := e.PutAttempt(t.Context(), run, model.Attempt{Number: 1}); err != nil {
		t.Fatal(err)
	}
	b := &model.Batch{Run: run, Writer: w, Attempt: 1, First: 1, Last: 2, Groups: []model.RowGroup{{
		Axes: []model.AxisColumn{{Axis: model.AxisStep, Values: []int64{0, 1}, Relative: true}}, TimeNs: []int64{5, 6}, Seq: []uint64{1, 2},
		Columns: []model.Column{{Series: model.NewSeriesKey("loss", "", nil), Kind: model.KindFloat, Floats: []float64{1.5, 2.5}}},
	}}}
	for i := range uint64(3) {
		b.First, b.Last = 2*i+1, 2*i+2
		b.Groups[0].Seq = []uint64{b.First, b.Last}
		b.Groups[0].Axes[0].Values = []int64{int64(2 * i), int64(2*i + 1)}
		if ack, err := e.Append(t.Context(), b); err != nil || ack.Stored != 2 || ack.Mark != b.Last {
			t.Fatal(ack, err)
		}
	}
	for range 2 {
		page, more, err := e.ListSeries(t.Context(), run, store.SeriesFilter{Limit: 10})
		if err != nil || more || len(page) != 1 || page[0].Count != 6 || *page[0].Last.Step != 5 || page[0].Last.Value.Float != 2.5 {
			t.Fatalf("%+v %v %v", page, more, err)
		}
		rows, err := e.Scan(t.Context(), store.ScanRequest{Run: run, Axis: model.AxisStep, From: 1, To: 100, Limit: 4})
		if err != nil || len(rows.TimeNs) != 4 || rows.Next == nil {
			t.Fatalf("%+v %v", rows, err)
		}
		buckets, err := e.Buckets(t.Context(), store.BucketsRequest{Run: run, Axis: model.AxisStep, From: 0, To: 100, N: 2})
		if err != nil || len(buckets) != 2 || buckets[0].Count != 3 {
			t.Fatalf("%+v %v", buckets, err)
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		if e, err = Open(t.Context(), Config{Dir: "/data", FS: fs}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLostRecordsAreCounted damages a record of a client without sequences, which
// no ledger can tell of.
func TestLostRecordsAreCounted(t *testing.T) {
	fs := faultfs.New()
	e, err := Open(t.Context(), Config{Dir: "/data", FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	run := model.RunID{1}
	if err := e.PutAttempt(t.Context(), run, model.Attempt{Number: 1}); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		b := &model.Batch{Run: run, Writer: model.WriterID{2}, Attempt: 1, Groups: []model.RowGroup{{
			Unique: model.UniqueTime, TimeNs: []int64{int64(i)},
			Columns: []model.Column{{Series: model.NewSeriesKey("loss", "", nil), Kind: model.KindFloat, Floats: []float64{1.5}}},
		}}}
		if _, err := e.Append(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	killed := fs.Crash(rand.New(rand.NewPCG(1, 2)))
	for _, name := range killed.Names() {
		if strings.HasSuffix(name, ".wal") {
			killed.Corrupt(name, func(b []byte) []byte { b[len(b)*2/3] ^= 1; return b })
		}
	}
	if e, err = Open(t.Context(), Config{Dir: "/data", FS: killed}); err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if s := e.Stats(); s.LostRecords != 1 || s.Quarantined != 1 || s.Points != 2 {
		t.Errorf("%+v", s)
	}
}
