package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// object is one of JSON.
type object = map[string]any

// TestAgentReads: what each tool answers is what was logged, whatever the limit.
func TestAgentReads(t *testing.T) {
	k := serveKitchen(t)
	b := &told{random: rand.New(rand.NewPCG(3, 4)), projects: map[string]int{}}
	b.logAll(k)
	a := &asker{k.agent()}
	for _, one := range []struct {
		name  string
		check func(*testing.T, *asker)
	}{
		{"list_projects", b.listProjects},
		{"list_runs", b.listRuns},
		{"get_run", b.getRun},
		{"compare_runs", b.compareRuns},
		{"list_series", b.listSeries},
		{"get_points", b.getPoints},
		{"documents", b.getDocuments},
		{"get_buckets", b.getBuckets},
		{"bad", b.badArguments},
		{"summaries", b.sortByMetric}, // they come a second after the points
	} {
		t.Run(one.name, func(t *testing.T) { one.check(t, a) })
	}
}

// asker is an agent.
type asker struct{ session *mcp.ClientSession }

// ask is what a tool answers, or what it has against it.
func (a *asker) ask(t *testing.T, tool string, arguments object) (answer object, against string) {
	t.Helper()
	result, err := a.session.CallTool(context.Background(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		return nil, err.Error()
	}
	if result.IsError {
		return nil, result.Content[0].(*mcp.TextContent).Text
	}
	return result.StructuredContent.(object), ""
}

// ok is ask for arguments that are right.
func (a *asker) ok(t *testing.T, tool string, arguments object) object {
	t.Helper()
	answer, against := a.ask(t, tool, arguments)
	if against != "" {
		t.Fatalf("%s %v: %s", tool, arguments, against)
	}
	return answer
}

// every is a field's entries on all pages, none of which has more than limit.
func (a *asker) every(t *testing.T, tool, field string, limit int, arguments object) (out []any) {
	t.Helper()
	arguments = maps.Clone(arguments)
	for {
		answer := a.ok(t, tool, arguments)
		page := answer[field].([]any)
		out = append(out, page...)
		if answer["next"] == nil {
			return out
		}
		if len(page) != limit {
			t.Fatalf("%s %v: a page of %d", tool, arguments, len(page))
		}
		arguments["cursor"] = answer["next"]
	}
}

// pick is one field of every entry.
func pick(entries []any, field string) []any {
	out := []any{}
	for _, one := range entries {
		out = append(out, one.(object)[field])
	}
	return out
}

// inJSON is a value as the tools show it.
func inJSON(v any) any {
	switch v := v.(type) {
	case float64:
		switch {
		case math.IsNaN(v):
			return "NaN"
		case math.IsInf(v, 1):
			return "Infinity"
		case math.IsInf(v, -1):
			return "-Infinity"
		}
	case int64:
		if v > 1<<53 || v < -(1<<53) {
			return fmt.Sprint(v)
		}
		return float64(v)
	case string:
		if len(v) > 500 {
			return fmt.Sprintf("%s… (%d bytes in all)", v[:500], len(v))
		}
	}
	return v
}

func differ(t *testing.T, what string, want, got any) {
	t.Helper()
	if !reflect.DeepEqual(want, got) { // far faster
		t.Errorf("%s (-logged +answered):\n%s", what, gocmp.Diff(want, got))
	}
}

// odd is a number, sometimes one that JSON lacks.
func (b *told) odd() float64 {
	if b.random.IntN(20) == 0 {
		return []float64{math.NaN(), math.Inf(1), math.Inf(-1)}[b.random.IntN(3)]
	}
	return b.random.NormFloat64()
}

func (b *told) listProjects(t *testing.T, a *asker) {
	for _, workspace := range []string{"", "lab", "other", "none"} {
		want := []any{}
		for _, name := range slices.Sorted(maps.Keys(b.projects)) {
			if workspace == "" || strings.HasPrefix(name, workspace+"/") {
				want = append(want, object{"project": name, "runs": float64(b.projects[name])})
			}
		}
		for _, limit := range []int{0, 1, 2, len(want), 9_999} {
			answer := a.ok(t, "list_projects", object{"workspace": workspace, "limit": limit})
			for _, one := range answer["projects"].([]any) {
				delete(one.(object), "last_activity")
			}
			most := len(want)
			if limit > 0 {
				most = min(limit, most)
			}
			differ(t, fmt.Sprintf("%s, limit %d", workspace, limit), object{"projects": want[:most], "more": most < len(want)}, answer)
		}
	}
}

// chosen are the names of the runs that are meant, newest first.
func (b *told) chosen(meant func(*toldRun) bool) []any {
	out := []any{}
	for _, run := range slices.Backward(b.many) {
		if meant(run) {
			out = append(out, "lab/many/"+run.name)
		}
	}
	return out
}

func lrOf(run *toldRun) float64 {
	if lr, ok := run.config["lr"].(float64); ok {
		return lr
	}
	return math.NaN()
}

func (b *told) listRuns(t *testing.T, a *asker) {
	for i, c := range []struct {
		ask   object
		meant func(*toldRun) bool
	}{
		{object{}, func(*toldRun) bool { return true }},
		{object{"status": "failed"}, func(run *toldRun) bool { return run.status == "failed" }},
		{object{"filter": "lr<0.25"}, func(run *toldRun) bool { return lrOf(run) < 0.25 }},
		{object{"filter": "not lr<0.25 status=running"}, func(run *toldRun) bool { return !(lrOf(run) < 0.25) && run.status == "running" }},
		{object{"filter": "tag=base or tag=deep"}, func(run *toldRun) bool { return len(run.tags) > 0 }},
		{object{"filter": "flag=true", "status": "finished"}, func(run *toldRun) bool { return run.config["flag"] == true && run.status == "finished" }},
		{object{"filter": "r07"}, func(run *toldRun) bool { return run.name == "r07" }},
	} {
		c.ask["project"] = "lab/many"
		for _, limit := range []int{0, 7, 9_999} {
			c.ask["limit"] = limit
			most := map[int]int{0: 20, 9_999: 200}[limit] + limit%9_999
			differ(t, fmt.Sprint(i, c.ask), b.chosen(c.meant), pick(a.every(t, "list_runs", "runs", most, c.ask), "run"))
		}
	}
	for _, one := range a.every(t, "list_runs", "runs", 20, object{"project": "many", "columns": []string{"config/lr", "config/lr", "config/text", "config/whole", "config/flag", "at(loss, 1)"}}) {
		line := one.(object)
		run := b.many[slices.IndexFunc(b.many, func(run *toldRun) bool { return "lab/many/"+run.name == line["run"] })]
		want := object{"at(loss, 1)": inJSON(run.loss[1])}
		for name, value := range run.config {
			want["config/"+name] = inJSON(value)
		}
		differ(t, run.name+"'s values", want, line["values"])
		differ(t, run.name+"'s id and status", []any{run.id, run.status}, []any{line["id"], line["status"]})
	}
	b.sorted(t, a, "config/lr", lrOf)
	b.sorted(t, a, "at(loss, 0)", func(run *toldRun) float64 { return finite(run.loss[0]) })
}

// finite is NaN for the infinities: a run has no place by such a value of a metric.
func finite(v float64) float64 {
	if math.IsInf(v, 0) {
		return math.NaN()
	}
	return v
}

// sorted checks an order, in which runs come last whose value is NaN.
func (b *told) sorted(t *testing.T, a *asker, by string, value func(*toldRun) float64) {
	t.Helper()
	runs := slices.DeleteFunc(slices.Clone(b.many), func(run *toldRun) bool { return math.IsNaN(value(run)) })
	slices.SortFunc(runs, func(x, y *toldRun) int { return cmp.Compare(value(x), value(y)) })
	for _, sign := range []string{"", "-"} {
		want := []any{}
		for _, run := range runs {
			want = append(want, "lab/many/"+run.name)
		}
		got := pick(a.every(t, "list_runs", "runs", 7, object{"project": "lab/many", "sort": sign + by, "limit": 7}), "run")
		if len(got) != toldRuns {
			t.Errorf("%d runs by %s", len(got), by)
		}
		differ(t, sign+by, want, got[:len(want)])
		slices.Reverse(runs)
	}
}

func (b *told) sortByMetric(t *testing.T, a *asker) {
	least := func(run *toldRun) float64 {
		out := math.NaN()
		for _, v := range run.loss {
			if !math.IsNaN(v) && !math.IsInf(v, 0) && !(out <= v) {
				out = v
			}
		}
		return out
	}
	ready := func() bool {
		for _, one := range a.every(t, "list_runs", "runs", 200, object{"project": "lab/many", "limit": 200, "columns": []string{"last(loss)"}}) {
			if one.(object)["values"] == nil {
				return false
			}
		}
		return true
	}
	for until := time.Now().Add(20 * time.Second); !ready(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("no summaries")
		}
	}
	b.sorted(t, a, "min(loss)", least)
	b.sorted(t, a, "last(loss)", func(run *toldRun) float64 { return finite(run.loss[2]) })
}

