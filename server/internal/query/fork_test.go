package query_test

import (
	"context"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/query"
	"github.com/kymogram/kymogram/server/internal/store"
)

// kin is a fake with several runs, of which one project may not be read.
type kin struct {
	*fake
	runs  map[model.RunID]catalog.Run
	reads atomic.Int32
}

func (k *kin) Lookup(_ context.Context, id model.RunID) (*catalog.Run, error) {
	k.reads.Add(1)
	run, ok := k.runs[id]
	if !ok {
		return nil, model.Errorf(model.CodeNotFound, "no run")
	}
	return &run, nil
}

func (k *kin) GetRun(_ context.Context, id model.RunID) (*catalog.Detail, error) {
	return &catalog.Detail{Run: k.runs[id]}, nil
}

func (k *kin) RunStats(context.Context, model.RunID) (store.RunStats, error) {
	return store.RunStats{}, nil
}

func (k *kin) Allow(_ context.Context, _ catalog.Scope, _, project string) error {
	if project == "secret" {
		return model.Errorf(model.CodePermission, "no")
	}
	return nil
}

func (k *kin) Reach(context.Context) (workspace, project string) { return "", "" }

func TestLineage(t *testing.T) {
	id := func(n byte) model.RunID { return model.RunID{n} }
	at := func(n int64) *int64 { return &n }
	run := func(n byte, parent byte, step *int64, project string) catalog.Run {
		r := catalog.Run{ID: id(n), Workspace: "w", Project: project, ForkStep: step}
		if parent > 0 {
			r.Parent, r.ParentRun = id(parent), string(rune('0'+parent))
		}
		return r
	}
	k := &kin{fake: newFake(), runs: map[model.RunID]catalog.Run{}}
	for _, r := range []catalog.Run{
		run(1, 0, nil, "p"), run(2, 1, at(9), "p"), run(3, 2, at(5), "p"), run(4, 3, at(7), "p"), // each step cuts all behind it
		run(5, 6, at(1), "p"), run(6, 5, at(1), "p"), // a circle, which no catalog makes
		run(7, 8, nil, "p"), run(8, 0, nil, "secret"),
		run(9, 1, nil, "p"),
	} {
		k.runs[r.ID] = r
	}
	s := query.New(k, k, k, k, query.Limits{Time: time.Hour, Parallel: 1})
	for _, c := range []struct {
		run    byte
		upTo   []int64
		broken model.Code
	}{
		{1, nil, ""},
		{4, []int64{7, 5, 5}, ""},
		{5, []int64{1}, ""},
		{7, nil, model.CodePermission},
		{9, []int64{math.MaxInt64}, ""},
	} {
		d, err := s.Run(t.Context(), id(c.run), nil)
		if err != nil {
			t.Fatal(err)
		}
		var got []int64
		for _, a := range d.Lineage.Ancestors {
			got = append(got, a.UpTo)
		}
		if len(got) != len(c.upTo) {
			t.Errorf("run %d has ancestors up to %v, want %v", c.run, got, c.upTo)
			continue
		}
		for i := range got {
			if got[i] != c.upTo[i] {
				t.Errorf("run %d has ancestors up to %v, want %v", c.run, got, c.upTo)
			}
		}
		if broken := d.Lineage.Broken; (broken == nil) != (c.broken == "") || broken != nil && broken.Code != c.broken {
			t.Errorf("run %d: the line breaks at %+v, want %s", c.run, broken, c.broken)
		}
	}
}

// Runs that have ancestors in common read each of them once, and no run inherits without end.
func TestAncestorsAreReadOnce(t *testing.T) {
	const chain, asked = 3_000, 100
	id := func(n int) model.RunID { return model.RunID{byte(n), byte(n >> 8), 1} }
	k := &kin{fake: newFake(), runs: map[model.RunID]catalog.Run{}}
	for n := range chain {
		r := catalog.Run{ID: id(n), Workspace: "w", Project: "p"}
		if n > 0 {
			r.Parent, r.ParentRun = id(n-1), "parent"
		}
		k.runs[r.ID] = r
	}
	s := query.New(k, k, k, k, query.Limits{})
	family, last := map[model.RunID]bool{}, []model.RunID{}
	for n := range asked {
		last = append(last, id(chain-1-n))
		family[id(chain-1-n)] = true
	}
	k.reads.Store(0)
	if ends := s.Ancestors(t.Context(), family, last); len(ends) > 0 || len(family) != asked+query.MaxAncestors {
		t.Errorf("%d ends, a family of %d", len(ends), len(family))
	}
	if reads := k.reads.Load(); reads > 2*asked+query.MaxAncestors {
		t.Errorf("%d reads", reads)
	}
	d, err := s.Run(t.Context(), id(chain-1), nil)
	if err != nil || len(d.Lineage.Ancestors) != query.MaxAncestors || d.Lineage.Broken == nil || d.Lineage.Broken.Code != model.CodeTooLarge {
		t.Errorf("%d ancestors, broken %+v, %v", len(d.Lineage.Ancestors), d.Lineage.Broken, err)
	}
}
