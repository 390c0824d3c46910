package storetest

import (
	"context"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
)

// SeriesLimit is the limit of series per run that an engine under test has.
const SeriesLimit = 9

// Harness is an engine under test and what may happen to it.
type Harness struct {
	Engine store.Engine
	// Reopen stops the engine as a crash would, keeping what was acknowledged,
	// and opens it again.
	Reopen func() (store.Engine, error)
	// Upkeep does background work at once, as the number says; it changes no
	// answer. Numbers are taken modulo what there is.
	Upkeep func(e store.Engine, what int) error
	// Cases is how many random histories are compared, 0 for as many as rapid's flags say. An
	// engine whose reads cross a network takes seconds for each; a run of the suite then tries few,
	// and other ones each time.
	Cases int
}

// Run puts an engine through the suite. open makes an empty one with a limit of
// [SeriesLimit] series per run.
func Run(t *testing.T, open func(t testing.TB) *Harness) {
	t.Run("history", func(t *testing.T) { testHistory(t, open) })
	t.Run("bulk", func(t *testing.T) { testBulk(t, open) })
	RunFixed(t, open)
}

// RunFixed is Run without the random histories and the bulk of points, which ask an engine
// thousands of times.
func RunFixed(t *testing.T, open func(t testing.TB) *Harness) {
	t.Run("bits", func(t *testing.T) { testBits(t, open) })
	t.Run("extremes", func(t *testing.T) { testExtremes(t, open) })
	t.Run("across", func(t *testing.T) { testAcross(t, open) })
	t.Run("meta", func(t *testing.T) { testMeta(t, open) })
	t.Run("errors", func(t *testing.T) { testErrors(t, open) })
}

// RunHistory is the part of Run that compares every read with the oracle's.
func RunHistory(t *testing.T, open func(t testing.TB) *Harness) { testHistory(t, open) }

// testHistory drives an engine and the oracle with the same random writes.
func testHistory(t *testing.T, open func(t testing.TB) *Harness) {
	ctx := t.Context()
	enough, cases, failed := false, 0, false
	rapid.Check(t, func(rt *rapid.T) {
		if enough && !failed {
			return
		}
		h := open(t)
		defer func() { _ = h.Engine.Close() }()
		cases++
		enough = cases == h.Cases || enough
		defer func() { failed = failed || rt.Failed() }() // rapid then looks for a smaller failure
		g := &generator{oracle: newNaive(SeriesLimit), next: map[model.WriterID]uint64{}}
		for range rapid.IntRange(1, 25).Draw(rt, "steps") {
			if err := g.step(ctx, rt, h); err != nil {
				rt.Fatal(err)
			}
		}
		if err := compare(ctx, h.Engine, g.oracle, rapid.SampledFrom([]int{1, 3, 1000}).Draw(rt, "limit")); err != nil {
			rt.Fatal(err)
		}
		if err := reopen(h); err != nil {
			rt.Fatal(err)
		}
		if err := compare(ctx, h.Engine, g.oracle, 1000); err != nil {
			rt.Fatalf("after reopening: %v", err)
		}
	})
}

func reopen(h *Harness) error {
	e, err := h.Reopen()
	if err != nil {
		return err
	}
	h.Engine = e
	return nil
}