func (b *told) getRun(t *testing.T, a *asker) {
	for _, run := range b.many[:3] {
		for _, ref := range []string{run.id, "lab/many/" + run.name, run.name} {
			answer := a.ok(t, "get_run", object{"run": ref})
			config := object{}
			for name, value := range run.config {
				config[name] = inJSON(value)
			}
			differ(t, ref, []any{run.id, run.status, config, nil}, []any{answer["id"], answer["status"], answer["config"], answer["left_out"]})
			differ(t, ref, fmt.Sprint(run.tags), strings.Replace(fmt.Sprint(answer["tags"]), "<nil>", "[]", 1))
			differ(t, ref, inJSON(run.loss[2]), answer["summary"].(object)["loss"].(object)["value"])
		}
	}
	for match, leftOut := range map[string]any{"": "50 values of the configuration, 19 metrics, 2 attempts, 2 processes of the attempts shown", "^m0": "2 attempts, 2 processes of the attempts shown", "^c": "50 values of the configuration, 2 attempts, 2 processes of the attempts shown"} {
		answer := a.ok(t, "get_run", object{"run": "long", "match": match})
		config, last := firstOf(b.long.config, match, 200), object{}
		for name, value := range config {
			config[name] = inJSON(value)
		}
		for name, one := range answer["summary"].(object) {
			last[name] = one.(object)["value"]
		}
		differ(t, match, []any{config, firstOf(b.last, match, 100), leftOut}, []any{answer["config"], last, answer["left_out"]})
		b.attempts(t, answer["attempts"].([]any))
	}
}

