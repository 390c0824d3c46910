package catalogtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
)

// namedRun is a run of the naive model of names.
type namedRun struct {
	place   catalog.Place
	name    string
	shown   string
	opened  int
	deleted bool
}

func (r namedRun) String() string {
	return strings.Join([]string{r.place.Workspace, r.place.Project, r.name}, "/")
}

// meant are the runs that a filter selects, in no order.
func meant(all []namedRun, f catalog.NameFilter) (out []string) {
	for _, r := range all {
		if (f.Workspace == "" || f.Workspace == r.place.Workspace) && (f.Project == "" || f.Project == r.place.Project) &&
			(r.name == f.Name || r.shown == f.Name) && r.deleted == f.Deleted {
			out = append(out, r.String())
		}
	}
	slices.Sort(out)
	return out
}

func sortedPaths(runs []catalog.Named) (out []string) {
	for _, r := range runs {
		out = append(out, strings.Join([]string{r.Workspace, r.Project, r.Name}, "/"))
	}
	slices.Sort(out)
	return out
}

// makeNamed makes runs of few names in few projects, some of them shown by another name, some
// deleted.
func makeNamed(h *harness) (all []namedRun) {
	names := []string{"hello", "Hello", "größe", "a/b", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "z"}
	n := 0
	for _, workspace := range []string{"w", "v"} {
		for _, project := range []string{"first", "second"} {
			for i, name := range names {
				n++
				r := namedRun{catalog.Place{Workspace: workspace, Project: project}, name, "", n, n%5 == 0}
				if n%3 > 0 {
					r.shown = names[(i+n)%len(names)]
				}
				o := h.must(request(n, named(r.name), job(fmt.Sprint(n)), opened(n), func(o *model.OpenRequest) {
					o.Workspace, o.Project, o.DisplayName = workspace, project, r.shown
				}))
				if r.deleted {
					h.check("Trash", h.c.Trash(h.ctx(), o.Run, at(2000)))
				}
				all = append(all, r)
			}
		}
	}
	return all
}

func testNames(t *testing.T, open Opener) {
	h := newHarness(t, open)
	all := makeNamed(h)
	for _, place := range []catalog.Place{{}, {Workspace: "w"}, {Project: "first"}, {Workspace: "v", Project: "second"}, {Workspace: "none"}, {Project: "none"}} {
		for _, name := range []string{"hello", "Hello", "größe", "a/b", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "z", "", "nobody"} {
			for _, deleted := range []bool{false, true} {
				f := catalog.NameFilter{Workspace: place.Workspace, Project: place.Project, Name: name, Deleted: deleted, Limit: 100}
				found, err := h.c.NamedRuns(h.ctx(), f)
				h.check("NamedRuns", err)
				want := meant(all, f)
				if name == "" {
					want = nil // it is nobody's name
				}
				equal(t, fmt.Sprintf("%+v", f), want, sortedPaths(found))
				f.Limit = 1
				one, err := h.c.NamedRuns(h.ctx(), f)
				h.check("NamedRuns", err)
				if len(one) > 2 || len(want) > 0 && len(one) == 0 {
					t.Errorf("%+v: %d runs", f, len(one))
				}
			}
		}
	}
	found, err := h.c.NamedRuns(h.ctx(), catalog.NameFilter{Workspace: "w", Project: "first", Name: "hello", Limit: 1})
	h.check("NamedRuns", err)
	if len(found) == 0 || found[0].CreatedNs != atNs(1) || found[0].ID != local(1) || found[0].DisplayName != all[0].shown {
		t.Errorf("the run of w/first/hello: %+v", found)
	}
	testNear(t, h, all)
}

func testNear(t *testing.T, h *harness, all []namedRun) {
	t.Helper()
	for _, place := range []catalog.Place{{}, {Workspace: "w", Project: "first"}} {
		near, err := h.c.RunsNear(h.ctx(), catalog.NameFilter{Workspace: place.Workspace, Project: place.Project, Name: "helo", Limit: 100})
		h.check("RunsNear", err)
		var want []string
		for _, r := range all {
			if !r.deleted && (place.Workspace == "" || r.place == place) {
				want = append(want, r.String())
			}
		}
		slices.Sort(want)
		equal(t, "all of few are near", want, sortedPaths(near))
	}
	near, err := h.c.RunsNear(h.ctx(), catalog.NameFilter{Name: "helo", Limit: 2})
	h.check("RunsNear", err)
	if len(near) == 0 || len(near) > 10 {
		t.Errorf("%d runs are near, for a limit of 2", len(near))
	}
	for name, want := range map[string][]catalog.Place{
		"first": {{Workspace: "v", Project: "first"}, {Workspace: "w", Project: "first"}}, "w": nil, "": nil,
	} {
		found, err := h.c.NamedProjects(h.ctx(), name, 10)
		h.check("NamedProjects", err)
		equal(t, "projects named "+name, want, found)
	}
	places, err := h.c.ProjectsNear(h.ctx(), "frist", 10)
	h.check("ProjectsNear", err)
	if len(places) != 4 {
		t.Errorf("%v are near, want all 4", places)
	}
}

// testShownNewest: of the many runs that are shown by one name, the newest of a project are found.
func testShownNewest(t *testing.T, open Opener) {
	h := newHarness(t, open)
	for n := 1; n <= 50; n++ {
		h.must(request(n, named(fmt.Sprint("r", n)), job(fmt.Sprint(n)), opened(n), func(o *model.OpenRequest) { o.DisplayName = "x" }))
	}
	for _, f := range []catalog.NameFilter{{}, {Project: "project"}, {Workspace: "team"}, {Workspace: "team", Project: "project"}} {
		f.Name, f.Limit = "x", 3
		found, err := h.c.NamedRuns(h.ctx(), f)
		h.check("NamedRuns", err)
		var names []string
		for _, r := range found {
			names = append(names, r.Name)
		}
		equal(t, fmt.Sprintf("the newest of %+v", f), []string{"r50", "r49", "r48"}, names)
	}
}