// testBits writes float64 of every class and reads the same bits at each stage.
func testBits(t *testing.T, open func(t testing.TB) *Harness) {
	ctx := t.Context()
	h := open(t)
	defer func() { _ = h.Engine.Close() }()
	var want []float64
	for _, b := range []uint64{0, 1 << 63, 1, 0x000fffffffffffff, 0x7ff0000000000000, 0xfff0000000000000, 0x7ff8000000000000, 0x7ff0000000000001, 0xfff8dead0000beef, 0x7fefffffffffffff} {
		want = append(want, math.Float64frombits(b))
	}
	for i := range 300 {
		want = append(want, math.Float64frombits(uint64(i)*0x9e3779b97f4a7c15), float64(i)/7, float64(i), float64(float32(i)*0.1))
	}
	run, w := model.RunID{1}, model.WriterID{1}
	if err := h.Engine.PutAttempt(ctx, run, model.Attempt{Number: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Engine.Append(ctx, bitsBatch(run, w, want)); err != nil {
		t.Fatal(err)
	}
	check := func(stage string) {
		rows, err := h.Engine.Scan(ctx, store.ScanRequest{Run: run, Series: idOf(t, h.Engine, run, "x"), Axis: model.AxisStep, From: math.MinInt64, To: math.MaxInt64, Limit: len(want) + 1})
		if err != nil || len(rows.Values.Floats) != len(want) {
			t.Fatalf("%s: %v, %v", stage, rows, err)
		}
		for i, v := range rows.Values.Floats {
			if math.Float64bits(v) != math.Float64bits(want[i]) {
				t.Fatalf("%s: value %d is %x, want %x", stage, i, math.Float64bits(v), math.Float64bits(want[i]))
			}
		}
	}
	check("in memory")
	for what := range 4 {
		if err := reopen(h); err != nil {
			t.Fatal(err)
		}
		check("after reopening")
		if err := h.Upkeep(h.Engine, what); err != nil {
			t.Fatal(err)
		}
		check("after upkeep")
	}
}

func bitsBatch(run model.RunID, w model.WriterID, vs []float64) *model.Batch {
	g := model.RowGroup{Axes: []model.AxisColumn{{Axis: model.AxisStep}}, Columns: []model.Column{{Series: model.NewSeriesKey("x", "", nil), Kind: model.KindFloat, Floats: vs}}}
	for i := range vs {
		g.Axes[0].Values = append(g.Axes[0].Values, int64(i))
		g.TimeNs = append(g.TimeNs, int64(i))
		g.Seq = append(g.Seq, uint64(i+1))
	}
	return &model.Batch{Run: run, Writer: w, Attempt: 1, First: 1, Last: uint64(len(vs)), Groups: []model.RowGroup{g}}
}

func pending(ctx context.Context, e store.Engine) (out []store.Meta, err error) {
	for m, err := range e.PendingMeta(ctx) {
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, nil
}

// testMeta sees that updates come back until they are released.
func testMeta(t *testing.T, open func(t testing.TB) *Harness) {
	ctx := t.Context()
	h := open(t)
	defer func() { _ = h.Engine.Close() }()
	run, w := model.RunID{1}, model.WriterID{1}
	if err := h.Engine.PutAttempt(ctx, run, model.Attempt{Number: 1}); err != nil {
		t.Fatal(err)
	}
	var lsns []uint64
	for seq := range uint64(4) {
		ack, err := h.Engine.Append(ctx, &model.Batch{Run: run, Writer: w, Attempt: 1, First: seq + 1, Last: seq + 1, Updates: []model.Update{{Op: model.OpSetAttribute, Seq: seq + 1, Path: "a/b", Value: model.FloatValue(math.Inf(1))}}})
		if err != nil {
			t.Fatal(err)
		}
		lsns = append(lsns, ack.LSN)
	}
	for released := range 5 {
		if released > 0 {
			h.Engine.ReleaseMeta(lsns[released-1])
		}
		got, err := pending(ctx, h.Engine)
		if err != nil || len(got) != 4-released {
			t.Fatalf("%d pending (%v) with %d released", len(got), err, released)
		}
		for i, m := range got {
			if m.LSN != lsns[released+i] || m.Run != run || m.Writer != w || len(m.Updates) != 1 || m.Updates[0].Seq != uint64(released+i+1) || m.Updates[0].Value.Float != math.Inf(1) {
				t.Fatalf("pending %d is %+v", i, m)
			}
		}
		if err := h.Upkeep(h.Engine, released); err != nil {
			t.Fatal(err)
		}
		// A crash may forget a release that nothing durable followed, never an update.
		if err := reopen(h); err != nil {
			t.Fatal(err)
		}
		if got, err := pending(ctx, h.Engine); err != nil || len(got) < 4-released {
			t.Fatalf("%d pending (%v) after reopening with %d released", len(got), err, released)
		}
		if released > 0 {
			h.Engine.ReleaseMeta(lsns[released-1])
		}
	}
}

// testErrors asks for what is not there.
func testErrors(t *testing.T, open func(t testing.TB) *Harness) {
	ctx := t.Context()
	h := open(t)
	defer func() { _ = h.Engine.Close() }()
	run, w := model.RunID{1}, model.WriterID{1}
	batch := bitsBatch(run, w, []float64{1})
	expect := func(what string, err error, want model.Code) {
		t.Helper()
		if model.CodeOf(err) != want {
			t.Errorf("%s: %v (%s), want %s", what, err, model.CodeOf(err), want)
		}
	}
	_, err := h.Engine.Append(ctx, batch)
	expect("append without an attempt", err, model.CodeNotFound)
	_, err = h.Engine.Scan(ctx, store.ScanRequest{Run: run, Axis: model.AxisStep, Limit: 1})
	expect("scan of an unknown run", err, model.CodeNotFound)
	if err := h.Engine.PutAttempt(ctx, run, model.Attempt{Number: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err = h.Engine.Append(ctx, batch); err != nil {
		t.Fatal(err)
	}
	_, err = h.Engine.Scan(ctx, store.ScanRequest{Run: run, Series: idOf(t, h.Engine, run, "x") + 7, Axis: model.AxisStep, Limit: 1})
	expect("scan of an unknown series", err, model.CodeNotFound)
	_, err = h.Engine.Buckets(ctx, store.BucketsRequest{Run: run, Series: idOf(t, h.Engine, run, "x"), Axis: model.AxisStep})
	expect("no buckets", err, model.CodeInvalid)
	_, err = h.Engine.Scan(ctx, store.ScanRequest{Run: run, Series: idOf(t, h.Engine, run, "x"), Axis: "nonsense", Limit: 1})
	expect("unknown axis", err, model.CodeInvalid)
	uneven := bitsBatch(run, w, []float64{1, 2})
	uneven.First, uneven.Last, uneven.Groups[0].Seq = 2, 3, []uint64{2, 3}
	uneven.Groups[0].Columns[0].Floats = []float64{1}
	_, err = h.Engine.Append(ctx, uneven)
	expect("columns of unequal length", err, model.CodeInvalid)
	gap := bitsBatch(run, w, []float64{1})
	gap.First, gap.Last, gap.Groups[0].Seq = 5, 5, []uint64{5}
	ack, err := h.Engine.Append(ctx, gap)
	expect("gap", err, model.CodeGap)
	if ack.Mark != 1 {
		t.Errorf("the ack of a gap has the mark %d", ack.Mark)
	}
	if err := h.Engine.DeleteRun(ctx, run); err != nil {
		t.Fatal(err)
	}
	expect("attempt of a deleted run", h.Engine.PutAttempt(ctx, run, model.Attempt{Number: 2}), model.CodeRunDeleted)
	_, _, err = h.Engine.ListSeries(ctx, run, store.SeriesFilter{Limit: 1})
	expect("list of a deleted run", err, model.CodeNotFound)
}
