package catalogtest

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
)

// listAll pages through a list.
func (h *harness) listAll(f catalog.RunFilter) []string {
	h.t.Helper()
	f.Workspace, f.Project = "team", h.project
	var names []string
	for {
		page, next, err := h.c.ListRuns(h.ctx(), f)
		if err != nil {
			h.t.Fatalf("ListRuns %+v: %v", f, err)
		}
		if len(page) > f.Limit || (next != "" && len(page) != f.Limit) {
			h.t.Fatalf("a page of %d runs with limit %d, next %q", len(page), f.Limit, next)
		}
		for _, r := range page {
			names = append(names, r.Name)
		}
		if next == "" {
			return names
		}
		f.Cursor = next
	}
}

func testLists(t *testing.T, open Opener) {
	h := newHarness(t, open)
	for i := range 5 {
		h.must(request(i+1, named(fmt.Sprint("run-", i)), func(r *model.OpenRequest) {
			r.Initial = []model.Update{set("config/lr", model.FloatValue(float64(i))), set("config/name", model.StringValue("n")), set("other", model.IntValue(1))}
		}))
	}
	page, next, err := h.c.ListRuns(h.ctx(), catalog.RunFilter{Workspace: "team", Project: "project", Limit: 2})
	h.check("ListRuns", err)
	d := h.detail(local(5))
	equal(t, "the newest run", d.Run, page[0])
	for _, f := range []catalog.RunFilter{{Limit: 0}, {Limit: 2, Cursor: "x"}, {Limit: 2, Cursor: next, Sort: "name"}} {
		f.Workspace, f.Project = "team", "project"
		if _, _, err := h.c.ListRuns(h.ctx(), f); model.CodeOf(err) != model.CodeInvalid {
			t.Errorf("%+v: %v, want %s", f, err, model.CodeInvalid)
		}
	}
	empty, _, err := h.c.ListRuns(h.ctx(), catalog.RunFilter{Workspace: "team", Project: "nobody", Limit: 2})
	if err != nil || len(empty) > 0 {
		t.Errorf("an unknown project: %v, %v", empty, err)
	}
	id, err := h.c.FindRun(h.ctx(), "team", "project", "run-3")
	if err != nil || id != local(4) {
		t.Errorf("FindRun: %v, %v", id, err)
	}
	configs, err := h.c.Configs(h.ctx(), []model.RunID{local(1), local(2), local(77)})
	h.check("Configs", err)
	equal(t, "configs", map[model.RunID][]catalog.Attribute{
		local(1): {{Path: "config/lr", Value: *model.FloatValue(0)}, {Path: "config/name", Value: *model.StringValue("n")}},
		local(2): {{Path: "config/lr", Value: *model.FloatValue(1)}, {Path: "config/name", Value: *model.StringValue("n")}},
	}, configs)
	for i := range 150 {
		h.apply(local(3), 3, set(fmt.Sprintf("config/a%03d", i), model.IntValue(int64(i))))
	}
	configs, err = h.c.Configs(h.ctx(), []model.RunID{local(3)})
	h.check("Configs of a run with many", err)
	if found := configs[local(3)]; len(found) != 100 || found[0].Path != "config/a000" || found[99].Path != "config/a099" {
		t.Errorf("%d attributes for a table, want the first 100", len(found))
	}
}

