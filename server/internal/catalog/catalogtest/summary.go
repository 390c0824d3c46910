package catalogtest

import (
	"math"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/catalog/filter"
)

// aggregate says naively what min(loss) and the like are of a run; nil without a value.
func (l *listed) aggregate(key string) *model.Value {
	points := l.metrics["loss"]
	of, _, called := strings.Cut(key, "(")
	if !strings.Contains(key, "loss") || len(points) == 0 {
		return nil
	}
	if !called || of == "last" {
		return model.FloatValue(points[len(points)-1])
	}
	if of == "at" { // the points are at the steps 0, 1, …
		if len(points) < 2 || math.IsInf(points[1], 0) {
			return nil
		}
		return model.FloatValue(points[1])
	}
	var found *model.Value
	for _, v := range points {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			continue
		}
		if found == nil || (of == "max" && v > found.Float) || (of != "max" && v < found.Float) {
			found = model.FloatValue(v)
		}
	}
	return found
}

// summaryOf reduces points as the store's buckets do.
func summaryOf(metric string, points []float64) catalog.Summary {
	l := listed{metrics: map[string][]float64{"loss": points}}
	s := catalog.Summary{Metric: metric, Points: uint64(len(points)), Last: *l.aggregate("loss")}
	if least := l.aggregate("min(loss)"); least != nil {
		s.Min, s.Max = *least, *l.aggregate("max(loss)")
	}
	return s
}

func stepsOf(runs []*listed) catalog.Steps {
	values := map[model.RunID]float64{}
	for _, l := range runs {
		if v := l.aggregate("at(loss,1)"); v != nil {
			values[l.id] = v.Float
		}
	}
	return catalog.Steps{filter.Metric{Name: "loss", Of: filter.AtStep, Step: 1}: values}
}

// testSummaries replaces summaries, filters by odd names and finds what is to be read anew.
func testSummaries(t *testing.T, open Opener) {
	dir := t.TempDir()
	c := open(t, dir)
	h := &harness{t: t, c: c, project: "project"}
	run := h.must(request(1, named("run"))).Run
	missing := func(when string, want ...model.RunID) {
		t.Helper()
		got, err := h.c.Unsummarised(h.ctx(), 10)
		h.check("Unsummarised", err)
		equal(t, "unsummarised "+when, want, got)
	}
	missing("before", run)
	odd := []string{"__proto__", "eval/my loss", "min(x)", "zero\u200bwidth", `q"uote`}
	var all []catalog.Summary
	for _, name := range odd {
		all = append(all, summaryOf(name, []float64{3, 1, 2}))
	}
	all = append(all, catalog.Summary{Metric: "big", Points: 1, Last: *model.IntValue(1<<53 + 1)}, summaryOf("bad", []float64{math.NaN()}))
	h.check("PutSummaries", h.c.PutSummaries(h.ctx(), run, all, at(2000)))
	missing("after")
	for query, want := range map[string]int{
		"__proto__<3": 1, "min(__proto__)<=1": 1, "max(__proto__)>3": 0, `min("eval/my loss")=1`: 1, `"eval/my loss"=2`: 1, "zero\u200bwidth=2": 1, `"min(x)"=2`: 1,
		"min(x)=2": 1, "min(min(x))=1": 1, `"q\"uote"=2`: 1, `max("q\"uote")=3`: 1, "big=9007199254740993": 1, "big=9007199254740992": 0, "bad=nan": 1, "bad!=nan": 0,
		"bad<1": 0, "not bad<1": 1, `bad="nan"`: 0, "best(eval_acc)>1": 0, "at(big,1)>0": 0,
	} {
		page, _, err := h.c.ListRuns(h.ctx(), catalog.RunFilter{Workspace: "team", Project: "project", Query: query, Limit: 10})
		if err != nil || len(page) != want {
			t.Errorf("%s: %d runs, %v, want %d", query, len(page), err, want)
		}
	}
	for _, wrong := range []catalog.RunFilter{{Query: "best(x)>1"}, {Sort: "best(x)"}, {Query: `min("x)>1`}} {
		wrong.Workspace, wrong.Project, wrong.Limit = "team", "project", 10
		_, _, err := h.c.ListRuns(h.ctx(), wrong)
		h.wantCode("a list by "+wrong.Query+wrong.Sort, err, model.CodeInvalid)
	}
	h.check("PutSummaries", h.c.PutSummaries(h.ctx(), run, all[:1], at(2000)))
	h.check("Close", c.Close())
	h.c = open(t, dir)
	defer h.c.Close()
	got, err := h.c.Summaries(h.ctx(), run)
	h.check("Summaries", err)
	equal(t, "replaced", all[:1], got)
	h.check("PutSummaries", h.c.PutSummaries(h.ctx(), local(99), all, at(2000)))
	h.check("Apply", h.c.Apply(h.ctx(), run, writer(1), 1, []model.Update{closeWith(model.StatusFinished)}, at(3000)))
	missing("since its last activity", run)
	with, err := h.c.RunsWith(h.ctx(), "team", "project", "__proto__")
	h.check("RunsWith", err)
	equal(t, "runs with the metric", []model.RunID{run}, with)
	h.check("Purge", h.c.Purge(h.ctx(), run))
	missing("when it is purged")
}
