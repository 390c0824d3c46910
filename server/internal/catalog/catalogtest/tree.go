package catalogtest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
)

// treeRun is a run of the naive model of trees.
type treeRun struct {
	id      model.RunID
	project string
	created int64
	trees   map[string]string
	trashed bool
}

// treeModel is what there should be, in the order of the opens.
type treeModel struct {
	*harness
	random *rand.Rand
	runs   []*treeRun
}

var treeNames = []string{"wandb/config", "wandb/summary", "x", "X"}

// testTrees makes random changes of trees and of their runs, and compares with a list of maps.
func testTrees(t *testing.T, open Opener) {
	dir := t.TempDir()
	m := &treeModel{harness: &harness{t: t, c: open(t, dir)}, random: rand.New(rand.NewPCG(3, 4))}
	for i := range 12 {
		name := fmt.Sprint("run-", i)
		r := request(i+1, named(name), job(name), opened(500-i/3)) // the ages of three are equal
		r.Project = []string{"a", "b"}[i%2]
		id := m.must(r).Run
		m.runs = append(m.runs, &treeRun{id: id, project: r.Project, created: m.detail(id).CreatedNs, trees: map[string]string{}})
	}
	for i := range 400 {
		m.changeTree()
		if i%80 == 79 {
			m.check("Close", m.c.Close())
			m.c = open(t, dir)
		}
		if i%10 == 9 {
			m.compare()
		}
	}
	m.refusals()
	purged := m.runs[0]
	m.check("Purge", m.c.Purge(m.ctx(), purged.id))
	_, err := m.c.Trees(m.ctx(), purged.id, treeNames...)
	m.wantCode("trees of a purged run", err, model.CodeRunDeleted)
	m.runs = m.runs[1:]
	m.compare()
	m.check("Close", m.c.Close())
}

// changeTree makes one change; now and then the log says it twice, or an old one again.
func (m *treeModel) changeTree() {
	i := m.random.IntN(len(m.runs))
	run, name := m.runs[i], treeNames[m.random.IntN(len(treeNames))]
	switch m.random.IntN(12) {
	case 0:
		m.check("Trash", m.c.Trash(m.ctx(), run.id, at(9000)))
		run.trashed = true
		return
	case 1, 2:
		m.check("Restore", m.c.Restore(m.ctx(), run.id))
		run.trashed = false
		return
	case 3:
		m.apply(run.id, i+1, model.Update{Op: model.OpSetTree, Path: name})
		delete(run.trees, name)
		return
	}
	text := fmt.Sprintf(`{"n":%d,"nan":NaN,"é":"\u0000%s"}`, m.random.IntN(1000), strings.Repeat("x", m.random.IntN(3)*m.random.IntN(6000)))
	m.apply(run.id, i+1, model.Update{Op: model.OpSetTree, Path: name, Text: "was"}, model.Update{Op: model.OpSetTree, Path: name, Text: text})
	m.check("Apply", m.c.Apply(m.ctx(), run.id, writer(i+1), m.lsn, []model.Update{{Op: model.OpSetTree, Path: name, Text: "twice"}}, at(1000)))
	run.trees[name] = text
}

