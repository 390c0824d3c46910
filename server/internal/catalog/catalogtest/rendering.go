package catalogtest

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
)

// testRenderings compares pages with a sorted slice.
func testRenderings(t *testing.T, open Opener) {
	dir := t.TempDir()
	h := &harness{t: t, c: open(t, dir)}
	run := h.must(request(1)).Run
	other := h.must(request(2, named("other"), job("other"))).Run
	var want []model.Rendering
	for i := range 25 {
		r := model.Rendering{
			ID: "w-" + strconv.Itoa(i), Env: "env" + strconv.Itoa(i%3), Episode: int64(25-i) / 2, SHA256: strings.Repeat("ab", 32),
			Frames: int64(i), FPS: 29.97, Width: 64, Height: 48, TimeNs: int64(100 - i), Complete: i%2 == 0,
		}
		if i%5 == 0 {
			r.Tags, r.Marks = []string{"crash", "x"}, []model.RenderingMark{{Name: "fell", FromFrame: 1, ToFrame: 2}}
		}
		h.apply(run, 1, model.Update{Op: model.OpRendering, Rendering: &r})
		want = append(want, r)
	}
	lost := want[3]
	lost.SHA256, lost.Frames = "", 0
	h.apply(run, 1, model.Update{Op: model.OpRendering, Rendering: &lost}) // the later record wins
	want[3] = lost
	h.apply(other, 2, model.Update{Op: model.OpRendering, Rendering: &model.Rendering{ID: "w-0", Env: "far"}})
	h.check("Close", h.c.Close())
	h.c = open(t, dir)
	defer func() { h.check("Close", h.c.Close()) }()
	slices.SortFunc(want, func(a, b model.Rendering) int {
		return cmp.Or(cmp.Compare(a.Env, b.Env), cmp.Compare(a.Episode, b.Episode), cmp.Compare(a.TimeNs, b.TimeNs))
	})
	episode := int64(7)
	for name, c := range map[string]struct {
		filter catalog.RenderingFilter
		keep   func(model.Rendering) bool
	}{
		"all":     {catalog.RenderingFilter{}, func(model.Rendering) bool { return true }},
		"paged":   {catalog.RenderingFilter{Limit: 4}, func(model.Rendering) bool { return true }},
		"env":     {catalog.RenderingFilter{Env: "env1", Limit: 2}, func(r model.Rendering) bool { return r.Env == "env1" }},
		"episode": {catalog.RenderingFilter{Episode: &episode}, func(r model.Rendering) bool { return r.Episode == 7 }},
		"tag":     {catalog.RenderingFilter{Tag: "crash", Limit: 3}, func(r model.Rendering) bool { return len(r.Tags) > 0 }},
	} {
		equal(t, name, slices.DeleteFunc(slices.Clone(want), func(r model.Rendering) bool { return !c.keep(r) }), h.renderings(run, c.filter))
	}
	one, err := h.c.Rendering(t.Context(), run, "w-3")
	h.check("Rendering", err)
	equal(t, "one", &lost, one)
	for _, id := range []string{"w-99", "", "w-0' OR 1=1"} {
		if _, err := h.c.Rendering(t.Context(), run, id); model.CodeOf(err) != model.CodeNotFound {
			t.Errorf("rendering %q: %v, want %s", id, err, model.CodeNotFound)
		}
	}
	if _, _, err := h.c.ListRenderings(t.Context(), run, catalog.RenderingFilter{Cursor: "?"}); model.CodeOf(err) != model.CodeInvalid {
		t.Errorf("a bad cursor: %v", err)
	}
	h.naming("named", want[0].SHA256, 1)
	h.naming("another blob", strings.Repeat("0", 64), 0)
	h.naming("no blob", "", 0)
	h.check("Trash", h.c.Trash(t.Context(), run, at(1)))
	h.naming("in the trash", want[0].SHA256, 0)
	h.check("Purge", h.c.Purge(t.Context(), run))
	if left := h.renderings(run, catalog.RenderingFilter{}); len(left) > 0 {
		t.Errorf("%d renderings outlive their run", len(left))
	}
}

// naming counts the projects that name a blob.
func (h *harness) naming(what, blob string, want int) {
	h.t.Helper()
	places, err := h.c.Naming(h.ctx(), blob)
	h.check("Naming", err)
	if len(places) != want {
		h.t.Errorf("%s: %v, want %d projects", what, places, want)
	}
	for _, p := range places {
		if p.Workspace == "" || p.Project == "" {
			h.t.Errorf("%s: %+v", what, p)
		}
	}
}

// renderings walks all pages of a filter.
func (h *harness) renderings(run model.RunID, f catalog.RenderingFilter) (out []model.Rendering) {
	h.t.Helper()
	for {
		page, next, err := h.c.ListRenderings(h.ctx(), run, f)
		h.check("ListRenderings", err)
		out = append(out, page...)
		if f.Cursor = next; next == "" {
			return out
		}
		if len(page) != f.Limit {
			h.t.Errorf("a page of %d has %d", f.Limit, len(page))
		}
	}
}
