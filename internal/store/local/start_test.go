package local_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/store"
	"github.com/kymogram/kymogram/internal/store/local"
	"github.com/kymogram/kymogram/internal/wal/faultfs"
)

// TestStartsOfABacklog delivers the episodes of a program that ran without a
// server, whose steps all count from a start that the server fixes. An episode
// that was never there starts at 0 without a look at those before: with one, the
// time that a backlog takes grows with its square.
func TestStartsOfABacklog(t *testing.T) {
	fs := faultfs.New()
	e, err := local.Open(t.Context(), local.Config{Dir: "/data", FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	run := model.RunID{1}
	if err := e.PutAttempt(t.Context(), run, model.Attempt{Number: 1}); err != nil {
		t.Fatal(err)
	}
	b := newBacklog(run, 1, 100)
	for range 50 { // the batches meet in the middle of an episode
		if _, err := e.Append(t.Context(), b.batch(250)); err != nil {
			t.Fatal(err)
		}
		if err := e.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	reads := 0
	fs.Hook(func(op faultfs.Op, _ string) error {
		if op == faultfs.OpRead {
			reads++
		}
		return nil
	})
	if _, err := e.Append(t.Context(), b.batch(250)); err != nil {
		t.Fatal(err)
	}
	fs.Hook(nil)
	if reads != 0 {
		t.Errorf("%d reads to find where new episodes start", reads)
	}
	rows, err := e.Scan(t.Context(), store.ScanRequest{Run: run, Axis: model.AxisRLStep, To: 1 << 40, Limit: 51 * 250})
	if err != nil || len(rows.TimeNs) != 51*250 {
		t.Fatal(len(rows.TimeNs), err)
	}
	steps := slices.IndexFunc(rows.Axes, func(a model.AxisColumn) bool { return a.Axis == model.AxisStep })
	for i, at := range rows.Axes[steps].Values {
		if at != int64(i%100) {
			t.Fatalf("point %d is step %d of its episode", i, at)
		}
	}
}

// backlog is what one environment logs offline, in episodes of the same length.
type backlog struct {
	run     model.RunID
	writer  model.WriterID
	columns int
	length  int
	at      int
}

func newBacklog(run model.RunID, columns, length int) *backlog {
	return &backlog{run: run, writer: model.WriterID{2}, columns: columns, length: length}
}

func (l *backlog) batch(rows int) *model.Batch {
	g := model.RowGroup{Axes: []model.AxisColumn{{Axis: model.AxisStep, Relative: true}, {Axis: model.AxisRLStep}, {Axis: model.AxisEpisode}, {Axis: model.AxisEnvStep, Relative: true}}}
	g.Columns = make([]model.Column, l.columns)
	for c := range g.Columns {
		key := model.NewSeriesKey("reward", model.ScaleEnvironment, map[string]string{model.LabelEnv: fmt.Sprint(c)})
		g.Columns[c] = model.Column{Series: key, Kind: model.KindFloat}
	}
	b := &model.Batch{Run: l.run, Writer: l.writer, Attempt: 1, First: uint64(l.at + 1)}
	for range rows {
		for a, v := range []int{l.at % l.length, l.at / 20, l.at / l.length, l.at % l.length} {
			g.Axes[a].Values = append(g.Axes[a].Values, int64(v))
		}
		l.at++
		g.TimeNs, g.Seq = append(g.TimeNs, int64(l.at)), append(g.Seq, uint64(l.at))
		for c := range g.Columns {
			g.Columns[c].Floats = append(g.Columns[c].Floats, float64(l.at))
		}
	}
	b.Last, b.Groups = uint64(l.at), []model.RowGroup{g}
	return b
}