// firstOf are the entries whose names come first of those that match.
func firstOf(of object, match string, most int) object {
	out := object{}
	for _, name := range slices.Sorted(maps.Keys(of)) {
		if regexp.MustCompile(match).MatchString(name) && len(out) < most {
			out[name] = of[name]
		}
	}
	return out
}

func (b *told) attempts(t *testing.T, got []any) {
	t.Helper()
	if len(got) != 20 {
		t.Fatalf("%d attempts", len(got))
	}
	for i, one := range got {
		number := toldAttempts - 19 + i
		processes := one.(object)["processes"].([]any)
		state, writers := "finished", 1
		if number == toldAttempts {
			state, writers = "open", 50
		}
		if len(processes) != writers {
			t.Fatalf("attempt %d has %d processes", number, len(processes))
		}
		differ(t, "attempt", []any{float64(number), time.Unix(toldStart+int64(number), 0).UTC().Format(time.RFC3339)}, []any{one.(object)["number"], one.(object)["opened"]})
		process := processes[0].(object)
		differ(t, "process", []any{"box", float64(number), "test/1", state}, []any{process["host"], process["pid"], process["sdk"], process["state"]})
	}
}

func (b *told) compareRuns(t *testing.T, a *asker) {
	for n := 2; n <= 20; n += 18 {
		runs := []*toldRun{}
		for _, i := range b.random.Perm(toldRuns)[:n] {
			runs = append(runs, b.many[i])
		}
		b.compare(t, a, runs, "", "")
		b.compare(t, a, runs, "^[lw]", "")
	}
	b.compare(t, a, []*toldRun{b.long, b.many[0]}, "^c", fmt.Sprint(toldConfig-100, " values that differ; use match"))
	b.compare(t, a, []*toldRun{b.long, b.long}, "", "")
}

