package storetest

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
)

// branch is a run's series in a fork, with what the engine calls it.
type branch struct {
	run   *naiveRun
	of    *naiveSeries
	id    model.RunID
	upTo  int64
	depth uint32
	name  store.SeriesID
}

// inherited is a point of a fork's curve.
type inherited struct {
	point
	depth uint32
}

// forksAtOnce bounds what one comparison reads. Histories are compared thousands
// of times, each time other forks.
const forksAtOnce = 4

// family is a series of a run, or of none, and the runs that it inherits from.
type family struct {
	chain []branch
	text  string
}

// compareForks reads series of runs as forks of those of others.
func compareForks(ctx context.Context, e store.Engine, n *naive, limit int) error {
	all := families(n)
	random := rand.New(rand.NewPCG(uint64(len(all)), n.size()))
	for range min(forksAtOnce, len(all)) {
		f := all[random.IntN(len(all))]
		if err := compareFork(ctx, e, f.chain, f.text, limit); err != nil {
			return fmt.Errorf("%d runs from depth %d, the last %s up to %d, series %q: %w", len(f.chain), f.chain[0].depth, f.chain[len(f.chain)-1].id, f.chain[len(f.chain)-1].upTo, f.text, err)
		}
	}
	return nil
}

// families are all forks that there could be of two runs.
func families(n *naive) (out []family) {
	ids := slices.SortedFunc(maps.Keys(n.runs), func(a, b model.RunID) int { return bytes.Compare(a[:], b[:]) })
	for _, own := range ids {
		for _, parent := range ids {
			r, p := n.runs[own], n.runs[parent]
			if own == parent || r.deleted || p.deleted || len(r.attempts) == 0 || len(p.attempts) == 0 {
				continue
			}
			for _, text := range sortedTexts(p) {
				out = append(out, familiesOf(branch{run: r, id: own}, branch{run: p, id: parent}, text)...)
			}
		}
	}
	return out
}

func familiesOf(own, parent branch, text string) (out []family) {
	for _, upTo := range []int64{0, 3, 8, math.MaxInt64} {
		parent.upTo, parent.depth = upTo, 1
		out = append(out, family{[]branch{parent}, text})
		if s := own.run.series[text]; s != nil && s.kind == parent.run.series[text].kind {
			grandparent, middle := parent, own
			grandparent.depth, middle.depth, middle.upTo = 2, 1, 5
			out = append(out, family{[]branch{own, parent}, text}, family{[]branch{middle, grandparent}, text})
		}
	}
	return out
}

// size tells two moments of a history apart.
func (n *naive) size() (points uint64) {
	for _, r := range n.runs {
		for _, s := range r.series {
			points += uint64(len(s.points))
		}
	}
	return points
}

func compareFork(ctx context.Context, e store.Engine, chain []branch, text string, limit int) error {
	var q store.CurveRequest
	for i := range chain {
		b := &chain[i]
		b.of = b.run.series[text]
		list, _, err := e.ListSeries(ctx, b.id, store.SeriesFilter{Metric: b.of.key.Metric, Match: func(k model.SeriesKey) bool { return k.String() == text }, Limit: 1})
		if err != nil || len(list) != 1 {
			return fmt.Errorf("list: %v, %v", list, err)
		}
		b.name = list[0].ID
		if b.depth == 0 {
			q.Run, q.Series = b.id, b.name
		} else {
			q.Ancestors = append(q.Ancestors, store.Ancestor{Run: b.id, Series: b.name, UpTo: b.upTo})
		}
	}
	curve := forkCurve(chain)
	got, err := e.Curve(ctx, q)
	if err != nil {
		return err
	}
	if diff := gocmp.Diff(describeFork(chain, curve), got, gocmp.Comparer(sameNumber)); diff != "" {
		return fmt.Errorf("described (-want +got):\n%s", diff)
	}
	for _, along := range ways() {
		want := onFork(curve, along)
		if err := compareForkScan(ctx, e, q, chain[0].of, along, want, limit); err != nil {
			return fmt.Errorf("scan by %+v: %w", along, err)
		}
		if along.gaps || chain[0].of.kind != model.KindFloat && chain[0].of.kind != model.KindInt {
			continue
		}
		if err := compareForkBuckets(ctx, e, q, chain[0].of.kind, along.axis, want); err != nil {
			return fmt.Errorf("buckets by %s: %w", along.axis, err)
		}
	}
	return nil
}

// forkCurve is the rule of forks, point by point.
func forkCurve(chain []branch) (out []inherited) {
	for _, b := range chain {
		var mine []inherited
		for _, p := range b.run.curve(b.of) {
			if b.depth == 0 || isInherited(&p, b.upTo, out) {
				mine = append(mine, inherited{p, b.depth})
			}
		}
		out = append(out, mine...)
	}
	return out
}

func isInherited(p *point, upTo int64, nearer []inherited) bool {
	step, ok := p.axes[model.AxisStep]
	if !ok {
		return false
	}
	at := step
	if rl, has := p.axes[model.AxisRLStep]; has {
		at = rl
	}
	return at <= upTo && !slices.ContainsFunc(nearer, func(q inherited) bool {
		other, has := q.axes[model.AxisStep]
		switch {
		case !has || isRL(p) != isRL(&q.point):
			return false
		case isRL(p):
			return equalAxes(p, &q.point)
		}
		return other == step
	})
}

