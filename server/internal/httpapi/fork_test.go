package httpapi_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/httpapi"
)

// family is a chain of forks and what the test knows of them: the oracle.
type family struct {
	*lab
	rand *rand.Rand
	runs []*member // each the fork of the one before
}

type member struct {
	name   string
	id     model.RunID
	lives  []*writer // by attempt
	resume []*int64
	step   *int64 // of the fork
}

func (f *family) live(m *member, change func(*model.OpenRequest)) {
	var resume *int64
	if len(m.lives) > 0 && f.rand.IntN(2) == 0 {
		resume = number(f.rand.Int64N(20))
	}
	count := int64(len(m.lives))
	w := f.writer(m.name, func(r *model.OpenRequest) {
		r.RestartCount, r.ResumeFromStep = &count, resume
		if change != nil {
			change(r)
		}
	})
	m.id, m.lives, m.resume = w.run, append(m.lives, w), append(m.resume, resume)
}

func number(n int64) *int64 { return &n }

// log writes steps that mostly rise, sometimes again.
func (f *family) log(m *member) {
	w := m.lives[len(m.lives)-1]
	for _, metric := range []string{"loss", "rare"} {
		if metric == "rare" && f.rand.IntN(3) > 0 {
			continue
		}
		step := f.rand.Int64N(25)
		var list []point
		for range 1 + f.rand.IntN(6) {
			list = append(list, point{axes: map[model.Axis]int64{model.AxisStep: step}, timeNs: f.rand.Int64N(1e6), value: f.rand.Float64()})
			if step += 1 + f.rand.Int64N(2); f.rand.IntN(5) == 0 {
				step = f.rand.Int64N(25)
			}
		}
		w.log(model.NewSeriesKey(metric, "", nil), list...)
	}
}

// curve is what is left of a run's points: plain rules over all pairs.
func (m *member) curve(metric string) (out []point) {
	text := model.NewSeriesKey(metric, "", nil).String()
	for life, w := range m.lives {
		for i, p := range w.logged {
			if p.series != text {
				continue
			}
			gone := slices.ContainsFunc(w.logged[i+1:], func(q point) bool {
				return q.series == text && q.axes[model.AxisStep] == p.axes[model.AxisStep]
			})
			for later := life + 1; later < len(m.lives); later++ {
				if s := m.resume[later]; s != nil {
					gone = gone || p.axes[model.AxisStep] >= *s
					continue
				}
				gone = gone || slices.ContainsFunc(m.lives[later].logged, func(q point) bool {
					return q.series == text && q.axes[model.AxisStep] == p.axes[model.AxisStep]
				})
			}
			if !gone {
				out = append(out, p)
			}
		}
	}
	return out
}

// kin is a point with the run that logged it.
type kin struct {
	point
	run model.RunID
}

func (f *family) continued(metric string, depth int) (out []kin) {
	upTo := int64(1 << 60)
	for i := depth; i >= 0; i-- {
		m := f.runs[i]
		taken := map[int64]bool{}
		for _, k := range out {
			taken[k.axes[model.AxisStep]] = true
		}
		for _, p := range m.curve(metric) {
			if step := p.axes[model.AxisStep]; step <= upTo && !taken[step] {
				out = append(out, kin{p, m.id})
			}
		}
		if m.step != nil {
			upTo = min(upTo, *m.step)
		}
	}
	return out
}

func newFamily(t *testing.T, seed uint64) *family {
	f := &family{lab: newLab(t, httpapi.Options{}), rand: rand.New(rand.NewPCG(seed, 1))}
	for i := range 3 {
		m := &member{name: fmt.Sprint("run", i)}
		if i == 0 {
			f.live(m, nil)
		} else {
			parent := f.runs[i-1]
			asked := number(f.rand.Int64N(20))
			if f.rand.IntN(3) == 0 {
				asked = nil // as far as it is now
			}
			m.step = asked
			for _, p := range append(parent.curve("loss"), parent.curve("rare")...) {
				if step := p.axes[model.AxisStep]; asked == nil && (m.step == nil || step > *m.step) {
					m.step = &step
				}
			}
			f.live(m, func(r *model.OpenRequest) { r.ForkFromRun, r.ForkAtStep = parent.name, asked })
		}
		f.runs = append(f.runs, m)
		for range f.rand.IntN(5) { // the runs before go on and restart too
			old := f.runs[f.rand.IntN(len(f.runs))]
			if f.log(old); f.rand.IntN(4) == 0 {
				f.live(old, nil)
			}
		}
	}
	return f
}

