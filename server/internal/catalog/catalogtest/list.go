package catalogtest

import (
	"cmp"
	"context"
	"encoding/base64"
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
	page, _, err = h.c.ListRuns(h.ctx(), catalog.RunFilter{Workspace: "team", Project: "project", Limit: 2, Sort: "name", Configs: true})
	h.check("ListRuns with configs", err)
	for i := range page {
		equal(t, "a config", []catalog.Attribute{{Path: "config/lr", Value: *model.FloatValue(float64(i))}, {Path: "config/name", Value: *model.StringValue("n")}}, page[i].Config)
	}
	for i := range 150 {
		h.apply(local(3), 3, set(fmt.Sprintf("config/a%03d", i), model.IntValue(int64(i))))
	}
	config, err := h.c.Config(h.ctx(), local(3), 0)
	h.check("Config of a run with many", err)
	if len(config) != 100 || config[0].Path != "config/a000" || config[99].Path != "config/a099" {
		t.Errorf("%d attributes for a table, want the first 100", len(config))
	}
	_, err = h.c.Config(h.ctx(), local(77), 0)
	h.wantCode("Config of no run", err, model.CodeNotFound)
}

// Words are found in long names and tags too, wherever they stand.
func testLongTags(t *testing.T, open Opener) {
	h := newHarness(t, open)
	tags := make([]string, 200)
	for i := range tags {
		tags[i] = fmt.Sprintf("Tag%03d-%s", i, strings.Repeat("ä", 40))
	}
	tags[150] = "ÖRTLICH"
	h.must(request(1, named("long"), func(r *model.OpenRequest) { r.Initial = []model.Update{{Op: model.OpAddTags, Tags: tags}} }))
	h.must(request(2, named("other"), func(r *model.OpenRequest) {
		r.DisplayName = strings.Repeat("d", 400) + strings.Repeat("ü", 60) + " Ende"
	}))
	h.must(request(3, named("short")))
	for query, want := range map[string]string{"tag000": "long", "tag199": "long", "örtlich": "long", "tag200": "", "ende": "other", "o": "long other short", "tag199 ende": ""} {
		page, _, err := h.c.ListRuns(h.ctx(), catalog.RunFilter{Workspace: "team", Project: "project", Query: query, Sort: "name", Limit: 10})
		h.check("ListRuns", err)
		var names []string
		for _, r := range page {
			names = append(names, r.Name)
		}
		equal(t, query, want, strings.Join(names, " "))
	}
}

// What is long comes in pages that end early, and nothing is left out.
func testLongTexts(t *testing.T, open Opener) {
	const runs, attributes, size = 6, 3, 60_000
	h := newHarness(t, open)
	text := func(c byte) *model.Value { return model.StringValue(strings.Repeat(string(c), size)) }
	for i := range runs {
		h.must(request(i+1, named(fmt.Sprint("run-", i)), func(r *model.OpenRequest) {
			for n := range attributes {
				r.Initial = append(r.Initial, set(fmt.Sprint("config/", n), text('a'+byte(n))))
			}
			r.Initial = append(r.Initial, model.Update{Op: model.OpSetDescription, Text: strings.Repeat("d", size)})
		}))
	}
	f := catalog.RunFilter{Workspace: "team", Project: "project", Limit: runs, Sort: "name", Configs: true}
	for bytes, want := range map[int64][]int{0: {6}, 9 * size: {2, 2, 2}, 23 * size: {5, 1}, 5 * size: {1, 1, 1, 1, 1, 1}} {
		f.Bytes = bytes
		sizes, names := h.pagesOf(f)
		if got := strings.Join(names, " "); got != "run-0 run-1 run-2 run-3 run-4 run-5" || !slices.Equal(sizes, want) {
			t.Errorf("with %d bytes a page: %s in pages of %v, want %v", bytes, got, sizes, want)
		}
	}
	f.Bytes = 2 * size
	if _, _, err := h.c.ListRuns(h.ctx(), f); !errors.Is(err, catalog.ErrLarge) {
		t.Errorf("no run fits: %v", err)
	}
	if _, err := h.c.Config(h.ctx(), local(1), 2*size); !errors.Is(err, catalog.ErrLarge) {
		t.Errorf("the config does not fit: %v", err)
	}
}

