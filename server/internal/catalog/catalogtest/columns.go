package catalogtest

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
)

// keyText names a value as the model compares it: 1 and 1.0 are one, "1" is another.
func keyText(v *model.Value) string {
	if v == nil || v.Type == "" {
		return "none"
	}
	switch v.Type {
	case model.TypeInt:
		return fmt.Sprint("number ", v.Int)
	case model.TypeFloat:
		return fmt.Sprint("number ", v.Float)
	case model.TypeStringSet:
		return fmt.Sprint("set ", strings.Join(v.Set, "|"))
	}
	return fmt.Sprint(v.Type, v.Str, v.Int, v.Bool)
}

// columnRun is a run as a naive program keeps it.
type columnRun struct {
	id     model.RunID
	key    *model.Value
	tags   []string
	points []float64
}

// testColumns reads columns of all runs and lists each group, against a loop over the runs.
func testColumns(t *testing.T, open Opener) {
	shared := newHarness(t, open)
	odd := []*model.Value{
		nil, model.IntValue(1), model.FloatValue(1), model.FloatValue(0.1), model.StringValue("1"), model.StringValue("__proto__"), model.StringValue("zero\u200bwidth"),
		model.BoolValue(true), model.TimeValue(1), model.FloatValue(math.NaN()), model.FloatValue(math.Inf(1)), model.SetValue([]string{"a", "b"}), model.StringValue(""), model.IntValue(1<<60 + 1),
	}
	rapid.Check(t, func(rt *rapid.T) {
		h := shared.round(rt)
		runs := h.columnRuns(rt, odd)
		f := catalog.RunFilter{Workspace: "team", Project: h.project, Sort: "name", Limit: 100}
		c, err := h.c.Columns(h.ctx(), f, catalog.ColumnNames{Keys: []string{"config/__proto__", "tag", "status"}, Numbers: []string{"min(loss)", "config/__proto__", `last("loss")`, "max(none)"}})
		h.check("Columns", err)
		refs, err := h.c.Refs(h.ctx(), c.Runs)
		h.check("Refs", err)
		if len(refs) != len(runs) || !slices.IsSorted(c.Runs) {
			rt.Fatalf("%d runs, want %d", len(refs), len(runs))
		}
		byID := map[model.RunID]*columnRun{}
		for i := range runs {
			byID[runs[i].id] = &runs[i]
		}
		for at, ref := range refs {
			h.oneOfColumns(rt, c, at, byID[ref.ID])
		}
		h.groupsOf(rt, f, c, runs)
	})
}

func (h *harness) columnRuns(rt *rapid.T, odd []*model.Value) []columnRun {
	runs := make([]columnRun, rapid.IntRange(0, 8).Draw(rt, "runs"))
	for i := range runs {
		r := &runs[i]
		r.key = odd[rapid.IntRange(0, len(odd)-1).Draw(rt, "key")]
		r.tags = rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c"}), 0, 3, rapid.ID).Draw(rt, "tags")
		r.points = rapid.SliceOfN(rapid.SampledFrom([]float64{0, 1.5, -2, math.NaN(), math.Inf(1)}), 0, 3).Draw(rt, "points")
		r.id = h.must(request(h.base+i+1, named(fmt.Sprint("run-", i)), func(o *model.OpenRequest) {
			o.Project = h.project
			if r.key != nil {
				o.Initial = append(o.Initial, set("config/__proto__", r.key))
			}
			if len(r.tags) > 0 {
				o.Initial = append(o.Initial, model.Update{Op: model.OpAddTags, Tags: r.tags})
			}
		})).Run
		if len(r.points) > 0 { // else it has no such metric
			h.check("PutSummaries", h.c.PutSummaries(h.ctx(), r.id, []catalog.Summary{summaryOf("loss", r.points)}, at(2000)))
		}
	}
	return runs
}

