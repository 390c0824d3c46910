package storetest

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/kymogram/kymogram/internal/model"
)

// generator makes random writes that are close enough to each other to meet:
// few series, few steps, few times.
type generator struct {
	oracle *naive
	next   map[model.WriterID]uint64
}

func (g *generator) step(ctx context.Context, t *rapid.T, h *Harness) error {
	run := model.RunID{byte(rapid.IntRange(1, 2).Draw(t, "run"))}
	switch op := rapid.IntRange(0, 19).Draw(t, "op"); {
	case op == 0:
		return g.attempt(ctx, t, h, run)
	case op == 1 && rapid.IntRange(0, 3).Draw(t, "really") == 0:
		g.oracle.deleteRun(run)
		return h.Engine.DeleteRun(ctx, run)
	case op == 2:
		return reopen(h)
	case op <= 5:
		return h.Upkeep(h.Engine, rapid.IntRange(0, 3).Draw(t, "what"))
	case op == 6:
		return g.writer(ctx, t, h, run)
	}
	return g.append(ctx, t, h, run)
}

func (g *generator) attempt(ctx context.Context, t *rapid.T, h *Harness, run model.RunID) error {
	a := model.Attempt{Number: uint32(rapid.IntRange(1, 3).Draw(t, "attempt")), Precedence: int64(rapid.IntRange(0, 2).Draw(t, "precedence"))}
	if rapid.Bool().Draw(t, "resumes") {
		s := int64(rapid.IntRange(0, 10).Draw(t, "from"))
		a.ResumeFrom = &s
	}
	err := h.Engine.PutAttempt(ctx, run, a)
	if g.oracle.run(run).deleted {
		if model.CodeOf(err) != model.CodeRunDeleted {
			return fmt.Errorf("attempt of a deleted run: %v", err)
		}
		return nil
	}
	g.oracle.putAttempt(run, a)
	return err
}

func (g *generator) writer(ctx context.Context, t *rapid.T, h *Harness, run model.RunID) error {
	w, logger := g.pickWriter(t, run), uint64(5)
	r, opens := g.oracle.run(run), rapid.Bool().Draw(t, "opens")
	if r.deleted || r.attempts[1].Number == 0 && !opens {
		return nil
	}
	if rapid.Bool().Draw(t, "pinned") {
		r.loggers[w] = &logger
	} else {
		r.loggers[w] = nil
	}
	if opens {
		a := model.Attempt{Number: 1, Precedence: r.attempts[1].Precedence}
		g.oracle.putAttempt(run, a)
		return h.Engine.PutOpen(ctx, run, a, w, r.loggers[w])
	}
	return h.Engine.PutWriter(ctx, run, w, 1, r.loggers[w])
}

// pickWriter is one of three writers of a run; they belong to no other.
func (g *generator) pickWriter(t *rapid.T, run model.RunID) model.WriterID {
	return model.WriterID{run[0], byte(rapid.IntRange(1, 3).Draw(t, "writer"))}
}

func (g *generator) append(ctx context.Context, t *rapid.T, h *Harness, run model.RunID) error {
	b := g.batch(t, run)
	r := g.oracle.run(run)
	if _, ok := r.attempts[b.Attempt]; !ok && !r.deleted {
		a := model.Attempt{Number: b.Attempt, Precedence: int64(b.Attempt)}
		g.oracle.putAttempt(run, a)
		if err := h.Engine.PutAttempt(ctx, run, a); err != nil {
			return err
		}
	}
	want, code := g.oracle.append(b)
	got, err := h.Engine.Append(ctx, b)
	if model.CodeOf(err) != code || got.Mark != want.Mark || got.Stored != want.Stored || !sameRefusals(got.Refused, want.Refused) {
		return fmt.Errorf("append of %d…%d: %+v, %v; want %+v %s", b.First, b.Last, got, err, want, code)
	}
	g.spoil(b)
	return nil
}

// spoil overwrites a batch: an engine keeps no reference to it.
func (g *generator) spoil(b *model.Batch) {
	for i := range b.Groups {
		group := &b.Groups[i]
		for j := range group.TimeNs {
			group.TimeNs[j] = -1
		}
		for j := range group.Columns {
			for k := range group.Columns[j].Floats {
				group.Columns[j].Floats[k] = -1
			}
			for k := range group.Columns[j].Docs {
				copy(group.Columns[j].Docs[k], "spoiled")
			}
		}
	}
}

func sameRefusals(a, b []model.Refusal) bool {
	return slices.EqualFunc(a, b, func(x, y model.Refusal) bool { return x.Seq == y.Seq && x.Code == y.Code })
}

func (g *generator) batch(t *rapid.T, run model.RunID) *model.Batch {
	w := g.pickWriter(t, run)
	b := &model.Batch{Run: run, Writer: w, Attempt: uint32(rapid.IntRange(1, 3).Draw(t, "attempt"))}
	foreign := rapid.IntRange(0, 4).Draw(t, "foreign") == 0
	if foreign {
		b.Writer[1] += 10
	} else {
		b.First = g.oracle.marks[w] + 1
		b.Last = b.First + uint64(rapid.IntRange(0, 4).Draw(t, "records"))
		switch rapid.IntRange(0, 9).Draw(t, "shift") {
		case 0: // a gap
			b.First, b.Last = b.First+1, b.Last+1
		case 1: // a repeat, or half of one
			if b.First > 2 {
				b.First, b.Last = b.First-2, b.Last-2
			}
		case 2:
			b.Skipped = []model.Skipped{{First: b.First, Last: b.First, Reason: "torn", Points: 3}}
		}
	}
	for range rapid.IntRange(0, 3).Draw(t, "groups") {
		b.Groups = append(b.Groups, g.group(t, b))
	}
	if foreign && rapid.Bool().Draw(t, "turns") {
		giveTurns(t, b)
	}
	return b
}