func (b *told) compare(t *testing.T, a *asker, runs []*toldRun, match, leftOut string) {
	t.Helper()
	refs, every := []string{}, map[string]bool{}
	for _, run := range runs {
		refs = append(refs, run.id)
		for name := range run.config {
			every[name] = regexp.MustCompile(match).MatchString(name)
		}
	}
	same, different := 0.0, []any{}
	for _, name := range slices.Sorted(maps.Keys(every)) {
		values, texts := []any{}, map[string]bool{}
		for _, run := range runs {
			values, texts[fmt.Sprint(run.config[name])] = append(values, inJSON(run.config[name])), true
		}
		if every[name] && len(texts) == 1 {
			same++
		} else if every[name] {
			different = append(different, object{"name": name, "values": values})
		}
	}
	answer := a.ok(t, "compare_runs", object{"runs": refs, "match": match})
	differ(t, "compared", []any{same, different[:min(100, len(different))]}, []any{answer["same"], answer["different"]})
	if got, _ := answer["left_out"].(string); got != leftOut || len(answer["runs"].([]any)) != len(runs) {
		t.Errorf("%d runs, left out: %s", len(answer["runs"].([]any)), got)
	}
}

func (b *told) listSeries(t *testing.T, a *asker) {
	all := map[string]object{}
	for name, last := range b.last {
		all[name] = object{"metric": name, "kind": "float64", "points": 1.0, "last": object{"step": 5.0, "time": moment(toldStart * 1e9), "value": last}}
		if regexp.MustCompile("^m..[13579]").MatchString(name) {
			all[name]["kind"] = "int64"
		}
	}
	end := b.curve[len(b.curve)-1]
	all["curve"]["points"], all["curve"]["last"].(object)["step"], all["curve"]["last"].(object)["time"] = float64(len(b.curve)), float64(end.step), moment(end.ns)
	for name, kind := range map[string]string{"note": "text", "hist": "histogram"} {
		all[name] = object{"metric": name, "kind": kind, "points": float64(toldDocuments)}
	}
	for value, split := range map[float64]string{4: "train", 5: "eval"} {
		all["loss"+split] = object{"metric": "loss", "labels": object{"split": split}, "kind": "float64", "points": 1.0, "last": object{"step": 5.0, "time": moment(toldStart * 1e9), "value": value}}
	}
	for match, limit := range map[string]int{"": 0, "^m": 30, "loss|note|hist": 2, "^curve$": 9_999, "e": 9} {
		got := a.every(t, "list_series", "series", map[int]int{0: 50, 9_999: 500}[limit]+limit%9_999, object{"run": "long", "metric": match, "limit": limit})
		want := []any{}
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if regexp.MustCompile(match).MatchString(all[name]["metric"].(string)) {
				want = append(want, all[name])
			}
		}
		for _, one := range got {
			delete(one.(object), "axes")
		}
		differ(t, match, want, got)
	}
}

func moment(ns int64) string { return time.Unix(0, ns).UTC().Format(time.RFC3339Nano) }

// stretch is a random part of an axis, as arguments and as what is meant.
func (b *told) stretch() (ask object, meant func(toldPoint) int64, from, to int64) {
	axis := []string{"step", "time_ns", "epoch"}[b.random.IntN(3)]
	meant = map[string]func(toldPoint) int64{"step": func(p toldPoint) int64 { return p.step }, "time_ns": func(p toldPoint) int64 { return p.ns }, "epoch": func(p toldPoint) int64 { return p.epoch }}[axis]
	one, other := meant(b.curve[b.random.IntN(len(b.curve))]), meant(b.curve[b.random.IntN(len(b.curve))])
	ask, from, to = object{"run": "long", "metric": "curve", "axis": axis, "from": min(one, other), "to": max(one, other)}, min(one, other), max(one, other)
	if axis == "time_ns" {
		ask["from"], ask["to"] = moment(from), fmt.Sprint(to)
	}
	if b.random.IntN(4) == 0 {
		delete(ask, "from")
		from = math.MinInt64
	}
	return ask, meant, from, to
}