// oneOfColumns compares the columns of a run.
func (h *harness) oneOfColumns(rt *rapid.T, c *catalog.Columns, at int, r *columnRun) {
	key := c.Keys[0]
	if got := keyText(&key.Values[key.Of[at]]); got != keyText(r.key) {
		rt.Errorf("a key is %s, want %s", got, keyText(r.key))
	}
	var tags []string
	for _, place := range append([]uint32{c.Keys[1].Of[at]}, c.Keys[1].More[at]...) {
		if place > 0 {
			tags = append(tags, c.Keys[1].Values[place].Str)
		}
	}
	slices.Sort(tags)
	slices.Sort(r.tags)
	if !slices.Equal(tags, r.tags) {
		rt.Errorf("tags are %v, want %v", tags, r.tags)
	}
	l := listed{metrics: map[string][]float64{"loss": r.points}}
	want := []float64{numberOr(l.aggregate("min(loss)")), numberOr(r.key), numberOr(l.aggregate("loss")), math.NaN()}
	for i := range want {
		if got := c.Numbers[i][at]; got != want[i] && (got == got || want[i] == want[i]) {
			rt.Errorf("column %d is %v, want %v", i, got, want[i])
		}
	}
	isNaN := func(v *model.Value) bool { return v != nil && v.Type == model.TypeFloat && math.IsNaN(v.Float) }
	for i, is := range []bool{false, isNaN(r.key), len(r.points) > 0 && math.IsNaN(r.points[len(r.points)-1]), false} {
		if c.NaN[i][at] != is {
			rt.Errorf("column %d is NaN: %v, want %v", i, !is, is)
		}
	}
	values, err := h.c.Values(h.ctx(), []model.RunID{r.id}, []string{"config/__proto__", "max(loss)"}, 0)
	h.check("Values", err)
	if _, err := h.c.Values(h.ctx(), []model.RunID{r.id}, []string{"config/__proto__"}, 1); errors.Is(err, catalog.ErrLarge) != (r.key != nil) {
		rt.Errorf("more than one byte of texts of %s: %v", keyText(r.key), err)
	}
	most := l.aggregate("max(loss)")
	if got := values[0][0]; got.Type != cmp.Or(r.key, &model.Value{}).Type || got.Type != "" && keyText(&got) != keyText(r.key) {
		rt.Errorf("the value is %+v, want %+v", got, r.key)
	}
	if got := values[0][1]; numberOr(&got) != numberOr(most) && most != nil {
		rt.Errorf("the greatest is %+v, want %+v", got, most)
	}
}

func numberOr(v *model.Value) float64 {
	switch {
	case v == nil:
		return math.NaN()
	case v.Type == model.TypeInt:
		return float64(v.Int)
	case v.Type == model.TypeFloat:
		return v.Float
	}
	return math.NaN()
}

// groupsOf lists the members of each value of each key.
func (h *harness) groupsOf(rt *rapid.T, f catalog.RunFilter, c *catalog.Columns, runs []columnRun) {
	for _, v := range c.Keys[0].Values {
		var want []string
		for i := range runs {
			if keyText(runs[i].key) == keyText(&v) {
				want = append(want, fmt.Sprint("run-", i))
			}
		}
		f.Members = []catalog.Member{{Key: "config/__proto__", Value: v}}
		if got := h.listAll(f); !slices.Equal(got, want) {
			rt.Errorf("the members of %s are %v, want %v", keyText(&v), got, want)
		}
		h.columnsOf(rt, f, len(want))
	}
	for _, tag := range []string{"", "a", "b"} {
		var want []string
		m := catalog.Member{Key: "tag"}
		if tag != "" {
			m.Value = *model.StringValue(tag)
		}
		for i := range runs {
			if slices.Contains(runs[i].tags, tag) || tag == "" && len(runs[i].tags) == 0 {
				want = append(want, fmt.Sprint("run-", i))
			}
		}
		f.Members = []catalog.Member{m, {Key: "status", Value: *model.StringValue("running")}}
		if got := h.listAll(f); !slices.Equal(got, want) {
			rt.Errorf("the members of tag %q are %v, want %v", tag, got, want)
		}
		h.columnsOf(rt, f, len(want))
	}
}

// columnsOf counts the runs of a filter in columns.
func (h *harness) columnsOf(rt *rapid.T, f catalog.RunFilter, want int) {
	c, err := h.c.Columns(h.ctx(), f, catalog.ColumnNames{Numbers: []string{"last(loss)"}})
	h.check("Columns", err)
	if len(c.Runs) != want || len(c.Numbers[0]) != want {
		rt.Errorf("columns of %+v have %d runs, want %d", f.Members, len(c.Runs), want)
	}
}