func onFork(curve []inherited, along way) (out []inherited) {
	for _, p := range curve {
		if _, ok := p.at(along); ok {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(p, q inherited) int {
		order := cmp.Or(along.compare(&p.point, &q.point), bytes.Compare(p.writer[:], q.writer[:]))
		if p.depth == q.depth {
			return cmp.Or(order, cmp.Compare(p.seq, q.seq), cmp.Compare(p.arrival, q.arrival))
		}
		return order // runs share no writer, so nothing is left to compare
	})
	return out
}

func describeFork(chain []branch, curve []inherited) store.Series {
	out := store.Series{Key: chain[0].of.key, Kind: chain[0].of.kind, Count: uint64(len(curve))}
	axes := map[model.Axis]bool{}
	if own := chain[0]; own.depth == 0 {
		d := describe(own.run, own.of)
		out.ID, out.Superseded = own.name, d.Superseded
		for _, a := range d.Axes {
			axes[a] = true
		}
	}
	for i, p := range curve {
		for a := range p.axes {
			axes[a] = true
		}
		if p.depth > 0 {
			out.Inherited++
		}
		if i == 0 {
			out.MinTimeNs, out.MaxTimeNs = p.time, p.time
		}
		out.MinTimeNs, out.MaxTimeNs = min(out.MinTimeNs, p.time), max(out.MaxTimeNs, p.time)
	}
	for _, a := range model.Axes() {
		if axes[a] {
			out.Axes = append(out.Axes, a)
		}
	}
	ordered := onFork(curve, way{axis: model.AxisStep})
	if len(ordered) == 0 {
		ordered = onFork(curve, way{axis: model.AxisTime})
	}
	if len(ordered) > 0 {
		last := ordered[len(ordered)-1]
		out.Last = &store.Point{TimeNs: last.time, Value: last.value}
		if step, ok := last.axes[model.AxisStep]; ok {
			out.Last.Step = &step
		}
	}
	return out
}

func compareForkScan(ctx context.Context, e store.Engine, q store.CurveRequest, of *naiveSeries, along way, want []inherited, limit int) error {
	req := store.ScanRequest{Run: q.Run, Series: q.Series, Ancestors: q.Ancestors, Axis: along.axis, Gaps: along.gaps, From: math.MinInt64, To: math.MaxInt64, Limit: limit}
	for {
		rows, err := e.Scan(ctx, req)
		if err != nil {
			return err
		}
		n := len(rows.TimeNs)
		if n > limit || n > len(want) || len(rows.Depth) != n || rows.Next == nil && n != len(want) || rows.Next != nil && n != limit {
			return fmt.Errorf("a page of %d rows, %d to come, next %v", n, len(want), rows.Next)
		}
		plain := make([]point, n)
		for i := range plain {
			if plain[i] = want[i].point; rows.Depth[i] != want[i].depth {
				return fmt.Errorf("row %d is of depth %d, want %d", i, rows.Depth[i], want[i].depth)
			}
		}
		if err := compareRows(rows, of, plain); err != nil {
			return err
		}
		if want = want[n:]; rows.Next == nil {
			return nil
		}
		req.After = rows.Next
	}
}

func compareForkBuckets(ctx context.Context, e store.Engine, q store.CurveRequest, kind model.Kind, axis model.Axis, want []inherited) error {
	req := store.BucketsRequest{Run: q.Run, Series: q.Series, Ancestors: q.Ancestors, Axis: axis, From: math.MinInt64, To: math.MaxInt64}
	for _, req.N = range []int{1, 3, 1000} {
		got, err := e.Buckets(ctx, req)
		if err != nil {
			return err
		}
		var plain []point
		for _, p := range want {
			plain = append(plain, p.point)
		}
		bare := slices.Clone(got)
		for i := range bare {
			bare[i].Inherited = 0
		}
		if err := CheckBuckets(bare, req.N, kind, xsOf(plain, axis), numbersOf(plain)); err != nil {
			return fmt.Errorf("%d buckets: %w", req.N, err)
		}
		for i, b := range got {
			of := uint64(0)
			for _, p := range want {
				if x, _ := p.x(axis); p.depth > 0 && x >= b.Lo && x <= b.Hi {
					of++
				}
			}
			if b.Inherited != of {
				return fmt.Errorf("%d buckets: %d points of bucket %d are inherited, want %d", req.N, b.Inherited, i, of)
			}
		}
		if err := compareForkGrid(ctx, e, req, kind, xsOf(plain, axis), numbersOf(plain)); err != nil {
			return fmt.Errorf("a grid of %d: %w", req.N, err)
		}
	}
	return nil
}

// compareForkGrid asks for columns that begin before the first point and end behind the last.
func compareForkGrid(ctx context.Context, e store.Engine, req store.BucketsRequest, kind model.Kind, xs []int64, vs []store.Number) error {
	if len(xs) == 0 {
		return nil
	}
	req.Grid, req.From, req.To = true, xs[0]-3, xs[len(xs)-1]+5
	got, err := e.Buckets(ctx, req)
	for i := range got {
		got[i].Inherited = 0
	}
	if err != nil {
		return err
	}
	return CheckGrid(got, req.From, req.To, req.N, kind, xs, vs)
}