// partOf are the points of a part, in its order.
func partOf(points []toldPoint, on func(toldPoint) int64, from, to int64) []toldPoint {
	out := slices.DeleteFunc(slices.Clone(points), func(p toldPoint) bool { return on(p) < from || on(p) > to })
	slices.SortFunc(out, func(x, y toldPoint) int { return cmp.Or(cmp.Compare(on(x), on(y)), cmp.Compare(x.ns, y.ns)) })
	return out
}

func (b *told) getPoints(t *testing.T, a *asker) {
	for round := range 4 {
		ask, on, from, to := b.stretch()
		points := b.curve
		switch attempt := []string{"", "1", "2", "all"}[round%4]; attempt {
		case "all":
			ask["attempt"], points = attempt, slices.Concat(b.curve, b.hidden)
		case "1", "2":
			ask["attempt"] = attempt
			points = slices.DeleteFunc(slices.Concat(b.curve, b.hidden), func(p toldPoint) bool { return fmt.Sprint(p.attempt) != attempt })
		}
		limit := []int{0, 700, 2_000, 9_999}[b.random.IntN(4)]
		ask["limit"] = limit
		var want []any
		for _, p := range partOf(points, on, from, to) {
			one := object{"at": inJSON(on(p)), "value": inJSON(p.value), "time": moment(p.ns)}
			if ask["axis"] == "time_ns" {
				one = object{"at": moment(p.ns), "value": inJSON(p.value)}
			}
			if ask["attempt"] == "all" {
				one["attempt"] = float64(p.attempt)
			}
			want = append(want, one)
		}
		differ(t, fmt.Sprint(ask), want, a.every(t, "get_points", "points", map[int]int{0: 200, 9_999: 2_000}[limit]+limit%9_999, ask))
	}
}

func (b *told) getDocuments(t *testing.T, a *asker) {
	texts, histograms := []any{}, []any{}
	for i, note := range b.notes {
		if len(note) > 1000 {
			note = fmt.Sprintf("%s… (%d bytes in all)", note[:1000], len(note))
		}
		texts = append(texts, note)
		histograms = append(histograms, object{"bin_edges": []any{float64(i), float64(i + 1)}, "counts": []any{float64(i)}})
	}
	for _, limit := range []int{7, 9_999} {
		for metric, want := range map[string][]any{"note": texts, "hist": histograms} {
			differ(t, metric, want, pick(a.every(t, "get_points", "points", map[bool]int{true: limit, false: 50}[limit == 7], object{"run": "long", "metric": metric, "limit": limit}), "value"))
		}
	}
	for split, want := range map[string]float64{"train": 4, "eval": 5} {
		answer := a.ok(t, "get_points", object{"run": "long", "metric": "loss", "labels": object{"split": split}})
		differ(t, split, []any{want}, pick(answer["points"].([]any), "value"))
	}
	for _, name := range []string{"curve", "m000", "m001", "m002", "m003"} {
		want := b.last[name]
		answer := a.ok(t, "get_points", object{"run": "long", "metric": name, "from": b.curve[len(b.curve)-1].step * map[bool]int64{true: 1}[name == "curve"]})
		differ(t, name, []any{want}, pick(answer["points"].([]any), "value"))
	}
}