func testFilters(t *testing.T, open Opener) {
	h := newHarness(t, open)
	h.must(request(1, named("Adam-Große"), func(r *model.OpenRequest) {
		r.Initial = []model.Update{
			set("config/lr", model.FloatValue(0.01)), set("config/model", model.StringValue("big one")), set("config/odd=path", model.BoolValue(true)),
			set("n", model.IntValue(1<<53+1)), set("kinds", model.SetValue([]string{"x", "y z"})),
			{Op: model.OpAddTags, Tags: []string{"Best", "50%_x"}},
		}
	}))
	h.must(request(2, named("sgd"), func(r *model.OpenRequest) {
		r.DisplayName = "Großer Lauf"
		r.Initial = []model.Update{set("config/lr", model.IntValue(1)), set("config/model", model.StringValue("10"))}
	}))
	for query, want := range map[string]string{
		"": "Adam-Große sgd", "adam": "Adam-Große", "GROSSE": "", "GROßE": "Adam-Große sgd", "best": "Adam-Große", "%": "Adam-Große", "_": "Adam-Große",
		"'": "", `"`: "!", "lr<0.1": "Adam-Große", "lr>0.1": "sgd", "lr=1": "sgd", "lr=1.0": "sgd", "config/lr=0.01": "Adam-Große", "lr=1e-2": "Adam-Große",
		"lr<=1": "Adam-Große sgd", "lr>=1": "sgd", "lr!=1": "Adam-Große", "missing!=1": "Adam-Große sgd", "missing=1": "",
		`model="big one"`: "Adam-Große", "model=10": "sgd", `model="10"`: "sgd", "model>9": "", `model<"b"`: "sgd", `model>"b"`: "Adam-Große",
		"n=9007199254740993": "Adam-Große", "n=9007199254740992": "", "n>9007199254740992": "Adam-Große",
		"kinds=x": "Adam-Große", `kinds="y z"`: "Adam-Große", "kinds=y": "", `"odd=path"=true`: "Adam-Große", `"odd=path"=false`: "",
		"adam lr<1": "Adam-Große", "sgd lr<1": "", "  lr<2   lr>0  ": "Adam-Große sgd", `lauf`: "sgd", `"er lauf"`: "sgd",
		"=1": "!", "lr=": "!", `model=""`: "", "lr<": "!", `model="x`: "!", `""`: "!", `lr="1"x`: "!", strings.Repeat("a ", 100): "!",
		"x' OR '1'='1": "", `r.name=1`: "", "lr=1;DROP": "",
	} {
		page, _, err := h.c.ListRuns(h.ctx(), catalog.RunFilter{Workspace: "team", Project: "project", Query: query, Sort: "name", Limit: 10})
		if want == "!" {
			if model.CodeOf(err) != model.CodeInvalid {
				t.Errorf("%q: %v, want %s", query, err, model.CodeInvalid)
			}
			continue
		}
		var names []string
		for _, r := range page {
			names = append(names, r.Name)
		}
		if got := strings.Join(names, " "); err != nil || got != want {
			t.Errorf("%q: %q, %v, want %q", query, got, err, want)
		}
	}
}

// listed is a run of the naive model of lists.
type listed struct {
	name    string
	created int
	last    int
	closed  bool
	tags    []string
	values  map[string]*model.Value
}

func (l *listed) status() string {
	if l.closed {
		return "finished"
	}
	return "running"
}

func testListModel(t *testing.T, open Opener) {
	shared := newHarness(t, open)
	rapid.Check(t, func(rt *rapid.T) {
		h := shared.round(rt)
		runs := drawRuns(rt)
		for i, l := range runs {
			h.make(i, l)
		}
		for range 5 {
			key := rapid.SampledFrom([]string{"", "created", "name", "last", "status", "x", "config/x", "y"}).Draw(rt, "sort")
			desc := key != "" && rapid.Bool().Draw(rt, "desc")
			f := catalog.RunFilter{Sort: key, Limit: rapid.IntRange(1, 4).Draw(rt, "limit")}
			if desc {
				f.Sort = "-" + key
			}
			want := slices.Clone(runs)
			if rapid.Bool().Draw(rt, "filtered") {
				want = narrow(rt, want, &f)
			}
			sortNaively(want, key, desc || key == "")
			var names []string
			for _, l := range want {
				names = append(names, l.name)
			}
			equal(rt, fmt.Sprintf("the list %+v", f), names, h.listAll(f))
		}
	})
}

func drawValue(rt *rapid.T) *model.Value {
	switch rapid.IntRange(0, 4).Draw(rt, "type") {
	case 0:
		return model.IntValue(rapid.Int64Range(-2, 2).Draw(rt, "int"))
	case 1:
		return model.FloatValue(rapid.SampledFrom([]float64{-0.5, 0, 1, 1.5, math.Inf(1), math.Inf(-1), math.NaN()}).Draw(rt, "float"))
	case 2:
		return model.BoolValue(rapid.Bool().Draw(rt, "bool"))
	}
	return model.StringValue(rapid.SampledFrom([]string{"", "a", "b", "10", "é"}).Draw(rt, "string"))
}