// TestForksContinueTheirParents holds every read against the oracle.
func TestForksContinueTheirParents(t *testing.T) {
	for seed := range uint64(25) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			f := newFamily(t, seed)
			for depth, m := range f.runs {
				for _, metric := range []string{"loss", "rare"} {
					want := f.continued(metric, depth)
					f.compareSeries(m, metric, want)
					if len(want) == 0 {
						continue
					}
					for _, axis := range []model.Axis{model.AxisStep, model.AxisTime} {
						f.comparePoints(m, metric, axis, want)
						f.compareBuckets(m, metric, axis, want)
					}
				}
			}
		})
	}
}

func (f *family) path(m *member, rest string) string {
	return "/api/v1/runs/" + m.id.String() + "/" + rest
}

func (f *family) comparePoints(m *member, metric string, axis model.Axis, all []kin) {
	f.t.Helper()
	runs := map[string]string{}
	plain := make([]point, len(all))
	for i, k := range all {
		plain[i] = k.point
		runs[fmt.Sprint(k.writer, k.seq)] = k.run.String()
	}
	rows := want(sorted(plain, axis))
	for i, p := range sorted(plain, axis) {
		rows[i]["run"] = runs[fmt.Sprint(p.writer, p.seq)]
	}
	for _, format := range []string{"json", "csv", "arrow", "parquet"} {
		q := values("metric", metric, "axis", string(axis), "include_inherited", "1", "limit", "4")
		var got []textRow
		for {
			page, next := f.readRows(f.path(m, "points"), q, format, model.KindFloat)
			got = append(got, page...)
			if next == "" {
				break
			}
			q.Set("cursor", next)
		}
		if diff := gocmp.Diff(rows, got); diff != "" {
			f.t.Fatalf("points of %s of %s by %s as %s (-want +got)\n%s", metric, m.name, axis, format, diff)
		}
	}
}

func (f *family) compareBuckets(m *member, metric string, axis model.Axis, all []kin) {
	f.t.Helper()
	for _, n := range []string{"1", "5", "1000"} {
		doc := f.get(f.path(m, "buckets"), values("metric", metric, "x", string(axis), "n", n, "include_inherited", "1"))
		columns := doc["columns"].(map[string]any)
		at := func(name string, i int) float64 {
			v, err := strconv.ParseFloat(text(columns[name].([]any)[i]), 64)
			if err != nil {
				f.t.Fatal(err)
			}
			return v
		}
		in := func(k kin, i int) bool {
			v, _ := x(k.point, axis)
			return float64(v) >= at("lo", i) && float64(v) <= at("hi", i)
		}
		left := len(all)
		for i := range columns["lo"].([]any) {
			var count, inherited float64
			least, most := 2.0, -1.0
			for _, k := range all {
				if !in(k, i) {
					continue
				}
				count++
				least, most = min(least, k.value.(float64)), max(most, k.value.(float64))
				if k.run != m.id {
					inherited++
				}
			}
			left -= int(count)
			if at("count", i) != count || at("inherited", i) != inherited || at("min", i) != least || at("max", i) != most {
				f.t.Fatalf("bucket %d of %s of %s of %s by %s: %v, want %v of %v to %v, %v inherited", i, n, metric, m.name, axis, columns, count, least, most, inherited)
			}
		}
		if left != 0 {
			f.t.Fatalf("%d points of %s of %s by %s are in no bucket of %s", left, metric, m.name, axis, n)
		}
	}
}

func (f *family) compareSeries(m *member, metric string, all []kin) {
	f.t.Helper()
	doc := f.get(f.path(m, "series"), values("include_inherited", "1", "q", "^"+metric+"$"))
	list := doc["series"].([]any)
	text0 := model.NewSeriesKey(metric, "", nil).String()
	known := len(all) > 0
	for _, r := range f.runs[:slices.Index(f.runs, m)+1] {
		for _, w := range r.lives {
			known = known || slices.ContainsFunc(w.logged, func(p point) bool { return p.series == text0 })
		}
	}
	if !known {
		if len(list) != 0 {
			f.t.Fatalf("%s of %s is listed: %v", metric, m.name, list)
		}
		return
	}
	if len(list) != 1 {
		f.t.Fatalf("%s of %s is listed %d times", metric, m.name, len(list))
	}
	got := list[0].(map[string]any)
	inherited := 0
	for _, k := range all {
		if k.run != m.id {
			inherited++
		}
	}
	if text(got["count"]) != strconv.Itoa(len(all)) || text(got["inherited"]) != strconv.Itoa(inherited) {
		f.t.Errorf("%s of %s: %v, want %d points, %d inherited", metric, m.name, got, len(all), inherited)
	}
	if len(all) == 0 {
		return
	}
	last := slices.MaxFunc(all, func(a, b kin) int { return cmp.Compare(a.axes[model.AxisStep], b.axes[model.AxisStep]) })
	end := got["last"].(map[string]any)
	if text(end["step"]) != strconv.FormatInt(last.axes[model.AxisStep], 10) {
		f.t.Errorf("%s of %s ends with %v, want step %d", metric, m.name, end, last.axes[model.AxisStep])
	}
	step := last.axes[model.AxisStep]
	if sole := !slices.ContainsFunc(all, func(k kin) bool { return k.axes[model.AxisStep] == step && k.seq != last.seq }); sole && text(end["time_ns"]) != strconv.FormatInt(last.timeNs, 10) {
		f.t.Errorf("%s of %s ends with %v, want %+v", metric, m.name, end, last)
	}
}