func (b *told) getBuckets(t *testing.T, a *asker) {
	for range 8 {
		ask, on, from, to := b.stretch()
		n := []int{0, 1, 7, 1_000, 9_999}[b.random.IntN(5)]
		ask["n"] = n
		points := partOf(b.curve, on, from, to)
		buckets := a.ok(t, "get_buckets", ask)["buckets"].([]any)
		if most := map[int]int{0: 50, 9_999: 1_000}[n] + n%9_999; len(buckets) > most || 2*len(buckets) < min(most, len(points)/500) {
			t.Errorf("%v: %d buckets of %d points", ask, len(buckets), len(points))
		}
		for _, one := range buckets { // they are in order, so each takes the points that come next
			got := one.(object)
			count := int(got["count"].(float64))
			for _, odd := range []string{"nan", "pos_inf", "neg_inf"} {
				if more, ok := got[odd].(float64); ok {
					count += int(more)
				}
			}
			if count == 0 || count > len(points) {
				t.Fatalf("%v: %v of %d points", ask, got, len(points))
			}
			mean := got["mean"]
			delete(got, "mean")
			want, exact := bucketOf(points[:count], on, ask["axis"] == "time_ns")
			differ(t, fmt.Sprint(ask), want, got)
			if about, ok := mean.(float64); ok != !math.IsNaN(exact) || math.Abs(about-exact) > 1e-12 {
				t.Errorf("%v: the mean is %v, not %v", ask, mean, exact)
			}
			points = points[count:]
		}
		if len(points) > 0 {
			t.Errorf("%v: %d points are in no bucket", ask, len(points))
		}
	}
}

// bucketOf is the bucket of points, less its mean.
func bucketOf(points []toldPoint, on func(toldPoint) int64, times bool) (out object, mean float64) {
	var least, most, sum, finite float64
	counts := map[string]float64{}
	for _, p := range points {
		if name, odd := inJSON(p.value).(string); odd {
			counts[map[string]string{"NaN": "nan", "Infinity": "pos_inf", "-Infinity": "neg_inf"}[name]]++
			continue
		}
		if finite++; finite == 1 {
			least, most = p.value, p.value
		}
		least, most, sum = min(least, p.value), max(most, p.value), sum+p.value
	}
	out = object{"from": inJSON(on(points[0])), "to": inJSON(on(points[len(points)-1])), "count": finite, "min": "NaN", "max": "NaN"}
	if finite > 0 {
		out["min"], out["max"] = least, most
	}
	if times {
		out["from"], out["to"] = moment(on(points[0])), moment(on(points[len(points)-1]))
	}
	for name, n := range counts {
		out[name] = n
	}
	return out, sum / finite
}

