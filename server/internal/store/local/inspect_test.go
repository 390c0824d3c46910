package local_test

import (
	"fmt"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wal/faultfs"
	"github.com/kymogram/kymogram/server/internal/store/local"
)

// TestInventoryCounts writes series of two runs in turn, so that no segment has all of
// a run, and looks at the folder after each write: what is stored is counted, in the log
// and in segments, once.
func TestInventoryCounts(t *testing.T) {
	fs := faultfs.New()
	e := must(local.Open(t.Context(), local.Config{Dir: "/data", Marks: "/marks", FS: fs, CompactFiles: 2}))
	defer e.Close()
	type sum struct {
		points uint64
		series map[string]bool
	}
	want := map[model.RunID]*sum{}
	for n := range 60 {
		run := model.RunID{byte(1 + n%2)}
		if want[run] == nil {
			want[run] = &sum{series: map[string]bool{}}
			if err := e.PutAttempt(t.Context(), run, model.Attempt{Number: 1}); err != nil {
				t.Fatal(err)
			}
		}
		name := fmt.Sprintf("s%d", n/2%20)
		g := model.RowGroup{Unique: model.UniqueTime, TimeNs: []int64{int64(n), int64(n + 100)}, Columns: []model.Column{{Series: model.NewSeriesKey(name, "", nil), Kind: model.KindFloat, Floats: []float64{1, float64(n)}}}}
		must(e.Append(t.Context(), &model.Batch{Run: run, Writer: model.WriterID(run), Attempt: 1, Groups: []model.RowGroup{g}}))
		want[run].points += 2
		want[run].series[name] = true
		switch {
		case n == 33:
			if err := e.Compact(t.Context(), true); err != nil {
				t.Fatal(err)
			}
		case n%7 == 5:
			if err := e.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		got, total := inspect(t, fs), uint64(0)
		if len(got.Runs) != len(want) || len(got.Damage) > 0 {
			t.Fatalf("after %d: %+v", n, got)
		}
		for _, r := range got.Runs {
			if w := want[r.Run]; r.Points != w.points || r.Series != len(w.series) {
				t.Errorf("after %d: run %s has %d points of %d series, want %d of %d", n, r.Run, r.Points, r.Series, w.points, len(w.series))
			}
			total += want[r.Run].points
		}
		if flushed := n%7 == 5 && n != 33; got.Points != total || flushed != (got.LogPoints == 0) {
			t.Errorf("after %d: %d points, %d of them in the log alone, want %d", n, got.Points, got.LogPoints, total)
		}
	}
	if err := e.DeleteRun(t.Context(), model.RunID{1}); err != nil {
		t.Fatal(err)
	}
	if got := inspect(t, fs); len(got.Runs) != 1 || got.Runs[0].Run != (model.RunID{2}) || got.Deleted != 1 || got.Points != want[model.RunID{2}].points {
		t.Errorf("a run was deleted: %+v", got)
	}
}
