package local_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/testkit/cost"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/local"
)

// memoryShape is a way to make series, and the most that one may take.
type memoryShape struct {
	name   string
	most   float64
	points int // of each series, a batch for each
	group  func(series, point int) model.RowGroup
	shared int // series in a group
}

func memoryShapes() []memoryShape {
	step := func(i, point int) []model.AxisColumn {
		return []model.AxisColumn{{Axis: model.AxisStep, Values: []int64{int64(i + point)}}}
	}
	float := func(metric, scale string, labels map[string]string) model.Column {
		return model.Column{Series: model.NewSeriesKey(metric, scale, labels), Kind: model.KindFloat, Floats: []float64{0.5}}
	}
	plain := func(i, point int) model.RowGroup {
		return model.RowGroup{Axes: step(i, point), TimeNs: []int64{int64(1e18) + int64(i)*1e6 + int64(point)}, Columns: []model.Column{float(fmt.Sprintf("m/%06d", i), "", nil)}}
	}
	at := func(change func(g *model.RowGroup, i, point int)) func(int, int) model.RowGroup {
		return func(i, point int) model.RowGroup {
			g := plain(i, point)
			change(&g, i, point)
			return g
		}
	}
	return []memoryShape{
		{name: "one point", most: 400, points: 1, group: plain},
		{name: "one point without a step", most: 400, points: 1, group: at(func(g *model.RowGroup, _, _ int) { g.Axes = nil })},
		{name: "one point, many columns", most: 400, points: 1, group: plain, shared: 1000},
		{name: "three points", most: 1024, points: 3, group: plain},
		{name: "three points, many columns", most: 1024, points: 3, group: plain, shared: 1000},
		{name: "four labels", most: 1024, points: 1, group: at(func(g *model.RowGroup, i, _ int) {
			g.Columns[0] = float("loss", "", map[string]string{"host": fmt.Sprintf("node-%06d", i), "rank": fmt.Sprint(i), "zone": "eu-west-1", "gpu": "7"})
		})},
		{name: "long name", most: 1024, points: 1, group: at(func(g *model.RowGroup, i, _ int) {
			g.Columns[0] = float(strings.Repeat("layer.", 40)+fmt.Sprint(i), "", nil)
		})},
		{name: "RL environments", most: 1024, points: 2, group: at(func(g *model.RowGroup, i, point int) {
			relative := []int64{int64(point + 1)}
			g.Axes = []model.AxisColumn{{Axis: model.AxisStep, Relative: true, Values: relative}, {Axis: model.AxisRLStep, Values: []int64{int64(point)}}, {Axis: model.AxisEpisode, Values: []int64{3}}, {Axis: model.AxisEnvStep, Relative: true, Values: relative}}
			g.Columns[0] = float("reward", model.ScaleEnvironment, map[string]string{model.LabelEnv: fmt.Sprint(i)})
		})},
		{name: "relative steps", most: 1024, points: 1, group: at(func(g *model.RowGroup, _, point int) {
			g.Axes = []model.AxisColumn{{Axis: model.AxisStep, Relative: true, Values: []int64{int64(point)}}}
		})},
		{name: "text", most: 1024, points: 1, group: at(func(g *model.RowGroup, i, _ int) {
			g.Columns[0] = model.Column{Series: model.NewSeriesKey(fmt.Sprintf("note/%06d", i), "", nil), Kind: model.KindText, Texts: []string{"a line of text"}}
		})},
	}
}

// send writes series, 5,000 of them in a batch.
func (s *memoryShape) send(t testing.TB, e *local.Engine, run model.RunID, n int) {
	t.Helper()
	if err := e.PutAttempt(t.Context(), run, model.Attempt{Number: 1}); err != nil {
		t.Fatal(err)
	}
	seq := uint64(0)
	for point := range s.points {
		for from := 0; from < n; from += 5000 {
			seq++
			b := &model.Batch{Run: run, Writer: model.WriterID(run), Attempt: 1, First: seq, Last: seq}
			for i := from; i < min(from+5000, n); i++ {
				g := s.group(i, point)
				g.Seq = []uint64{seq}
				if s.shared > 0 && i%s.shared > 0 {
					last := &b.Groups[len(b.Groups)-1]
					last.Columns = append(last.Columns, g.Columns...)
					continue
				}
				b.Groups = append(b.Groups, g)
			}
			must(e.Append(t.Context(), b))
		}
	}
}

// TestMemoryOfSeries measures the heap that a series takes and what the engine says
// that it takes: while its points are in memory, once they are in a segment, when
// every series is read, and after a start from the log and from segments.
func TestMemoryOfSeries(t *testing.T) {
	if cost.Raced {
		t.Skip("the race detector's own memory is counted too")
	}
	const n = 10_000
	for _, s := range memoryShapes() {
		t.Run(s.name, func(t *testing.T) {
			dir, run := t.TempDir(), model.RunID{1}
			e := must(local.Open(t.Context(), local.Config{Dir: dir}))
			warm := memoryShapes()[0]
			warm.send(t, e, model.RunID{9}, n) // what is made once
			if err := e.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := e.DeleteRun(t.Context(), model.RunID{9}); err != nil {
				t.Fatal(err)
			}
			if err := e.Compact(t.Context(), true); err != nil {
				t.Fatal(err)
			}
			base, told := float64(heap()), float64(e.Stats().MemoryBytes)
			check := func(state string) {
				t.Helper()
				heap()
				taken, counted := (float64(heap())-base)/n, (float64(e.Stats().MemoryBytes)-told)/n
				t.Logf("%-12s %5.0f B a series, %5.0f counted", state, taken, counted)
				if taken > s.most {
					t.Errorf("%s: a series takes %.0f B, more than %.0f", state, taken, s.most)
				}
				if counted < 0.8*taken {
					t.Errorf("%s: %.0f B of %.0f are counted", state, counted, taken)
				}
			}
			s.send(t, e, run, n)
			check("in memory")
			list(t, e, run, n)
			check("listed")
			if err := e.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			check("flushed")
			list(t, e, run, n)
			check("read")
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			base, told = 0, 0
			e = nil
			base = float64(heap())
			e = must(local.Open(t.Context(), local.Config{Dir: dir}))
			defer e.Close()
			list(t, e, run, n)
			check("opened")
		})
	}
}

// list reads every series of a run.
func list(t testing.TB, e *local.Engine, run model.RunID, n int) {
	t.Helper()
	page, more, err := e.ListSeries(t.Context(), run, store.SeriesFilter{Limit: n})
	if err != nil || more || len(page) != n {
		t.Fatal(len(page), more, err)
	}
	if stats, err := e.RunStats(t.Context(), run); err != nil || stats.Series != uint64(n) {
		t.Fatal(stats.Series, err)
	}
}