func (m *treeModel) compare() {
	m.t.Helper()
	for _, run := range m.runs {
		got, err := m.c.Trees(m.ctx(), run.id, append([]string{"none", "x' OR 1=1"}, treeNames...)...)
		m.check("Trees", err)
		equal(m.t, "trees", run.trees, got)
	}
	names := slices.Clone(treeNames)
	m.random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	names = append(names[:m.random.IntN(4)], "none")
	for _, project := range []string{"a", "b", "c"} {
		newest := m.random.IntN(2) == 0
		want := m.listed(project, newest)
		got := m.stream(catalog.TreeQuery{Workspace: "team", Project: project, Newest: newest, Names: names})
		n, err := m.c.CountRuns(m.ctx(), "team", project)
		m.check("CountRuns", err)
		if len(got) != len(want) || n != len(want) {
			m.t.Fatalf("%d runs are listed and %d counted, want %d", len(got), n, len(want))
		}
		for i := range got {
			m.same(want[i], &got[i], names)
		}
		if len(got) > 0 {
			at := m.random.IntN(len(got))
			rest := m.stream(catalog.TreeQuery{Workspace: "team", Project: project, Newest: newest, Names: names, After: got[at].Place})
			equal(m.t, "the rest", got[at+1:], rest)
		}
		for i, brief := range m.stream(catalog.TreeQuery{Workspace: "team", Project: project, Newest: newest, Names: names, Brief: true}) {
			whole := got[i]
			whole.Run = catalog.Run{
				ID: whole.ID, Workspace: whole.Workspace, Project: whole.Project, Name: whole.Name, DisplayName: whole.DisplayName,
				Status: whole.Status, CreatedNs: whole.CreatedNs, LastNs: whole.LastNs,
			}
			equal(m.t, "a brief run", whole, brief)
		}
		m.named(project, want, names)
	}
}

// named reads runs by their ids, of which some are of other projects, trashed, or none.
func (m *treeModel) named(project string, want []*treeRun, names []string) {
	m.t.Helper()
	ids := []model.RunID{local(99_999)}
	for _, run := range m.runs {
		if m.random.IntN(3) > 0 {
			ids = append(ids, run.id)
		}
	}
	m.random.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	got := m.stream(catalog.TreeQuery{Workspace: "team", Project: project, Names: names, IDs: ids})
	for _, id := range ids {
		i := slices.IndexFunc(want, func(run *treeRun) bool { return run.id == id })
		if i < 0 {
			continue
		}
		if len(got) == 0 {
			m.t.Fatalf("run %s is not read by its id", id)
		}
		m.same(want[i], &got[0], names)
		got = got[1:]
	}
	if none := m.stream(catalog.TreeQuery{Workspace: "team", Project: project, IDs: []model.RunID{}}); len(got)+len(none) > 0 {
		m.t.Fatalf("%d runs too many, %d of none", len(got), len(none))
	}
}

// listed are the runs of a project by age, those of one age in the order of their opens.
func (m *treeModel) listed(project string, newest bool) (want []*treeRun) {
	for _, run := range m.runs {
		if run.project == project && !run.trashed {
			want = append(want, run)
		}
	}
	slices.SortStableFunc(want, func(a, b *treeRun) int { return cmp.Compare(a.created, b.created) })
	if newest {
		slices.Reverse(want)
	}
	return want
}

func (m *treeModel) same(want *treeRun, got *catalog.RunTrees, names []string) {
	m.t.Helper()
	texts := make([]string, len(names))
	for i, name := range names {
		texts[i] = want.trees[name]
	}
	equal(m.t, "texts", texts, got.Texts)
	equal(m.t, "the run", m.detail(want.id).Run, got.Run)
}

func (m *treeModel) stream(q catalog.TreeQuery) (out []catalog.RunTrees) {
	m.t.Helper()
	for run, err := range m.c.RunsWithTrees(m.ctx(), q) {
		m.check("RunsWithTrees", err)
		run.Notes = nil // which texts are kept is not what it says of a run
		out = append(out, run)
	}
	return out
}

func (m *treeModel) refusals() {
	many := slices.Repeat([]string{"x"}, catalog.MaxTreeNames+1)
	_, err := m.c.Trees(m.ctx(), m.runs[0].id, many...)
	m.wantCode("many trees", err, model.CodeInvalid)
	_, err = m.c.Trees(m.ctx(), local(99_999), "x")
	m.wantCode("trees of nothing", err, model.CodeNotFound)
	for _, err := range m.c.RunsWithTrees(m.ctx(), catalog.TreeQuery{Workspace: "team", Project: "a", Names: many}) {
		m.wantCode("many trees", err, model.CodeInvalid)
	}
}
