package storetest

import (
	"cmp"
	"context"
	"fmt"
	"math"

	"github.com/kymogram/kymogram/internal/model"
)

// Golden is a fixed history: a folder that an engine wrote with it stays
// readable by every later version of that engine.
type Golden struct {
	oracle *naive
	seed   uint64
	writes int
	rows   int // of scalars in a batch; 0: twelve
}

// WriteGolden puts the history into an empty engine. upkeep comes between its
// parts, so that some points are merged, some flushed and some in the log only.
func WriteGolden(ctx context.Context, h *Harness) error {
	g := &Golden{oracle: newNaive(SeriesLimit)}
	return g.replay(ctx, h)
}

// CheckGolden holds an engine against the history and returns how many points
// that are.
func CheckGolden(ctx context.Context, h *Harness) (points int, err error) {
	g := &Golden{oracle: newNaive(SeriesLimit)}
	if err := g.replay(ctx, nil); err != nil {
		return 0, err
	}
	for _, r := range g.oracle.runs {
		for _, s := range r.series {
			points += len(s.points)
		}
	}
	return points, compare(ctx, h.Engine, g.oracle, 1000)
}

// next is a fixed sequence of numbers that looks random.
func (g *Golden) next() uint64 {
	g.seed = g.seed*6364136223846793005 + 1442695040888963407
	return g.seed ^ g.seed>>29
}

