package curve_test

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse/curve"
)

// Reads of many series agree with the rules, looked at point by point.
func TestReadsOfManyAgree(t *testing.T) {
	t.Parallel()
	tables := open(t)
	for seed := range uint64(seeds) {
		f := &fixture{Rand: rand.New(rand.NewPCG(seed, 2)), tables: tables}
		runs := ledger{}
		for n := range byte(2) {
			id := model.RunID{byte(seed*2) + n + 1, byte(seed)}
			runs[id] = f.fill(t, id, 60+f.IntN(120))
		}
		c := &comparison{ledger: runs, reader: curve.New(tables.db, tables.name, runs), limit: 5 + f.IntN(30), Rand: f.Rand}
		for id, h := range runs {
			t.Run(fmt.Sprintf("seed %d run %s", seed, id), func(t *testing.T) {
				c.compareEnds(t, h)
				c.compareSteps(t, h)
				c.compareAcross(t, h)
			})
		}
		t.Run(fmt.Sprintf("seed %d select", seed), func(t *testing.T) { c.compareSelect(t) })
	}
}

func (h *history) sorted() []curve.Series {
	return slices.SortedFunc(slices.Values(h.series), func(a, b curve.Series) int { return cmp.Compare(a.Text, b.Text) })
}

func (h *history) nextStep(s curve.Series, k curve.StepKey) (out int64) {
	found := false
	for _, p := range h.curve(s.ID) {
		at, has := p.axes[model.AxisEpisode]
		if !p.stepped() || k.Episodic && (!has || at != k.Episode) || !k.Episodic && has && s.Key.Scale == model.ScaleEnvironment {
			continue
		}
		next := p.axes[model.AxisStep]
		if next < math.MaxInt64 {
			next++
		}
		if !found || next > out {
			out, found = next, true
		}
	}
	return out
}

func (c *comparison) compareSteps(t *testing.T, h *history) {
	t.Helper()
	var keys []curve.StepKey
	var want []int64
	for _, s := range h.series {
		for _, k := range []curve.StepKey{{}, {Episodic: true, Episode: 3}, {Episodic: true, Episode: math.MinInt64}, {Episodic: true, Episode: -1}} {
			k.Series = s.ID
			keys, want = append(keys, k), append(want, h.nextStep(s, k))
		}
	}
	got, err := c.reader.NextSteps(t.Context(), h.facts.Run, keys)
	if diff := gocmp.Diff(want, got); err != nil || diff != "" {
		t.Fatalf("next steps of %v: %v\n%s", keys, err, diff)
	}
}

func (c *comparison) compareEnds(t *testing.T, h *history) {
	t.Helper()
	var want []model.Start
	envs := map[string]model.EnvEnd{}
	for _, s := range h.sorted() {
		start, k := model.Start{Metric: s.Key.Metric, Scale: s.Key.Scale, Labels: s.Key.LabelMap()}, curve.StepKey{}
		var rl, ep *int64
		for _, p := range h.curve(s.ID) {
			raise(&rl, p.axes, model.AxisRLStep)
			raise(&ep, p.axes, model.AxisEpisode)
		}
		if ep != nil && s.Key.Scale == model.ScaleEnvironment {
			start.Episode, k.Episodic, k.Episode = ep, true, *ep
		}
		start.Next = h.nextStep(s, k)
		want = append(want, start)
		if name, labelled := s.Key.LabelMap()[model.LabelEnv]; labelled && rl != nil {
			env, known := envs[name]
			if env.Env = name; !known || *rl > env.LastRLStep {
				env.LastRLStep = *rl
			}
			if ep != nil && (env.LastEpisode == nil || *ep > *env.LastEpisode) {
				env.LastEpisode = ep
			}
			envs[name] = env
		}
	}
	starts, got, complete, err := c.reader.Ends(t.Context(), h.facts.Run, 1000)
	if diff := gocmp.Diff(want, starts); err != nil || !complete || diff != "" {
		t.Fatalf("ends: complete %v: %v\n%s", complete, err, diff)
	}
	for _, env := range got {
		if diff := gocmp.Diff(envs[env.Env], env); diff != "" {
			t.Fatalf("environment: %s", diff)
		}
	}
	if len(got) != len(envs) {
		t.Fatalf("%d environments, want %d", len(got), len(envs))
	}
}

func raise(to **int64, of map[model.Axis]int64, axis model.Axis) {
	if x, ok := of[axis]; ok && (*to == nil || x > **to) {
		*to = &x
	}
}