func drawRuns(rt *rapid.T) []*listed {
	count := rapid.IntRange(0, 12).Draw(rt, "runs")
	runs := make([]*listed, count)
	for i := range runs {
		l := &listed{
			name: fmt.Sprintf("%s-%d", rapid.SampledFrom([]string{"alpha", "Beta", "gamma"}).Draw(rt, "name"), i), created: rapid.IntRange(1, 5).Draw(rt, "created"),
			last: 1000 + rapid.IntRange(0, 3).Draw(rt, "last"), closed: rapid.Bool().Draw(rt, "closed"),
			tags: rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"t", "u"}), 0, 2, rapid.ID).Draw(rt, "tags"), values: map[string]*model.Value{},
		}
		for _, path := range []string{"config/x", "y"} {
			if rapid.Bool().Draw(rt, path) {
				l.values[path] = drawValue(rt)
			}
		}
		runs[i] = l
	}
	return runs
}

func (h *harness) make(i int, l *listed) {
	r := request(h.base+i+1, named(l.name), opened(l.created), h.inProject)
	o, err := h.c.Open(h.ctx(), r, at(l.last))
	h.check("Open", err)
	updates := []model.Update{{Op: model.OpAddTags, Tags: l.tags}}
	for path, v := range l.values {
		updates = append(updates, set(path, v))
	}
	if l.closed {
		updates = append(updates, closeWith(model.StatusFinished))
	}
	h.check("Apply", h.c.Apply(h.ctx(), o.Run, r.Writer, uint64(i+1), updates, at(l.last)))
}

// narrow draws a filter and applies its meaning to the model.
func narrow(rt *rapid.T, runs []*listed, f *catalog.RunFilter) []*listed {
	var keep func(*listed) bool
	switch rapid.IntRange(0, 4).Draw(rt, "filter") {
	case 0:
		f.Tag = "t"
		keep = func(l *listed) bool { return slices.Contains(l.tags, "t") }
	case 1:
		f.Status = model.StatusFinished
		keep = func(l *listed) bool { return l.closed }
	case 2:
		f.Query = "ETA"
		keep = func(l *listed) bool { return strings.Contains(strings.ToLower(l.name), "eta") }
	default:
		limit := rapid.IntRange(-2, 2).Draw(rt, "limit")
		op := rapid.SampledFrom([]string{"<", ">"}).Draw(rt, "op")
		f.Query = fmt.Sprintf("x%s%d", op, limit)
		keep = func(l *listed) bool { return numberIs(l.values["config/x"], op, float64(limit)) }
	}
	return slices.DeleteFunc(runs, func(l *listed) bool { return !keep(l) })
}

func numberIs(v *model.Value, op string, limit float64) bool {
	if v == nil || (v.Type != model.TypeInt && v.Type != model.TypeFloat) {
		return false
	}
	f := v.Float
	if v.Type == model.TypeInt {
		f = float64(v.Int)
	}
	return (op == "<" && f < limit) || (op == ">" && f > limit)
}

// sortNaively sorts by the key, then by age, both in the direction; runs without
// the key, and NaN, come last.
func sortNaively(runs []*listed, key string, desc bool) {
	sign := 1
	if desc {
		sign = -1
	}
	age := map[*listed]int{}
	for i, l := range runs {
		age[l] = i
	}
	path := key
	if key == "x" {
		path = "config/x"
	}
	slices.SortStableFunc(runs, func(a, b *listed) int {
		var order int
		switch key {
		case "", "created":
			order = cmp.Compare(a.created, b.created)
		case "name":
			order = cmp.Compare(a.name, b.name)
		case "last":
			order = cmp.Compare(a.last, b.last)
		case "status":
			order = cmp.Compare(a.status(), b.status())
		default:
			x, y := rank(a.values[path]), rank(b.values[path])
			if (x == 3) != (y == 3) {
				return cmp.Compare(x, y)
			}
			order = cmp.Or(cmp.Compare(x, y), compareValues(a.values[path], b.values[path]))
		}
		return sign * cmp.Or(order, cmp.Compare(age[a], age[b]))
	})
}

// rank puts numbers before text before nothing.
func rank(v *model.Value) int {
	switch {
	case v == nil || (v.Type == model.TypeFloat && math.IsNaN(v.Float)):
		return 3
	case v.Type == model.TypeString:
		return 2
	}
	return 1
}

func compareValues(a, b *model.Value) int {
	switch rank(a) {
	case 3:
		return 0
	case 2:
		return cmp.Compare(a.Str, b.Str)
	}
	return cmp.Compare(asFloat(a), asFloat(b))
}

func asFloat(v *model.Value) float64 {
	switch {
	case v.Type == model.TypeFloat:
		return v.Float
	case v.Type == model.TypeBool && v.Bool:
		return 1
	}
	return float64(v.Int)
}
