package local_test

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wal"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/local"
)

// TestEpisodesOfManyGroups reads RL points by episode whose row groups meet one another at
// every end, with points that were logged again by their writer and by later attempts. The
// oracle knows the rule for equal axes: of an attempt the last arrival, of these the last
// attempt's.
func TestEpisodesOfManyGroups(t *testing.T) {
	alone(t)
	e := must(local.Open(t.Context(), local.Config{Dir: t.TempDir(), FS: hasty{wal.OS{}}}))
	defer e.Close()
	run, chance := model.RunID{1}, rand.New(rand.NewPCG(5, 6))
	type place struct{ episode, step, update int64 }
	type point struct {
		attempt uint32
		value   float64
	}
	want, seq := map[place]point{}, [3]uint64{}
	for n := range 3 {
		if err := e.PutAttempt(t.Context(), run, model.Attempt{Number: uint32(n + 1), OpenedNs: int64(n)}); err != nil {
			t.Fatal(err)
		}
	}
	for batch := range 60 {
		attempt := uint32(1 + chance.IntN(3))
		b := &model.Batch{Run: run, Writer: model.WriterID{byte(attempt)}, Attempt: attempt, First: seq[attempt-1] + 1, Last: seq[attempt-1] + 1}
		seq[attempt-1]++
		g := model.RowGroup{Axes: []model.AxisColumn{{Axis: model.AxisStep}, {Axis: model.AxisRLStep}, {Axis: model.AxisEpisode}}, Columns: []model.Column{{Series: model.NewSeriesKey("r", model.ScaleEnvironment, nil)}}}
		g.Columns[0].Kind = model.KindFloat
		for row := range 30 {
			at := place{int64(batch/6) + chance.Int64N(3), chance.Int64N(4), int64(batch/4) + chance.Int64N(2)}
			value := float64(batch*100 + row)
			for i, x := range []int64{at.step, at.update, at.episode} {
				g.Axes[i].Values = append(g.Axes[i].Values, x)
			}
			g.TimeNs, g.Seq, g.Columns[0].Floats = append(g.TimeNs, chance.Int64N(1000)), append(g.Seq, b.First), append(g.Columns[0].Floats, value)
			if old, seen := want[at]; !seen || old.attempt <= attempt {
				want[at] = point{attempt, value}
			}
		}
		b.Groups = []model.RowGroup{g}
		if ack := must(e.Append(t.Context(), b)); len(ack.Refused) > 0 {
			t.Fatalf("%+v", ack)
		}
		if batch%5 < 4 {
			if err := e.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	var texts []string
	for at, p := range want {
		texts = append(texts, fmt.Sprintf("%04d %d %d: %v", at.episode, at.step, at.update, p.value))
	}
	slices.Sort(texts)
	for _, axis := range []model.Axis{model.AxisEpisode, model.AxisStep} {
		for _, limit := range []int{1, 13, 100_000} {
			got, order := pagesOf(t, e, store.ScanRequest{Run: run, Axis: axis, Gaps: axis == model.AxisEpisode, From: math.MinInt64, To: math.MaxInt64, Limit: limit})
			if !slices.IsSorted(order) {
				t.Errorf("%s, limit %d: the rows do not go by it, step, time", axis, limit)
			}
			slices.SortFunc(got, cmp.Compare[string])
			if !slices.Equal(texts, got) {
				t.Errorf("%s, limit %d: %d points, want %d", axis, limit, len(got), len(texts))
			}
		}
	}
}

// pagesOf reads page by page: what the rows say, and what they go by.
func pagesOf(t *testing.T, e *local.Engine, q store.ScanRequest) (got, order []string) {
	t.Helper()
	for {
		page := must(e.Scan(t.Context(), q))
		for i, value := range page.Values.Floats {
			step, update, episode := page.Axes[0].Values[i], page.Axes[1].Values[i], page.Axes[2].Values[i]
			got = append(got, fmt.Sprintf("%04d %d %d: %v", episode, step, update, value))
			first := episode
			if q.Axis == model.AxisStep {
				first = step
			}
			order = append(order, fmt.Sprintf("%04d %d %04d", first, step, page.TimeNs[i]))
		}
		if q.After = page.Next; q.After == nil {
			return got, order
		}
	}
}
