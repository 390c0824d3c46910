package storetest

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
)

// compareSelect reads all runs at once: whole, a stretch of time, one metric, the latest points.
func compareSelect(ctx context.Context, e store.Engine, n *naive) error {
	runs := slices.SortedFunc(maps.Keys(n.runs), func(a, b model.RunID) int { return bytes.Compare(b[:], a[:]) })
	runs = append(runs, model.RunID{0xff, 1}) // there is none
	var times []int64
	metrics := map[string]bool{"": true}
	for _, r := range n.runs {
		for _, s := range r.series {
			metrics[s.key.Metric] = true
			for _, p := range s.points {
				times = append(times, p.time)
			}
		}
	}
	slices.Sort(times)
	ranges := [][2]int64{{math.MinInt64, math.MaxInt64}}
	if k := len(times); k > 0 {
		ranges = append(ranges, [2]int64{times[k/4], times[k/2]}, [2]int64{times[k/2], times[k/2]}, [2]int64{math.MinInt64, times[k/3]})
	}
	for metric := range metrics {
		for _, r := range ranges {
			q := store.SelectRequest{Runs: runs, Metric: metric, From: r[0], To: r[1]}
			if err := compareSelected(ctx, e, n, q); err != nil {
				return fmt.Errorf("select %q in %v: %w", metric, r, err)
			}
			q.Last, q.Numeric = true, true
			q.Match = func(key model.SeriesKey) bool { return len(key.Labels) == 0 }
			if err := compareSelected(ctx, e, n, q); err != nil {
				return fmt.Errorf("select the last of %q in %v: %w", metric, r, err)
			}
		}
	}
	return nil
}

func compareSelected(ctx context.Context, e store.Engine, n *naive, q store.SelectRequest) error {
	type place struct {
		run    int
		series string
	}
	got, order := map[place][]*store.Rows{}, []place{}
	for piece, err := range e.Select(ctx, q) {
		if err != nil {
			return err
		}
		if len(piece.Rows.TimeNs) == 0 || len(piece.Rows.TimeNs) > store.SelectRows {
			return fmt.Errorf("a piece of %d rows", len(piece.Rows.TimeNs))
		}
		at := place{slices.Index(q.Runs, piece.Run), piece.Series.Key.String()}
		if len(order) == 0 || order[len(order)-1] != at {
			order = append(order, at)
		}
		got[at] = append(got[at], piece.Rows)
	}
	var want []place
	for i, id := range q.Runs {
		r := n.runs[id]
		if r == nil || r.deleted || len(r.attempts) == 0 {
			continue
		}
		for _, text := range sortedTexts(r) {
			s := r.series[text]
			if q.Metric != "" && s.key.Metric != q.Metric || q.Match != nil && !q.Match(s.key) || q.Numeric && s.kind != model.KindFloat && s.kind != model.KindInt {
				continue
			}
			points := slices.DeleteFunc(on(r.curve(s), way{axis: model.AxisTime}), func(p point) bool { return p.time < q.From || p.time > q.To })
			if len(points) == 0 {
				continue
			}
			at := place{i, text}
			want = append(want, at)
			if err := sameSelected(got[at], points, q.Last); err != nil {
				return fmt.Errorf("series %s of run %s: %w", s.key, id, err)
			}
		}
	}
	if !slices.Equal(order, want) {
		return fmt.Errorf("series come as %v, want %v", order, want)
	}
	return nil
}

func sameSelected(pieces []*store.Rows, want []point, last bool) error {
	if last {
		if len(pieces) != 1 || len(pieces[0].TimeNs) != 1 {
			return fmt.Errorf("%d pieces for the last point", len(pieces))
		}
		latest := want[len(want)-1].time
		for _, p := range want { // any of the latest
			if p.time == latest && sameNumber(valueOf(&pieces[0].Values, 0), p.value) {
				return nil
			}
		}
		return fmt.Errorf("the last is %+v at %d, want one at %d", valueOf(&pieces[0].Values, 0), pieces[0].TimeNs[0], latest)
	}
	for _, rows := range pieces {
		for i := range rows.TimeNs {
			if len(want) == 0 {
				return fmt.Errorf("more points than there are")
			}
			p := &want[0]
			if rows.TimeNs[i] != p.time || !sameNumber(valueOf(&rows.Values, i), p.value) {
				return fmt.Errorf("a point is %+v at %d, want %+v at %d", valueOf(&rows.Values, i), rows.TimeNs[i], p.value, p.time)
			}
			for k, a := range rows.Axes {
				v, ok := p.axes[a.Axis]
				if has := rows.Has[k] == nil || rows.Has[k][i]; has != ok || ok && a.Values[i] != v {
					return fmt.Errorf("a point has %s %d (%v), want %d (%v)", a.Axis, a.Values[i], has, v, ok)
				}
			}
			want = want[1:]
		}
	}
	if len(want) > 0 {
		return fmt.Errorf("%d points are missing", len(want))
	}
	return nil
}
