package clickhouse_test

import (
	"strings"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store/local/column"
	"github.com/kymogram/kymogram/server/internal/store/local/record"
)

// TestIntakeCompares: a point that ClickHouse changes, loses or doubles on its way fails the intake,
// which names the series. Nothing of it counts.
func TestIntakeCompares(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	run := &record.Run{
		ID: model.RunID{1}, Arrivals: 2, Points: 2, Attempts: []model.Attempt{{Number: 1}}, Writers: []record.Writer{{ID: model.WriterID{1}, Attempt: 1, Mark: 9}},
		Series: []record.Series{{ID: 0, Kind: model.KindFloat, Text: model.NewSeriesKey("loss", "", nil).String()}},
	}
	piece := &record.Piece{Source: record.Source{Attempt: 1}, Group: record.Group{
		Rows:   column.Rows{Mask: 1, Axes: [column.NumAxes][]int64{{-3, 4}}, Time: []int64{-1, 2}, Seq: []uint64{8, 9}, Arrival: []int64{0, 1}},
		Series: []uint32{0}, Columns: []column.Values{{Kind: model.KindFloat, Floats: []float64{-0.5, 1e300}}},
	}}
	e := r.open(t, "a")
	var after func()
	afterInsert(e, func() error { after(); return nil })
	take := func(then func()) error {
		t.Helper()
		after = then
		in := e.Intake()
		a, err := in.Open(t.Context(), run)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Add(t.Context(), piece); err != nil {
			t.Fatal(err)
		}
		return in.Commit(t.Context())
	}
	columns := "run, series, lsn, arrival, writer, seq, attempt, rule, has, step, time, kind, float"
	for name, spoil := range map[string]string{
		"doubled": "INSERT INTO " + r.table() + " (" + columns + ") SELECT " + columns + " FROM " + r.table() + " WHERE lsn = (SELECT max(lsn) FROM " + r.table() + ") AND step = 4",
		"another": "INSERT INTO " + r.table() + " (" + columns + ") SELECT run, series, lsn, arrival + 2, writer, seq, attempt, rule, has, step, time, kind, float FROM " + r.table() + " WHERE lsn = (SELECT max(lsn) FROM " + r.table() + ") AND step = 4",
	} {
		err := take(func() { r.points.Do(t, spoil) })
		if model.CodeOf(err) != model.CodeDamaged || !strings.Contains(err.Error(), "series loss of run") {
			t.Errorf("%s: %v", name, err)
		}
		if _, visible, _ := r.stored(t); visible != "0" {
			t.Errorf("%s: %s points count", name, visible)
		}
	}
	if err := take(func() {}); err != nil {
		t.Fatal(err)
	}
	if _, visible, _ := r.stored(t); visible != "2" {
		t.Errorf("%s points count", visible)
	}
	if mark, err := e.Mark(t.Context(), model.WriterID{1}); err != nil || mark != 9 {
		t.Errorf("the mark is %d, %v", mark, err)
	}
	run.Arrivals = 1
	if _, err := e.Intake().Open(t.Context(), run); model.CodeOf(err) != model.CodeConflict {
		t.Errorf("a folder that is behind the store: %v", err)
	}
}
