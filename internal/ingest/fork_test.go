package ingest_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kymogram/kymogram/internal/model"
)

// TestForkGoesOnFromItsParent: the next step of a fork is behind the parent's
// last, and never behind the step of the fork.
func TestForkGoesOnFromItsParent(t *testing.T) {
	n := start(t)
	parent := n.join(request(1))
	n.append(parent, points(1, 0, 1, 2, 3))
	starts := func(writer byte, name, from string, at *int64) []model.Start {
		t.Helper()
		r := request(writer)
		r.RunName, r.ForkFromRun, r.ForkAtStep, r.WithStarts = name, from, at, true
		result, err := n.Open(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		return result.Starts
	}
	next := func(step int64) []model.Start {
		return []model.Start{{Metric: "loss", Scale: model.ScaleStep, Labels: map[string]string{}, Next: step}}
	}
	one, nine := int64(1), int64(9)
	for _, c := range []struct {
		name, from string
		at         *int64
		want       []model.Start
	}{
		{"whole", "run", nil, next(4)},
		{"early", "run", &one, next(2)},
		{"late", "run", &nine, next(4)},
		{"unknown", "nobody", &one, nil},
	} {
		if diff := cmp.Diff(c.want, starts(2+byte(len(c.name)), c.name, c.from, c.at)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", c.name, diff)
		}
	}
	child := request(20)
	child.RunName, child.ForkFromRun, child.ForkAtStep = "early", "run", &one
	n.append(n.join(child), points(1, 2, 3, 4, 5))
	if diff := cmp.Diff(next(6), starts(21, "early", "run", &one)); diff != "" {
		t.Errorf("its own points count once it has some (-want +got)\n%s", diff)
	}
}
