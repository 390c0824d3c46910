package decision

import (
	"github.com/kymogram/kymogram/internal/model"

	"github.com/kymogram/kymogram/server/internal/store/local/column"
)

// Check refuses a batch that is malformed as a whole, before anything is
// decided about its records.
func Check(b *model.Batch) error {
	if b.Run.IsZero() || b.Writer.IsZero() {
		return model.Errorf(model.CodeInvalid, "a batch needs a run and a writer")
	}
	if (b.First == 0) != (b.Last == 0) || b.First > b.Last {
		return model.Errorf(model.CodeInvalid, "a batch cannot span the sequences %d to %d", b.First, b.Last)
	}
	for _, s := range b.Skipped {
		if s.First < b.First || s.Last > b.Last || s.First > s.Last || b.First == 0 {
			return model.Errorf(model.CodeInvalid, "the skipped range %d to %d is not inside %d to %d", s.First, s.Last, b.First, b.Last)
		}
	}
	for i := range b.Groups {
		if err := checkGroup(b, &b.Groups[i]); err != nil {
			return err
		}
	}
	return nil
}

func checkGroup(b *model.Batch, g *model.RowGroup) error {
	n := g.Rows()
	if g.Unique > model.UniqueStep {
		return model.Errorf(model.CodeInvalid, "unknown rule of uniqueness %d", g.Unique)
	}
	if err := checkAxes(g); err != nil {
		return err
	}
	if b.First == 0 && len(g.Seq) > 0 || b.First != 0 && len(g.Seq) != n {
		return model.Errorf(model.CodeInvalid, "a row group of %d rows has %d sequences", n, len(g.Seq))
	}
	if turns := b.Groups[0].Turn != nil; turns != (g.Turn != nil) || turns && (b.First != 0 || len(g.Turn) != n) {
		return model.Errorf(model.CodeInvalid, "a row group of %d rows has %d turns", n, len(g.Turn))
	}
	for _, s := range g.Seq {
		if s < b.First || s > b.Last {
			return model.Errorf(model.CodeInvalid, "sequence %d is not inside %d to %d", s, b.First, b.Last)
		}
	}
	for i := range g.Columns {
		c := &g.Columns[i]
		if c.Kind < model.KindFloat || c.Kind > model.KindScatter {
			return model.Errorf(model.CodeInvalid, "series %s has the unknown kind %d", c.Series.Metric, c.Kind)
		}
		if c.Len() != n {
			return model.Errorf(model.CodeInvalid, "series %s has %d values for %d rows", c.Series.Metric, c.Len(), n)
		}
	}
	return nil
}

func checkAxes(g *model.RowGroup) error {
	last := -1
	for _, a := range g.Axes {
		at := column.AxisIndex(a.Axis)
		if at <= last {
			return model.Errorf(model.CodeInvalid, "axis %q is unknown, repeated or out of order", a.Axis)
		}
		last = at
		if len(a.Values) != g.Rows() {
			return model.Errorf(model.CodeInvalid, "axis %s has %d values for %d rows", a.Axis, len(a.Values), g.Rows())
		}
		if !a.Relative {
			continue
		}
		if at != column.Step && (a.Axis != model.AxisEnvStep || !g.Axes[0].Relative) {
			return model.Errorf(model.CodeInvalid, "only the step can be relative, and the environment step with it, not %s", a.Axis)
		}
		for _, k := range a.Values {
			if k < 0 {
				return model.Errorf(model.CodeInvalid, "the relative step %d is negative", k)
			}
		}
	}
	return nil
}