// A cursor that somebody made up is refused, or ends a page somewhere: nothing fails.
func testForgedCursors(t *testing.T, open Opener) {
	h := newHarness(t, open)
	for n := range 3 {
		h.must(request(n+1, named(fmt.Sprint("run", n)), job(fmt.Sprint("job", n)), func(r *model.OpenRequest) {
			r.Initial = []model.Update{set("x", model.IntValue(int64(n)))}
		}))
		value := *model.FloatValue(float64(n))
		h.check("PutSummaries", h.c.PutSummaries(h.ctx(), local(n+1), []catalog.Summary{{Metric: "loss", Points: 1, Last: value, Min: value, Max: value}}, at(1)))
	}
	for _, sort := range []string{"", "created", "-last", "name", "-status", "x", "max(loss)", "-at(loss,1)"} {
		for _, end := range []string{`"t":"i","k":"1"`, `"t":"f","k":"1.5"`, `"t":"f","k":"NaN"`, `"t":"f","k":"-Inf"`, `"t":"s","k":"a"`, `"t":"s","k":"\u0000"`, `"t":"s"`, `"t":"n"`, `"t":"i","k":"a"`, `"t":"x"`} {
			f := catalog.RunFilter{Workspace: "team", Project: "project", Limit: 2, Sort: sort}
			f.Steps = catalog.Steps{}
			f.Cursor = base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"s":%q,%s,"p":1}`, sort, end))
			if _, _, err := h.c.ListRuns(h.ctx(), f); err != nil && model.CodeOf(err) != model.CodeInvalid {
				t.Errorf("sorted by %q from %s: %v", sort, end, err)
			}
		}
	}
}

// pagesOf lists runs with the sizes of the pages.
func (h *harness) pagesOf(f catalog.RunFilter) (sizes []int, names []string) {
	h.t.Helper()
	for {
		page, next, err := h.c.ListRuns(h.ctx(), f)
		h.check("ListRuns", err)
		sizes = append(sizes, len(page))
		for _, r := range page {
			names = append(names, r.Name)
			if len(r.Config) != 3 {
				h.t.Errorf("%s has %d values of its config", r.Name, len(r.Config))
			}
		}
		if f.Cursor = next; next == "" {
			return sizes, names
		}
	}
}

// A run's lists come whole, however long they are.
func testLongLists(t *testing.T, open Opener) {
	const entries, size, writers = 40, 30_000, 500
	h := newHarness(t, open)
	h.must(request(1, named("run")))
	for i := range writers - 1 {
		h.must(request(1, named("run"), func(r *model.OpenRequest) {
			r.Writer, r.Host, r.ResumeStrategy = writer(100+i), strings.Repeat("h", 1_000), model.ResumeAllow
		}))
	}
	episode := int64(7)
	for i := range entries {
		text := model.StringValue(strings.Repeat("x", size-i))
		h.apply(local(1), 1, set(fmt.Sprintf("a/%02d", i), text),
			model.Update{Op: model.OpSetEnvAttribute, Env: fmt.Sprint("env", i%3), Path: fmt.Sprintf("p/%02d", i), Value: text},
			model.Update{Op: model.OpSetEnvAttribute, Env: fmt.Sprint("env", i%3), Episode: &episode, Path: fmt.Sprintf("p/%02d", i), Value: text},
			model.Update{Op: model.OpLog, Path: "e", Text: fmt.Sprint(i, strings.Repeat("t", size))})
	}
	d := h.detail(local(1))
	if d.Next.Attributes == "" || d.Next.EnvAttributes == "" || d.Next.Events == "" {
		t.Fatalf("nothing is left: %d, %d, %d", len(d.Attributes), len(d.EnvAttributes), len(d.Events))
	}
	attributes := restOf(h, d.Attributes, d.Next.Attributes, h.c.Attributes)
	if n := len(restOf(h, d.Writers, d.Next.Writers, h.c.Writers)); n != writers {
		t.Errorf("%d writers of %d", n, writers)
	}
	envs := restOf(h, d.EnvAttributes, d.Next.EnvAttributes, h.c.EnvAttributes)
	events := restOf(h, d.Events, d.Next.Events, h.c.Events)
	if len(attributes) != entries || len(envs) != 2*entries || len(events) != entries {
		t.Fatalf("%d attributes, %d of environments, %d events", len(attributes), len(envs), len(events))
	}
	for i, a := range attributes {
		equal(t, "an attribute", fmt.Sprintf("a/%02d", i), a.Path)
	}
	seen := map[string]bool{}
	for _, a := range envs {
		seen[fmt.Sprint(a.Env, a.Path, a.Episode != nil && *a.Episode == episode)] = true
	}
	equal(t, "attributes of environments", 2*entries, len(seen))
	for i, e := range events {
		if !strings.HasPrefix(e.Text, fmt.Sprint(i, "t")) {
			t.Errorf("event %d is %q", i, e.Text[:9])
		}
	}
}

func restOf[T any](h *harness, all []T, cursor string, read func(context.Context, model.RunID, string) ([]T, string, error)) []T {
	h.t.Helper()
	for pages := 0; cursor != ""; pages++ {
		page, next, err := read(h.ctx(), local(1), cursor)
		h.check("a page", err)
		if all, cursor = append(all, page...), next; len(page) == 0 || pages > 100 {
			h.t.Fatalf("page %d has %d entries", pages, len(page))
		}
	}
	return all
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
		"sgd or adam": "Adam-Große sgd", "not adam": "sgd", "not (lr=1 or missing=1)": "Adam-Große", "(lr=1) n>1": "", "name=sgd": "sgd",
		"tag=Best": "Adam-Große", "tag!=Best": "sgd", "status=running name>a": "sgd", "created>=2000-01-01": "Adam-Große sgd", "created<1990-01-01T00:00": "",
		"last>2100-01-01T00:00:00Z": "", "created<yesterday": "!", "lr = 1": "sgd", "(lr=1": "!", "lr=1)": "!", "a or": "!",
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
	id      model.RunID
	name    string
	created int
	last    int
	closed  bool
	tags    []string
	values  map[string]*model.Value
	metrics map[string][]float64
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
			key := rapid.SampledFrom([]string{"", "created", "name", "last", "status", "x", "config/x", "y", "last(loss)", "min(loss)", "max(loss)", "best(loss)", "at(loss,1)"}).Draw(rt, "sort")
			desc := key != "" && rapid.Bool().Draw(rt, "desc")
			f := catalog.RunFilter{Sort: key, Limit: rapid.IntRange(1, 4).Draw(rt, "limit")}
			if desc {
				f.Sort = "-" + key
			}
			f.Steps = stepsOf(runs)
			want := slices.Clone(runs)
			if rapid.Bool().Draw(rt, "filtered") {
				want = narrow(rt, want, &f)
			}
			for _, l := range want {
				l.values[key] = cmp.Or(l.values[key], l.aggregate(key))
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
		if rapid.Bool().Draw(rt, "logged") {
			l.metrics = map[string][]float64{"loss": rapid.SliceOfN(rapid.SampledFrom([]float64{-1, 0, 0.5, 2, math.Inf(1), math.NaN()}), 1, 3).Draw(rt, "loss")}
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
	l.id = o.Run
	var all []catalog.Summary
	for metric, points := range l.metrics {
		all = append(all, summaryOf(metric, points))
	}
	h.check("PutSummaries", h.c.PutSummaries(h.ctx(), o.Run, all, at(2000)))
}

// narrow draws a filter and applies its meaning to the model.
func narrow(rt *rapid.T, runs []*listed, f *catalog.RunFilter) []*listed {
	var keep func(*listed) bool
	switch rapid.IntRange(0, 5).Draw(rt, "filter") {
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
		f.Query, keep = drawFilter(rt, 3)
	}
	return slices.DeleteFunc(runs, func(l *listed) bool { return !keep(l) })
}

// drawFilter draws an expression, and says naively of which runs it holds.
func drawFilter(rt *rapid.T, depth int) (line string, keep func(*listed) bool) {
	if depth == 0 {
		return drawTerm(rt)
	}
	left, a := drawFilter(rt, depth-1)
	right, b := drawFilter(rt, depth-1)
	switch rapid.IntRange(0, 3).Draw(rt, "join") {
	case 0:
		return "(" + left + " or " + right + ")", func(l *listed) bool { return a(l) || b(l) }
	case 1:
		return "not(" + left + ")", func(l *listed) bool { return !a(l) }
	case 2:
		return "(" + left + ") and " + right, func(l *listed) bool { return a(l) && b(l) }
	}
	return left, a
}

func drawTerm(rt *rapid.T) (line string, keep func(*listed) bool) {
	limit := rapid.IntRange(-2, 2).Draw(rt, "limit")
	op := rapid.SampledFrom([]string{"<", ">"}).Draw(rt, "op")
	switch rapid.IntRange(0, 5).Draw(rt, "term") {
	case 5:
		key := rapid.SampledFrom([]string{"loss", "last(loss)", "min( loss )", `max("loss")`, "best(loss)", "at(loss, 1)"}).Draw(rt, "metric")
		return fmt.Sprintf("%s%s%d", key, op, limit), func(l *listed) bool { return numberIs(l.aggregate(key), op, float64(limit)) }
	case 0:
		return "tag=t", func(l *listed) bool { return slices.Contains(l.tags, "t") }
	case 1:
		return "status != finished", func(l *listed) bool { return !l.closed }
	case 2:
		return "name" + op + "\"a z\"", func(l *listed) bool { return (l.name < "a z") == (op == "<") }
	case 3:
		return "ETA", func(l *listed) bool { return strings.Contains(strings.ToLower(l.name), "eta") }
	}
	return fmt.Sprintf("x%s%d", op, limit), func(l *listed) bool { return numberIs(l.values["config/x"], op, float64(limit)) }
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
