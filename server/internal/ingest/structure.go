package ingest

import (
	"cmp"
	"slices"

	"github.com/kymogram/kymogram/internal/model"
)

// maxUpdates is how many updates a batch may have: each takes up to 100 µs of a processor.
const maxUpdates = 10_000

// maxTrees is how many bytes of trees a batch may have: all are in memory at once, several times.
const maxTrees = 64 << 20

// checkStructure finds faults that no single record is to blame for: a batch
// that has one was built wrongly and nothing of it can be trusted.
func checkStructure(b *model.Batch) error {
	if err := checkRange(b); err != nil {
		return err
	}
	for i := range b.Groups {
		if err := checkGroup(b, &b.Groups[i]); err != nil {
			return err
		}
	}
	if n := len(b.Updates) + len(b.Unreadable); n > maxUpdates {
		return model.Errorf(model.CodeTooLarge, "the batch has %d updates, at most %d", n, maxUpdates).WithHint("Send fewer at once.")
	}
	trees := 0
	for i := range b.Updates {
		if b.Updates[i].Op == model.OpSetTree {
			trees += len(b.Updates[i].Text)
		}
		if !holds(b, b.Updates[i].Seq) {
			return malformed("an update has the sequence %d, the batch is %d to %d", b.Updates[i].Seq, b.First, b.Last)
		}
	}
	if trees > maxTrees {
		return model.Errorf(model.CodeTooLarge, "the trees of the batch have %d bytes, at most %d", trees, maxTrees).WithHint("Send fewer at once.")
	}
	for _, seq := range b.Unreadable {
		if !holds(b, seq) {
			return malformed("an update has the sequence %d, the batch is %d to %d", seq, b.First, b.Last)
		}
	}
	return nil
}

func malformed(format string, args ...any) *model.Error {
	return model.Errorf(model.CodeInvalid, "the batch is malformed: "+format, args...).
		WithHint("This is a fault of the client; nothing of the batch was stored.")
}

func checkRange(b *model.Batch) error {
	if b.First > b.Last || (b.First == 0) != (b.Last == 0) {
		return malformed("its sequences are %d to %d", b.First, b.Last)
	}
	for i, gap := range b.Skipped {
		if i > 0 && b.Skipped[i-1].Last >= gap.First || b.First == 0 || gap.First < b.First || gap.First > gap.Last || gap.Last > b.Last {
			return malformed("it skips %d to %d of %d to %d", gap.First, gap.Last, b.First, b.Last)
		}
		if len(gap.Reason) > maxReasonBytes || !model.IsClean(gap.Reason) {
			return malformed("the reason of a skipped range is not a short text")
		}
	}
	return nil
}

func checkGroup(b *model.Batch, g *model.RowGroup) error {
	rows := g.Rows()
	if (b.First > 0 && len(g.Seq) != rows) || (b.First == 0 && len(g.Seq) != 0) {
		return malformed("%d rows have %d sequences", rows, len(g.Seq))
	}
	if turns := b.Groups[0].Turn != nil; turns != (g.Turn != nil) || turns && (b.First > 0 || len(g.Turn) != rows) {
		return malformed("%d rows have %d turns", rows, len(g.Turn))
	}
	for _, seq := range g.Seq {
		if seq < b.First || seq > b.Last || isSkipped(b.Skipped, seq) {
			return malformed("a row has the sequence %d, the batch is %d to %d", seq, b.First, b.Last)
		}
	}
	if err := checkAxes(g); err != nil {
		return err
	}
	for i := range g.Columns {
		if err := checkColumn(&g.Columns[i], rows); err != nil {
			return err
		}
	}
	return nil
}

// isSkipped looks into ranges that checkRange found to rise.
func isSkipped(gaps []model.Skipped, seq uint64) bool {
	at, _ := slices.BinarySearchFunc(gaps, seq, func(gap model.Skipped, seq uint64) int { return cmp.Compare(gap.Last, seq) })
	return at < len(gaps) && gaps[at].First <= seq
}

func checkAxes(g *model.RowGroup) error {
	order := model.Axes()
	last := -1
	for i := range g.Axes {
		a := &g.Axes[i]
		place := slices.Index(order, a.Axis)
		if place <= last {
			return malformed("the axis %q is unknown, repeated or out of order", model.Clip(string(a.Axis)))
		}
		if len(a.Values) != g.Rows() {
			return malformed("the axis %s has %d values for %d rows", a.Axis, len(a.Values), g.Rows())
		}
		if a.Relative && a.Axis != model.AxisStep && a.Axis != model.AxisEnvStep {
			return malformed("the axis %s cannot be relative", a.Axis)
		}
		last = place
	}
	if g.Unique > model.UniqueStep {
		return malformed("the uniqueness %d is not known", g.Unique)
	}
	return nil
}

func checkColumn(c *model.Column, rows int) error {
	if c.Kind < model.KindFloat || c.Kind > model.KindScatter {
		return malformed("the kind %d is not known", c.Kind)
	}
	if c.Len() != rows || c.Len() != len(c.Floats)+len(c.Ints)+len(c.Texts)+len(c.Docs) {
		return malformed("a %s column has %d values for %d rows", c.Kind, c.Len(), rows)
	}
	return nil
}

// holds reports whether an update may carry seq; updates without a record of
// their own carry none.
func holds(b *model.Batch, seq uint64) bool {
	return seq == 0 || (seq >= b.First && seq <= b.Last)
}
