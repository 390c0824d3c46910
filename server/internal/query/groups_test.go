package query_test

import (
	"context"
	"fmt"
	"math"
	"math/big"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/query"
)

// columnsFake has columns and no runs.
type columnsFake struct {
	*fake
	columns *catalog.Columns
}

func (f *columnsFake) Columns(context.Context, catalog.RunFilter, catalog.ColumnNames) (*catalog.Columns, error) {
	c := *f.columns
	return &c, nil
}

func (f *columnsFake) Refs(_ context.Context, runs []int64) ([]catalog.Ref, error) {
	out := make([]catalog.Ref, len(runs))
	for i, run := range runs {
		out[i] = catalog.Ref{ID: model.RunID{byte(run)}, Name: fmt.Sprint("run-", run)}
	}
	return out, nil
}

// naiveGroup is a group with all its values.
type naiveGroup struct {
	runs   int
	values []float64
	of     []int64
}

// naiveGroups collects the values of each pair of keys.
func naiveGroups(c *catalog.Columns) map[string]*naiveGroup {
	out := map[string]*naiveGroup{}
	for i := range c.Runs {
		for _, a := range append([]uint32{c.Keys[0].Of[i]}, c.Keys[0].More[i]...) {
			name := fmt.Sprint(c.Keys[0].Values[a].Str, "/", c.Keys[1].Values[c.Keys[1].Of[i]].Int, c.Keys[1].Of[i] == 0)
			if out[name] == nil {
				out[name] = &naiveGroup{}
			}
			g := out[name]
			g.runs++
			if v := c.Numbers[0][i]; !math.IsNaN(v) || c.NaN[0][i] {
				g.values, g.of = append(g.values, v), append(g.of, c.Runs[i])
			}
		}
	}
	return out
}

// statistics are computed in two passes.
func statistics(values []float64) (finite []float64, mean, std float64) {
	for _, v := range values {
		if !math.IsInf(v, 0) && !math.IsNaN(v) {
			finite = append(finite, v)
			mean += v
		}
	}
	mean /= float64(len(finite))
	for _, v := range finite {
		std += (v - mean) * (v - mean)
	}
	return finite, mean, math.Sqrt(std / float64(len(finite)-1))
}

func near(a, b float64) bool { return a == b || a != a && b != b || math.Abs(a-b) < 1e-9 }

// wide computes with so many bits that no square overflows.
func wide(values []float64) (mean, std float64) {
	num := func(v float64) *big.Float { return new(big.Float).SetPrec(4000).SetFloat64(v) }
	n := num(float64(len(values)))
	sum, squares := num(0), num(0)
	for _, v := range values {
		sum.Add(sum, num(v))
	}
	middle := num(0).Quo(sum, n)
	for _, v := range values {
		d := num(0).Sub(num(v), middle)
		squares.Add(squares, d.Mul(d, d))
	}
	squares.Quo(squares, num(float64(len(values)-1)))
	mean, _ = middle.Float64()
	std, _ = squares.Sqrt(squares).Float64()
	return mean, std
}

// The squares of these values are no float64; their mean and standard deviation are.
func TestStatisticsOfExtremeValues(t *testing.T) {
	for _, values := range [][]float64{
		{1e200, 3e200, -2e200},
		{1e-200, 3e-200, 2e-200},
		{5e-324, 1e-323, 0},
		{math.MaxFloat64, math.MaxFloat64 / 2},
		{0, 0, 1e300, 1},
		{1, 1e-300, 1e300, 1e300},
		{-1e308, 1e308, 0, 0, 0, 0},
		{1e12, 1e12 + 2, 1e12 + 4},
		{0, 0},
	} {
		n := len(values)
		c := &catalog.Columns{Numbers: [][]float64{values}, NaN: []map[int]bool{{}}, Runs: make([]int64, n)}
		f := &columnsFake{newFake(), c}
		out, err := query.New(f, f, f, f, query.Limits{Time: time.Minute}).Groups(t.Context(), query.GroupsRequest{
			RunsRequest: query.RunsRequest{Workspace: "w", Project: "p", Columns: []string{"min(loss)"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		mean, std := wide(values)
		s := out.Shown[0].Columns[0]
		if within := func(a, b float64) bool { return math.Abs(a/2-b/2) <= 1e-12*math.Abs(b)+5e-324 }; !within(s.Mean, mean) || !within(s.Std(), std) {
			t.Errorf("%v: %v ± %v, want %v ± %v", values, s.Mean, s.Std(), mean, std)
		}
	}
}

// Groups are what a program finds that keeps every value.
func TestGroups(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(0, 12).Draw(rt, "runs")
		c := &catalog.Columns{
			Keys: []catalog.GroupKey{
				{Values: []model.Value{{}, *model.StringValue("a"), *model.StringValue("b")}, Of: make([]uint32, n), More: map[int][]uint32{}},
				{Values: []model.Value{{}, *model.IntValue(1)}, Of: make([]uint32, n)},
			},
			Numbers: [][]float64{make([]float64, n)}, NaN: []map[int]bool{{}},
		}
		for i := range n {
			c.Runs = append(c.Runs, int64(i+1))
			c.Keys[0].Of[i], c.Keys[1].Of[i] = uint32(rapid.IntRange(0, 2).Draw(rt, "a")), uint32(rapid.IntRange(0, 1).Draw(rt, "b"))
			if c.Keys[0].Of[i] == 1 && rapid.Bool().Draw(rt, "more") {
				c.Keys[0].More[i] = []uint32{2}
			}
			c.Numbers[0][i] = rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), 1, 2.5, -3, 1e9, 1e9 + 1}).Draw(rt, "value")
			c.NaN[0][i] = math.IsNaN(c.Numbers[0][i]) && rapid.Bool().Draw(rt, "logged as NaN")
		}
		f := &columnsFake{newFake(), c}
		order := rapid.SampledFrom([]string{"", "-runs", "key", "mean:0", "-max:0"}).Draw(rt, "order")
		out, err := query.New(f, f, f, f, query.Limits{Time: time.Minute}).Groups(t.Context(), query.GroupsRequest{
			RunsRequest: query.RunsRequest{Workspace: "w", Project: "p", Columns: []string{"min(loss)"}}, By: []string{"x", "y"}, Order: order,
		})
		if err != nil {
			rt.Fatal(err)
		}
		want := naiveGroups(c)
		if out.Runs != n || out.Groups != len(want) || len(out.Shown) != len(want) {
			rt.Fatalf("%d runs in %d groups, want %d in %d", out.Runs, out.Groups, n, len(want))
		}
		for i := range out.Shown {
			compareGroup(rt, &out.Shown[i], want)
		}
		checkOrder(rt, order, out.Shown)
	})
}

