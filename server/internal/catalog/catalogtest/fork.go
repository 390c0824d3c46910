package catalogtest

import (
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
)

// testForks: a fork names its parent by id, whichever of the two comes first, and
// keeps to it when the name comes to mean another run.
func testForks(t *testing.T, open Opener) {
	h := newHarness(t, open)
	fork := func(i int, name, from string, step *int64) model.RunID {
		return h.must(request(i, named(name), func(r *model.OpenRequest) { r.ForkFromRun, r.ForkAtStep = from, step })).Run
	}
	five := int64(5)
	parent := fork(1, "parent", "", nil)
	child := fork(2, "child", "parent", &five)
	early := fork(3, "early", "late", nil)
	if d := h.detail(early); !d.Parent.IsZero() || d.ParentRun != "late" || d.ForkStep != nil {
		t.Errorf("a fork without its parent: %+v", d.Run)
	}
	late := fork(4, "late", "child", &five)
	for _, c := range []struct{ run, parent model.RunID }{{parent, model.RunID{}}, {child, parent}, {late, child}, {early, late}} {
		if d := h.detail(c.run); d.Parent != c.parent {
			t.Errorf("%s has the parent %s, want %s", d.Name, d.Parent, c.parent)
		}
	}
	equal(t, "the forks of the parent", []catalog.Fork{{ID: child, Name: "child", ForkStep: &five}}, h.detail(parent).Forks)

	// The step is decided by the first open that knows it, and stays.
	nine := int64(9)
	for i, step := range []*int64{nil, &five, &nine} {
		h.must(request(10+i, named("early"), func(r *model.OpenRequest) {
			r.ForkFromRun, r.ForkAtStep, r.ResumeStrategy = "late", step, model.ResumeAllow
		}))
	}
	if d := h.detail(early); d.ForkStep == nil || *d.ForkStep != 5 {
		t.Errorf("the fork step is %v, want 5", d.ForkStep)
	}

	// Two that name each other do not become one another's ancestor.
	one := fork(20, "one", "two", nil)
	two := fork(21, "two", "one", nil)
	if a, b := h.detail(one), h.detail(two); !a.Parent.IsZero() || b.Parent != one {
		t.Errorf("a circle: %s and %s", a.Parent, b.Parent)
	}

	h.check("Trash", h.c.Trash(h.ctx(), child, at(500)))
	if forks := h.detail(parent).Forks; len(forks) != 0 || h.detail(late).Parent != child {
		t.Errorf("a trashed fork is listed, or not a parent any more: %+v", forks)
	}
	h.check("Purge", h.c.Purge(h.ctx(), child))
	again := fork(600, "child", "", nil)
	if d := h.detail(late); d.Parent != child || len(h.detail(again).Forks) != 0 {
		t.Errorf("the parent became %s, the new run of the name is %s", d.Parent, again)
	}
}