func (b *told) badArguments(t *testing.T, a *asker) {
	for _, c := range []struct {
		tool      string
		arguments object
		against   string
	}{
		{"list_projects", object{"limit": -1}, "the limit is -1 (give 1 to 1000)"},
		{"list_projects", object{"limit": 1e300}, "cannot unmarshal"},
		{"list_projects", object{"limit": 1.5}, "1.5 has type \"number\", want \"integer\""},
		{"list_projects", object{"limt": 1}, "unexpected additional properties [\"limt\"]"},
		{"list_runs", object{}, "missing properties: [\"project\"]"},
		{"list_runs", object{"project": ""}, "the project \"\" is not valid"},
		{"list_runs", object{"project": "lab/none"}, "there is no project lab/none"},
		{"list_runs", object{"project": "few"}, "say one of these:\n  lab/few\n  other/few"},
		{"list_runs", object{"project": "lab/many", "limit": -2}, "the limit is -2 (give 1 to 200)"},
		{"list_runs", object{"project": "lab/many", "status": "broken"}, "a status is running, finished, failed"},
		{"list_runs", object{"project": "lab/many", "filter": "lr<0.1 or"}, "not valid at column 10"},
		{"list_runs", object{"project": "lab/many", "sort": "min(loss"}, "none of the runs has \"min(loss\" to sort by"},
		{"list_runs", object{"project": "lab/many", "sort": "-loss"}, "none of the runs has \"loss\" to sort by"},
		{"list_runs", object{"project": "lab/many", "sort": "lrr"}, "none of the runs has \"lrr\" to sort by (sort by created, name, last, status, an attribute as config/lr"},
		{"list_runs", object{"project": "lab/many", "columns": slices.Repeat([]string{"config/lr"}, 21)}, "21 columns; at most 20"},
		{"list_runs", object{"project": "lab/many", "cursor": "rubbish"}, "the cursor is not valid"},
		{"get_run", object{"run": ""}, "\"\" names no run"},
		{"get_run", object{"run": "lab/few/lon"}, "did you mean lab/few/long?"},
		{"get_run", object{"run": "0"}, "say one of these, the path or the id"},
		{"get_run", object{"run": "long", "match": "("}, "match is no regular expression"},
		{"compare_runs", object{"runs": []string{}}, "0 runs to compare (give 2 to 20)"},
		{"compare_runs", object{"runs": slices.Repeat([]string{"long"}, 21)}, "21 runs to compare (give 2 to 20)"},
		{"compare_runs", object{"runs": []string{"long", "none"}}, "there is no run \"none\""},
		{"compare_runs", object{"runs": []string{"long", "r01"}, "match": "["}, "match is no regular expression"},
		{"list_series", object{"run": "long", "limit": -1}, "the limit is -1 (give 1 to 500)"},
		{"list_series", object{"run": "long", "metric": "("}, "metric is no regular expression"},
		{"list_series", object{"run": "long", "cursor": "rubbish"}, "the cursor does not belong to this request"},
		{"get_points", object{"run": "long"}, "missing properties: [\"metric\"]"},
		{"get_points", object{"run": "long", "metric": ""}, "no metric is given"},
		{"get_points", object{"run": "long", "metric": "curv"}, "has no series curv{}"},
		{"get_points", object{"run": "long", "metric": "loss"}, "label.split=\"eval\"}, loss{"},
		{"get_points", object{"run": "long", "metric": "loss", "labels": object{"split": "test"}}, "has no series loss{label.split=\"test\"}"},
		{"get_points", object{"run": "long", "metric": "curve", "scale": "none"}, "of this metric there are: curve{scale=\"ML_STEP\"}"},
		{"get_points", object{"run": "long", "metric": "curve", "axis": "episode"}, "its axes are step, epoch, time_ns"},
		{"get_points", object{"run": "long", "metric": "curve", "axis": "steps"}, "its axes are step, epoch, time_ns"},
		{"get_points", object{"run": "long", "metric": "curve", "from": 9, "to": 3}, "from 9 is behind to 3"},
		{"get_points", object{"run": "long", "metric": "curve", "from": 0.5}, "want one of \"integer, string\""},
		{"get_points", object{"run": "long", "metric": "curve", "from": 1e17}, "give a whole number (as text beyond 2^53)"},
		{"get_points", object{"run": "long", "metric": "curve", "from": "soon"}, "\"soon\" is no position"},
		{"get_points", object{"run": "long", "metric": "curve", "from": "2026-01-31T12:00:00Z"}, "the points go by step (give axis time_ns"},
		{"get_points", object{"run": "long", "metric": "curve", "attempt": "99"}, "has no attempt 99 (it has 22"},
		{"get_points", object{"run": "long", "metric": "curve", "attempt": "last"}, "attempt is \"last\""},
		{"get_points", object{"run": "long", "metric": "curve", "cursor": "rubbish"}, "the cursor does not belong to this request"},
		{"get_points", object{"run": "long", "metric": "curve", "limit": -1}, "the limit is -1 (give 1 to 2000)"},
		{"get_buckets", object{"run": "long", "metric": "curve", "n": -1}, "the limit is -1 (give 1 to 1000)"},
		{"get_buckets", object{"run": "long", "metric": "note"}, "holds text, which has no buckets"},
		{"get_buckets", object{"run": "long", "metric": "curve", "axis": "window"}, "its axes are step, epoch, time_ns"},
		{"get_buckets", object{"run": "long", "metric": "curve", "from": "2026-01-31T12:00:00Z"}, "the points go by step (give axis time_ns"},
	} {
		answer, against := a.ask(t, c.tool, c.arguments)
		if !strings.Contains(against, c.against) {
			t.Errorf("%s %v: %q, want %q; %.200v", c.tool, c.arguments, against, c.against, answer)
		}
	}
}