// giveTurns mixes the rows of all groups.
func giveTurns(t *rapid.T, b *model.Batch) {
	rows := 0
	for i := range b.Groups {
		rows += b.Groups[i].Rows()
	}
	places := make([]uint32, rows)
	for i := range places {
		places[i] = uint32(2 * i) // ingest may have taken rows out
	}
	places = rapid.Permutation(places).Draw(t, "turn")
	for i := range b.Groups {
		n := b.Groups[i].Rows()
		b.Groups[i].Turn, places = places[:n:n], places[n:]
	}
}

func (g *generator) group(t *rapid.T, b *model.Batch) model.RowGroup {
	group := model.RowGroup{Unique: model.Uniqueness(rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(t, "unique"))}
	n := rapid.IntRange(1, 6).Draw(t, "rows")
	column := func(name string, hi int) []int64 {
		out := make([]int64, n)
		start := rapid.IntRange(0, hi).Draw(t, name)
		for i := range out {
			if out[i] = int64(start + i); rapid.IntRange(0, 3).Draw(t, name+" jumps") == 0 {
				out[i] = int64(rapid.IntRange(0, hi).Draw(t, name))
			}
		}
		return out
	}
	group.TimeNs = column("time", 20)
	rl := rapid.IntRange(0, 3).Draw(t, "rl") == 0
	relative := false
	if rapid.IntRange(0, 4).Draw(t, "stepless") > 0 {
		relative = rapid.IntRange(0, 4).Draw(t, "relative") == 0
		group.Axes = append(group.Axes, model.AxisColumn{Axis: model.AxisStep, Values: column("step", 12), Relative: relative})
	}
	if rl {
		group.Axes = append(group.Axes, model.AxisColumn{Axis: model.AxisRLStep, Values: column("rl_step", 4)}, model.AxisColumn{Axis: model.AxisEpisode, Values: column("episode", 2)})
		if rapid.Bool().Draw(t, "env step") {
			group.Axes = append(group.Axes, model.AxisColumn{Axis: model.AxisEnvStep, Values: column("env_step", 12), Relative: relative})
		}
	} else if rapid.IntRange(0, 5).Draw(t, "epoch") == 0 {
		group.Axes = append(group.Axes, model.AxisColumn{Axis: model.AxisEpoch, Values: column("epoch", 1)})
	}
	if b.First > 0 {
		for range n {
			group.Seq = append(group.Seq, b.First+uint64(rapid.IntRange(0, int(b.Last-b.First)).Draw(t, "seq")))
		}
		if rapid.Bool().Draw(t, "sorted") {
			slices.Sort(group.Seq)
		}
	}
	names := rapid.SliceOfNDistinct(rapid.IntRange(0, 10), 1, 4, rapid.ID).Draw(t, "series")
	for _, name := range names {
		group.Columns = append(group.Columns, g.column(t, name, n))
	}
	return group
}

// column is a series by number; its kind mostly follows from it.
func (g *generator) column(t *rapid.T, name, n int) model.Column {
	kind := []model.Kind{model.KindFloat, model.KindFloat, model.KindInt, model.KindText, model.KindHistogram, model.KindFloat}[name%6]
	if rapid.IntRange(0, 9).Draw(t, "other kind") == 0 {
		kind = rapid.SampledFrom([]model.Kind{model.KindFloat, model.KindInt, model.KindText}).Draw(t, "kind")
	}
	var labels map[string]string
	scale := ""
	if name%6 == 5 {
		scale, labels = model.ScaleEnvironment, map[string]string{model.LabelEnv: "env" + strings.Repeat("x", name%2)}
	}
	c := model.Column{Series: model.NewSeriesKey(fmt.Sprintf("m%d", name/2), scale, labels), Kind: kind}
	if name%2 == 1 && scale == "" {
		c.Series = model.NewSeriesKey(fmt.Sprintf("m%d", name/2), "", map[string]string{"rank": "1"})
	}
	for range n {
		v := rapid.IntRange(-3, 3).Draw(t, "value")
		switch kind {
		case model.KindFloat:
			c.Floats = append(c.Floats, rapid.SampledFrom([]float64{float64(v), float64(v), 0.1 * float64(v), math.NaN(), math.Inf(1), 1e300, math.MaxFloat64, math.Inf(-1)}).Draw(t, "float"))
		case model.KindInt:
			c.Ints = append(c.Ints, rapid.SampledFrom([]int64{int64(v), int64(v), int64(v), math.MaxInt64, math.MaxInt64 - 7, math.MinInt64}).Draw(t, "int"))
		case model.KindText:
			c.Texts = append(c.Texts, strings.Repeat("é", v+3))
		default:
			c.Docs = append(c.Docs, []byte(strings.Repeat("d", v+3)))
		}
	}
	return c
}