// TestABrokenLine: what cannot be read is not inherited, and the run's document
// says so. Nothing changes without include_inherited.
func TestABrokenLine(t *testing.T) {
	l := newLab(t, httpapi.Options{})
	loss := model.NewSeriesKey("loss", "", nil)
	old := l.writer("old", nil)
	old.log(loss, steps(0, 10, func(i int) any { return float64(i) })...)
	middle := l.writer("middle", func(r *model.OpenRequest) { r.ForkFromRun, r.ForkAtStep = "old", number(4) })
	young := l.writer("young", func(r *model.OpenRequest) { r.ForkFromRun, r.ForkAtStep = "middle", number(7) })
	young.log(loss, steps(8, 2, func(i int) any { return float64(i) })...)
	count := func() string {
		doc := l.get(young.path("series"), values("include_inherited", "1"))
		return text(doc["series"].([]any)[0].(map[string]any)["count"])
	}
	lineage := func(w *writer) map[string]any {
		return l.get("/api/v1/runs/"+w.run.String(), nil)["lineage"].(map[string]any)
	}
	if got := count(); got != "7" { // 0…4 of old, 8 and 9
		t.Errorf("%s points", got)
	}
	ancestors := lineage(young)["ancestors"].([]any)
	if len(ancestors) != 2 || text(ancestors[0].(map[string]any)["up_to"]) != "7" || text(ancestors[1].(map[string]any)["up_to"]) != "4" || ancestors[1].(map[string]any)["name"] != "old" {
		t.Errorf("ancestors %v", ancestors)
	}
	forks := lineage(old)["forks"].([]any)
	if len(forks) != 1 || forks[0].(map[string]any)["id"] != middle.run.String() || text(forks[0].(map[string]any)["fork_step"]) != "4" {
		t.Errorf("forks %v", forks)
	}
	if doc := l.get(young.path("points"), values("metric", "loss")); len(doc["columns"].(map[string]any)["step"].([]any)) != 2 || doc["columns"].(map[string]any)["run"] != nil {
		t.Errorf("without include_inherited: %v", doc)
	}
	l.refused(l.do("GET", young.path("points"), values("metric", "loss", "include_inherited", "1", "attempt", "1"), ""), http.StatusBadRequest, model.CodeInvalid, "attempt")
	l.refused(l.do("GET", middle.path("points"), values("metric", "loss"), ""), http.StatusNotFound, model.CodeNotFound, "no series")
	if doc := l.get(middle.path("points"), values("metric", "loss", "include_inherited", "1")); len(doc["columns"].(map[string]any)["step"].([]any)) != 5 {
		t.Errorf("a fork without points of its own: %v", doc)
	}

	page := l.get(young.path("points"), values("metric", "loss", "include_inherited", "1", "limit", "3"))
	cut := values("metric", "loss", "include_inherited", "1", "limit", "3", "cursor", page["next"].(string))
	broken := func(code, name string, want string) {
		t.Helper()
		line := lineage(young)
		if b, _ := line["broken"].(map[string]any); b["code"] != code || b["name"] != name {
			t.Errorf("broken %v, want %s %s", b, name, code)
		}
		if got := count(); got != want {
			t.Errorf("%s points, want %s", got, want)
		}
	}
	remove := func(w *writer, q string) {
		t.Helper()
		if a := l.do("DELETE", "/api/v1/runs/"+w.run.String()+q, nil, ""); a.status != http.StatusOK {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	remove(middle, "")
	broken("run_deleted", "middle", "2")
	l.refused(l.do("GET", young.path("points"), cut, ""), http.StatusBadRequest, model.CodeInvalid, "cursor")
	if a := l.do("POST", "/api/v1/runs/"+middle.run.String()+"/restore", nil, ""); a.status != http.StatusOK {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if got := count(); got != "7" {
		t.Errorf("%s points after the parent came back", got)
	}
	remove(old, "?now=1")
	broken("run_deleted", "old", "2")
	l.writer("old", func(r *model.OpenRequest) { r.OrchestrationID = "another" }).log(loss, steps(0, 3, func(int) any { return 1.0 })...)
	broken("run_deleted", "old", "2") // a new run of the name is not the parent
	orphan := l.writer("orphan", func(r *model.OpenRequest) { r.ForkFromRun = "nobody" })
	orphan.log(loss, steps(0, 1, func(int) any { return 1.0 })...)
	if b, _ := lineage(orphan)["broken"].(map[string]any); b["code"] != "not_found" {
		t.Errorf("broken %v", b)
	}
}

// TestStepsOfEpisodesAreNotInherited: episodes are cut where training was at the
// step of the fork, steps within them stay with the parent.
func TestStepsOfEpisodesAreNotInherited(t *testing.T) {
	l := newLab(t, httpapi.Options{})
	env := map[string]string{model.LabelEnv: "a"}
	reward, inner := model.NewSeriesKey("reward", model.ScaleEpisode, env), model.NewSeriesKey("reward", model.ScaleEnvironment, env)
	parent := l.writer("parent", nil)
	for episode := range int64(6) {
		axes := map[model.Axis]int64{model.AxisStep: episode, model.AxisRLStep: episode / 2, model.AxisEpisode: episode}
		parent.log(reward, point{axes: axes, timeNs: episode, value: float64(episode)})
		parent.log(inner, point{axes: map[model.Axis]int64{model.AxisStep: 0, model.AxisRLStep: episode / 2, model.AxisEpisode: episode, model.AxisEnvStep: 0}, timeNs: episode, value: 1.0})
	}
	fork := l.writer("fork", func(r *model.OpenRequest) { r.ForkFromRun, r.ForkAtStep = "parent", number(1) })
	fork.log(model.NewSeriesKey("untimed", "", nil), point{timeNs: 3, value: 1.0})
	doc := l.get(fork.path("series"), values("include_inherited", "1"))
	got := map[string]string{}
	for _, s := range doc["series"].([]any) {
		s := s.(map[string]any)
		got[text(s["metric"])+" "+text(s["scale"])] = text(s["count"]) + " " + text(s["inherited"])
	}
	if diff := gocmp.Diff(map[string]string{"reward EPISODE": "4 4", "untimed ML_STEP": "1 0"}, got); diff != "" {
		t.Error(diff)
	}
	for _, axis := range []string{"step", "rl_step"} {
		doc := l.get(fork.path("buckets"), values("metric", "reward", "label.env_id", "a", "include_inherited", "1", "x", axis, "n", "1"))
		if n := doc["columns"].(map[string]any)["count"].([]any); text(n[0]) != "4" {
			t.Errorf("by %s: %v", axis, n)
		}
	}
}

// TestLiveTellsOfAncestors: a stream of a fork has its parent's news too, and those
// of a parent that comes later; one that cannot be read does not end it.
func TestLiveTellsOfAncestors(t *testing.T) {
	l := newLab(t, httpapi.Options{})
	loss := model.NewSeriesKey("loss", "", nil)
	one := func(int) any { return 1.0 }
	old := l.writer("old", nil)
	old.log(loss, steps(0, 2, one)...)
	forkOf := func(parent string) func(*model.OpenRequest) {
		return func(r *model.OpenRequest) { r.ForkFromRun, r.ForkAtStep = parent, number(4) }
	}
	young, orphan := l.writer("young", forkOf("old")), l.writer("orphan", forkOf("late"))
	of := func(w *writer) func(sse) bool {
		return func(e sse) bool { return strings.Contains(e.data, w.run.String()) }
	}
	alone := l.stream(values("run", young.run.String()), "")
	both := l.stream(values("run", young.run.String(), "include_inherited", "1"), "")
	old.log(loss, steps(2, 1, one)...)
	young.log(loss, steps(5, 1, one)...)
	alone.until(func(e sse) bool {
		if of(old)(e) {
			t.Errorf("told of the parent without being asked: %s", e.data)
		}
		return of(young)(e)
	})
	both.until(of(old))

	left := l.stream(values("run", orphan.run.String(), "include_inherited", "1"), "")
	late := l.writer("late", nil)
	orphan.log(loss, steps(5, 1, one)...)
	left.until(of(orphan))
	late.log(loss, steps(0, 1, one)...)
	left.until(of(late))

	if got := l.do("DELETE", "/api/v1/runs/"+old.run.String(), nil, "").status; got >= 300 {
		t.Fatal(got)
	}
	without := l.stream(values("run", young.run.String(), "include_inherited", "1"), "")
	young.log(loss, steps(6, 1, one)...)
	without.until(of(young))
}