func (c *comparison) compareAcross(t *testing.T, h *history) {
	t.Helper()
	for _, axis := range []model.Axis{model.AxisStep, model.AxisTime, model.AxisEpisode} {
		for _, sel := range []store.Attempts{{}, {All: true}, {Number: 1}} {
			q := store.AcrossRequest{Run: h.facts.Run, Axis: axis, From: math.MinInt64, To: math.MaxInt64, Limit: c.limit, Attempts: sel}
			c.sameAcross(t, h, q)
			q.At = []int64{-1, 2, 3, 7, math.MaxInt64}
			c.sameAcross(t, h, q)
			q.At = []int64{}
			c.sameAcross(t, h, q)
			q.At, q.From, q.To, q.Metrics, q.After = nil, 1, 6, []string{"m1", "shared"}, h.sorted()[0].Text
			c.sameAcross(t, h, q)
		}
	}
}

func (c *comparison) sameAcross(t *testing.T, h *history, q store.AcrossRequest) {
	t.Helper()
	var pieces []*store.Rows
	for rows, err := range c.reader.Across(t.Context(), q) {
		if err != nil {
			t.Fatalf("across %+v: %v", q, err)
		}
		pieces = append(pieces, rows)
	}
	for _, s := range h.sorted() {
		if s.Text <= q.After || len(q.Metrics) > 0 && !slices.Contains(q.Metrics, s.Key.Metric) {
			continue
		}
		want := slices.DeleteFunc(along(h.selected(s.ID, q.Attempts), q.Axis, false), func(p point) bool {
			x, _ := p.x(q.Axis, false)
			return x < q.From || x > q.To || q.At != nil && !slices.Contains(q.At, x)
		})
		for len(want) > 0 {
			if len(pieces) == 0 || len(pieces[0].TimeNs) > len(want) || len(pieces[0].TimeNs) == 0 {
				t.Fatalf("across %+v: series %d: %d points are missing", q, s.ID, len(want))
			}
			n := len(pieces[0].TimeNs)
			if err := compareRows(pieces[0], s, want[:n], false); err != nil {
				t.Fatalf("across %+v: series %d: %v", q, s.ID, err)
			}
			if more := pieces[0].Next != nil; more != (n < len(want)) {
				t.Fatalf("across %+v: series %d: more is %v", q, s.ID, more)
			}
			want, pieces = want[n:], pieces[1:]
		}
	}
	if len(pieces) > 0 {
		t.Fatalf("across %+v: %d pieces too many", q, len(pieces))
	}
}

func (c *comparison) compareSelect(t *testing.T) {
	t.Helper()
	runs := []model.RunID{{0xff}}
	for id := range c.ledger {
		runs = append(runs, id)
	}
	for _, r := range [][2]int64{{math.MinInt64, math.MaxInt64}, {2, 7}, {3, 3}} {
		for _, last := range []bool{false, true} {
			q := store.SelectRequest{Runs: runs, From: r[0], To: r[1], Last: last, Numeric: last}
			c.sameSelect(t, q)
			q.Metric = "shared"
			c.sameSelect(t, q)
		}
	}
}

func (c *comparison) sameSelect(t *testing.T, q store.SelectRequest) {
	t.Helper()
	type place struct {
		run    model.RunID
		series string
	}
	got, order := map[place]*store.Rows{}, []place{}
	for piece, err := range c.reader.Select(t.Context(), q) {
		if err != nil {
			t.Fatalf("select %+v: %v", q, err)
		}
		at := place{piece.Run, piece.Series.Key.String()}
		got[at], order = piece.Rows, append(order, at)
	}
	var want []place
	for _, id := range q.Runs[1:] {
		for _, s := range c.ledger[id].sorted() {
			points := slices.DeleteFunc(along(c.ledger[id].curve(s.ID), model.AxisTime, false), func(p point) bool { return p.time < q.From || p.time > q.To })
			if len(points) == 0 || q.Metric != "" && s.Key.Metric != q.Metric || q.Numeric && s.Kind != model.KindFloat && s.Kind != model.KindInt {
				continue
			}
			at := place{id, s.Text}
			want = append(want, at)
			rows := got[at]
			if rows == nil {
				t.Fatalf("select %+v: %v is missing", q, at)
			}
			if !q.Last {
				if err := compareRows(rows, s, points, false); err != nil {
					t.Fatalf("select %+v: %v: %v", q, at, err)
				}
				continue
			}
			latest := points[len(points)-1].time
			if len(rows.TimeNs) != 1 || !slices.ContainsFunc(points, func(p point) bool { return p.time == latest && sameNumber(p.value, valueAt(&rows.Values, 0)) }) {
				t.Fatalf("select %+v: %v: the last is %+v", q, at, rows)
			}
		}
	}
	if !slices.Equal(order, want) {
		t.Fatalf("select %+v: series come as %v, want %v", q, order, want)
	}
}