func compareGroup(rt *rapid.T, g *query.Group, all map[string]*naiveGroup) {
	name := fmt.Sprint(g.Values[0].Str, "/", g.Values[1].Int, g.Values[1].Type == "")
	want := all[name]
	if want == nil || want.runs != g.Runs {
		rt.Fatalf("group %s has %d runs, want %+v", name, g.Runs, want)
	}
	finite, mean, std := statistics(want.values)
	s := g.Columns[0]
	if s.N != len(finite) || s.NotFinite != len(want.values)-len(finite) {
		rt.Fatalf("group %s has %d values and %d others, want %v", name, s.N, s.NotFinite, want.values)
	}
	if s.N == 0 {
		return
	}
	if !near(s.Mean/mean, 1) && !near(s.Mean, mean) || s.N > 1 && math.Abs(s.Std()-std) > 1e-6*math.Abs(std) {
		rt.Errorf("group %s: %v ± %v, want %v ± %v", name, s.Mean, s.Std(), mean, std)
	}
	if s.Min != slices.Min(finite) || s.Max != slices.Max(finite) {
		rt.Errorf("group %s: %v to %v of %v", name, s.Min, s.Max, finite)
	}
	if first := want.of[slices.Index(want.values, s.Min)]; s.MinRun.Name != fmt.Sprint("run-", first) {
		rt.Errorf("group %s: the least is of %s, want run-%d", name, s.MinRun.Name, first)
	}
}

// checkOrder compares neighbours.
func checkOrder(rt *rapid.T, order string, shown []query.Group) {
	for i := 1; i < len(shown); i++ {
		a, b := &shown[i-1], &shown[i]
		x, y := a.Columns[0], b.Columns[0]
		var right bool
		switch order {
		case "", "-runs":
			right = a.Runs >= b.Runs
		case "key":
			right = b.Values[0].Type == "" || a.Values[0].Type != "" && a.Values[0].Str <= b.Values[0].Str
		case "mean:0":
			right = y.N == 0 || x.N > 0 && x.Mean <= y.Mean
		default:
			right = y.N == 0 || x.N > 0 && x.Max >= y.Max
		}
		if !right {
			rt.Errorf("by %q: %+v stands before %+v", order, a, b)
		}
	}
}

func TestGroupsThatCannotBe(t *testing.T) {
	f := newFake()
	for _, r := range []query.GroupsRequest{
		{By: []string{"a", "b", "c", "d"}},
		{Order: "mean:0"},
		{Order: "last"},
		{RunsRequest: query.RunsRequest{Columns: []string{"best(x)"}}},
		{RunsRequest: query.RunsRequest{Columns: make([]string, 101)}},
		{RunsRequest: query.RunsRequest{Group: "x"}},
		{RunsRequest: query.RunsRequest{Page: query.Page{Limit: 10_001}}},
		{RunsRequest: query.RunsRequest{Query: "a or"}},
	} {
		r.Workspace, r.Project = "w", "p"
		if _, err := f.service(time.Minute).Groups(t.Context(), r); model.CodeOf(err) != model.CodeInvalid {
			t.Errorf("%+v: %v", r, err)
		}
	}
}
