package catalogtest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
)

// testViews makes random changes of views and compares with a map.
func testViews(t *testing.T, open Opener) {
	dir := t.TempDir()
	h := &harness{t: t, c: open(t, dir)}
	random := rand.New(rand.NewPCG(1, 2))
	naive := map[string]map[string]catalog.View{"a": {}, "b": {}}
	for i := range 300 {
		project, name := []string{"a", "b"}[random.IntN(2)], fmt.Sprintf("v%d", random.IntN(5))
		old, there := naive[project][name]
		condition := []catalog.Condition{{}, {Absent: true}, {Tag: old.Tag}, {Tag: "other"}}[random.IntN(4)]
		conflict := condition.Absent && there || condition.Tag == "other"
		if random.IntN(3) == 0 {
			err := h.c.DeleteView(t.Context(), "team", project, name, condition)
			want := map[bool]model.Code{true: "", false: model.CodeNotFound}[there]
			if there && conflict {
				want = model.CodeConflict
			}
			equal(t, "DeleteView", want, model.CodeOf(err))
			if err == nil {
				delete(naive[project], name)
			}
		} else {
			v := catalog.View{Name: name, Title: fmt.Sprintf("title %d", i), Panels: i, Tag: fmt.Sprintf("tag %d", i), ChangedNs: int64(i), Document: fmt.Sprintf(`{"i":%d}`, i)}
			err := h.c.PutView(t.Context(), "team", project, v, condition)
			equal(t, "PutView", map[bool]model.Code{true: model.CodeConflict}[conflict], model.CodeOf(err))
			if err == nil {
				naive[project][name] = v
			}
		}
		if i%100 == 99 {
			h.check("Close", h.c.Close())
			h.c = open(t, dir)
		}
		h.sameViews(naive)
	}
	for _, lost := range [][2]string{{"a", "v9"}, {"c", "v0"}, {"a", ""}, {"a", "v0' OR 1=1"}} {
		if _, err := h.c.View(t.Context(), "team", lost[0], lost[1]); model.CodeOf(err) != model.CodeNotFound {
			t.Errorf("View %q: %v", lost, err)
		}
	}
	h.tooManyViews()
	h.check("Close", h.c.Close())
}

func (h *harness) sameViews(naive map[string]map[string]catalog.View) {
	h.t.Helper()
	for project, views := range naive {
		var want []catalog.View
		for _, name := range slices.Sorted(maps.Keys(views)) {
			v := views[name]
			got, err := h.c.View(h.ctx(), "team", project, name)
			h.check("View", err)
			equal(h.t, "View", &v, got)
			v.Document = ""
			want = append(want, v)
		}
		got, err := h.c.ListViews(h.ctx(), "team", project)
		h.check("ListViews", err)
		equal(h.t, "ListViews", want, got)
	}
}

// tooManyViews fills a project. One that is there can still be changed.
func (h *harness) tooManyViews() {
	put := func(i int) error {
		return h.c.PutView(h.ctx(), "team", "full", catalog.View{Name: fmt.Sprintf("v%d", i), Tag: "t"}, catalog.Condition{})
	}
	for i := range catalog.MaxViews {
		h.check("PutView", put(i))
	}
	if err := put(catalog.MaxViews); model.CodeOf(err) != model.CodeLimit {
		h.t.Errorf("one view too many: %v", err)
	}
	h.check("PutView", put(0))
}
