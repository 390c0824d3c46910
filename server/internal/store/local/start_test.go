package local_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wal/faultfs"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/local"
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

// TestStartsOfRestarts restarts a program in the middle of an episode, once while
// its steps count from 1 and once while they count from 0, and logs points without
// an episode between: each goes on behind its own last step.
func TestStartsOfRestarts(t *testing.T) {
	e, err := local.Open(t.Context(), local.Config{Dir: "/data", FS: faultfs.New()})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	run := model.RunID{1}
	if err := e.PutAttempt(t.Context(), run, model.Attempt{Number: 1}); err != nil {
		t.Fatal(err)
	}
	seven := int64(7)
	for n, part := range []struct {
		episode *int64
		offset  []int64 // as the client counts
		want    []int64
	}{
		{&seven, []int64{1, 2, 3}, []int64{1, 2, 3}},
		{nil, []int64{0, 1}, []int64{0, 1}},
		{&seven, []int64{1, 2}, []int64{4, 5}},
		{nil, []int64{0, 1}, []int64{2, 3}},
		{nil, []int64{1}, []int64{4}},
		{&seven, []int64{0, 1}, []int64{6, 7}},
	} {
		g := model.RowGroup{Axes: []model.AxisColumn{{Axis: model.AxisStep, Values: part.offset, Relative: true}, {Axis: model.AxisRLStep}, {Axis: model.AxisEnvStep, Values: part.offset, Relative: true}}}
		if part.episode != nil {
			g.Axes = slices.Insert(g.Axes, 2, model.AxisColumn{Axis: model.AxisEpisode})
		}
		col := model.Column{Series: model.NewSeriesKey("reward", model.ScaleEnvironment, map[string]string{model.LabelEnv: "0"}), Kind: model.KindFloat}
		for i := range part.offset {
			g.Axes[1].Values = append(g.Axes[1].Values, int64(n))
			if part.episode != nil {
				g.Axes[2].Values = append(g.Axes[2].Values, *part.episode)
			}
			g.TimeNs, g.Seq = append(g.TimeNs, int64(10*n+i)), append(g.Seq, uint64(i+1))
			col.Floats = append(col.Floats, 1)
		}
		g.Columns = []model.Column{col}
		b := &model.Batch{Run: run, Writer: model.WriterID{byte(n + 1)}, Attempt: 1, First: 1, Last: uint64(len(part.offset)), Groups: []model.RowGroup{g}}
		if _, err := e.Append(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		rows, err := e.Scan(t.Context(), store.ScanRequest{Run: run, Axis: model.AxisRLStep, From: int64(n), To: int64(n) + 1, Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		for _, axis := range []model.Axis{model.AxisStep, model.AxisEnvStep} {
			at := slices.IndexFunc(rows.Axes, func(a model.AxisColumn) bool { return a.Axis == axis })
			if got := rows.Axes[at].Values; !slices.Equal(got, part.want) {
				t.Errorf("part %d: %s %v, not %v", n, axis, got, part.want)
			}
		}
	}
}