// replay does the history on the oracle, and on an engine when there is one.
func (g *Golden) replay(ctx context.Context, h *Harness) error {
	first, second, gone := model.RunID{1}, model.RunID{2}, model.RunID{3}
	resume := int64(60)
	logger := uint64(77)
	for _, run := range []model.RunID{first, second, gone} {
		if err := g.attempt(ctx, h, run, model.Attempt{Number: 1, Precedence: 1, OpenedNs: 5}); err != nil {
			return err
		}
	}
	for part := range 5 {
		if part == 2 {
			if err := g.attempt(ctx, h, first, model.Attempt{Number: 2, Precedence: 2, OpenedNs: 9, ResumeFrom: &resume}); err != nil {
				return err
			}
			if err := g.writer(ctx, h, first, model.WriterID{1, 2}, 2, &logger); err != nil {
				return err
			}
		}
		for batch := range 4 {
			run := []model.RunID{first, first, second, gone}[batch]
			attempt := uint32(1)
			if part >= 2 && batch == 1 {
				attempt = 2
			}
			if err := g.append(ctx, h, g.batch(run, attempt)); err != nil {
				return err
			}
		}
		if part == 3 {
			g.oracle.deleteRun(gone)
			if h != nil {
				if err := h.Engine.DeleteRun(ctx, gone); err != nil {
					return err
				}
			}
		}
		// flush, flush, merge of both, flush; the last part stays in the log.
		if h != nil && part < 4 {
			if err := h.Upkeep(h.Engine, []int{0, 0, 3, 0}[part]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (g *Golden) attempt(ctx context.Context, h *Harness, run model.RunID, a model.Attempt) error {
	g.oracle.putAttempt(run, a)
	if h == nil {
		return nil
	}
	return h.Engine.PutAttempt(ctx, run, a)
}

func (g *Golden) writer(ctx context.Context, h *Harness, run model.RunID, w model.WriterID, attempt uint32, logger *uint64) error {
	g.oracle.run(run).loggers[w] = logger
	if h == nil {
		return nil
	}
	return h.Engine.PutWriter(ctx, run, w, attempt, logger)
}

func (g *Golden) append(ctx context.Context, h *Harness, b *model.Batch) error {
	want, code := g.oracle.append(b)
	if h == nil {
		return nil
	}
	got, err := h.Engine.Append(ctx, b)
	if model.CodeOf(err) != code || got.Mark != want.Mark || got.Stored != want.Stored || !sameRefusals(got.Refused, want.Refused) {
		return fmt.Errorf("append: %+v, %w; want %+v %s", got, err, want, code)
	}
	return nil
}

// batch is twelve records of a writer: scalars of both kinds on common steps, a
// text, a histogram, and an environment's points.
func (g *Golden) batch(run model.RunID, attempt uint32) *model.Batch {
	g.writes++
	w := model.WriterID{run[0], byte(attempt)}
	first := g.oracle.marks[w] + 1
	rows := cmp.Or(g.rows, 12)
	b := &model.Batch{Run: run, Writer: w, Attempt: attempt, First: first, Last: first + uint64(rows) + 1}
	b.Skipped = []model.Skipped{{First: b.Last, Last: b.Last, Reason: "torn", Points: uint64(g.writes)}}
	b.Updates = []model.Update{{Op: model.OpAddTags, Seq: first, Tags: []string{fmt.Sprint("write-", g.writes)}}}
	b.Groups = []model.RowGroup{g.scalars(first, rows), g.texts(first+uint64(rows), g.writes), g.steps(first + uint64(rows))}
	return b
}

func (g *Golden) scalars(first uint64, rows int) model.RowGroup {
	group := model.RowGroup{Axes: []model.AxisColumn{{Axis: model.AxisStep}, {Axis: model.AxisEpoch}}, Columns: []model.Column{
		{Series: model.NewSeriesKey("loss", "", nil), Kind: model.KindFloat},
		{Series: model.NewSeriesKey("accuracy", "", map[string]string{"rank": "1"}), Kind: model.KindFloat},
		{Series: model.NewSeriesKey("tokens", "", nil), Kind: model.KindInt},
	}}
	for i := range rows {
		step := int64(first) - 1 + int64(i)
		if g.next()%7 == 0 {
			step -= int64(g.next() % 9) // out of order, and now and then a repeat
		}
		group.Axes[0].Values = append(group.Axes[0].Values, step)
		group.Axes[1].Values = append(group.Axes[1].Values, step/20)
		group.TimeNs = append(group.TimeNs, 1_700_000_000_123_456_789+step*1_000_003+int64(g.next()%5))
		group.Seq = append(group.Seq, first+uint64(i))
		group.Columns[0].Floats = append(group.Columns[0].Floats, g.float())
		group.Columns[1].Floats = append(group.Columns[1].Floats, float64(g.next()%10_000)/10_000)
		group.Columns[2].Ints = append(group.Columns[2].Ints, math.MaxInt64-int64(g.next()%1000))
	}
	return group
}

// float takes any bits at times: NaNs with a payload, infinities, denormals.
func (g *Golden) float() float64 {
	switch g.next() % 8 {
	case 0:
		return math.Float64frombits(g.next())
	case 1:
		return math.Float64frombits(0x7ff0000000000001 + g.next()%1000)
	case 2:
		return math.Float64frombits(1<<63 | g.next()%3)
	case 3:
		return 1e300
	case 4:
		return math.Inf(int(g.next()%2)*2 - 1)
	}
	return 0.1 * float64(g.next()%100)
}

func (g *Golden) texts(seq uint64, n int) model.RowGroup {
	return model.RowGroup{
		Axes: []model.AxisColumn{{Axis: model.AxisStep, Values: []int64{0}, Relative: true}}, TimeNs: []int64{int64(n)}, Seq: []uint64{seq},
		Columns: []model.Column{
			{Series: model.NewSeriesKey("note", "", nil), Kind: model.KindText, Texts: []string{fmt.Sprintf("naïve %d\x00\n", n)}},
			{Series: model.NewSeriesKey("weights", "", nil), Kind: model.KindHistogram, Docs: [][]byte{{byte(n), 0, 255}}},
		},
	}
}

func (g *Golden) steps(seq uint64) model.RowGroup {
	group := model.RowGroup{
		Axes:    []model.AxisColumn{{Axis: model.AxisStep}, {Axis: model.AxisRLStep}, {Axis: model.AxisEpisode}, {Axis: model.AxisEnvStep}},
		Columns: []model.Column{{Series: model.NewSeriesKey("reward", model.ScaleEnvironment, map[string]string{model.LabelEnv: "default"}), Kind: model.KindFloat}},
	}
	for i := range int64(3) {
		group.Axes[0].Values = append(group.Axes[0].Values, i)
		group.Axes[1].Values = append(group.Axes[1].Values, int64(g.writes))
		group.Axes[2].Values = append(group.Axes[2].Values, int64(g.writes/4))
		group.Axes[3].Values = append(group.Axes[3].Values, i)
		group.TimeNs = append(group.TimeNs, int64(g.writes)*10+i)
		group.Seq = append(group.Seq, seq)
		group.Columns[0].Floats = append(group.Columns[0].Floats, g.float())
	}
	return group
}
