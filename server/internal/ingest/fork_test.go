package ingest_test

import (
	"fmt"
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
		if result.ParentMissing != (from == "nobody") {
			t.Errorf("%s: the parent %s is missing: %t", name, from, result.ParentMissing)
		}
		return result.Starts
	}
	next := func(step int64) []model.Start {
		return []model.Start{{Metric: "loss", Scale: model.ScaleStep, Labels: map[string]string{}, Next: step}}
	}
	one, nine := int64(1), int64(9)
	for i, c := range []struct {
		name, from string
		at         *int64
		want       []model.Start
	}{
		{"whole", "run", nil, next(4)},
		{"early", "run", &one, next(2)},
		{"late", "run", &nine, next(4)},
		{"unknown", "nobody", &one, nil},
	} {
		if diff := cmp.Diff(c.want, starts(2+byte(i), c.name, c.from, c.at)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", c.name, diff)
		}
	}
	child := request(20)
	child.RunName, child.ForkFromRun, child.ForkAtStep = "early", "run", &one
	n.append(n.join(child), points(1, 2, 3, 4, 5))
	if diff := cmp.Diff(next(6), starts(21, "early", "run", &one)); diff != "" {
		t.Errorf("its own points count once it has some (-want +got)\n%s", diff)
	}

	// The parent goes on: a fork that named no step was at 3 when it opened, and so
	// is what a fork of it inherits.
	n.append(parent, points(5, 4, 5))
	if diff := cmp.Diff(next(4), starts(30, "whole", "run", nil)); diff != "" {
		t.Errorf("a fork of the whole goes on with its parent (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(next(4), starts(31, "grandchild", "whole", &nine)); diff != "" {
		t.Errorf("a fork of a fork (-want +got)\n%s", diff)
	}
	whole, err := n.catalog.FindRun(t.Context(), "team", "project", "whole")
	if err != nil {
		t.Fatal(err)
	}
	if run, err := n.catalog.Lookup(t.Context(), whole); err != nil || run.ForkStep == nil || *run.ForkStep != 3 {
		t.Errorf("the step of the fork is not stored: %+v, %v", run, err)
	}
}

// TestForkOfARunWithEpisodes: the step of a fork is one of training. It goes on
// with the episode behind those that ended by then.
func TestForkOfARunWithEpisodes(t *testing.T) {
	n := start(t)
	parent := n.join(request(1))
	reward := model.NewSeriesKey("reward", model.ScaleEpisode, map[string]string{model.LabelEnv: "a"})
	b := &model.Batch{First: 1, Last: 1, Groups: []model.RowGroup{{
		TimeNs: []int64{1, 2, 3, 4, 5}, Seq: []uint64{1, 1, 1, 1, 1},
		Axes: []model.AxisColumn{
			{Axis: model.AxisStep, Values: []int64{70, 71, 72, 73, 74}},
			{Axis: model.AxisRLStep, Values: []int64{1, 1, 2, 2, 3}},
			{Axis: model.AxisEpisode, Values: []int64{70, 71, 72, 73, 74}},
		},
		Columns: []model.Column{{Series: reward, Kind: model.KindFloat, Floats: []float64{1, 2, 3, 4, 5}}},
	}}}
	n.append(parent, b)
	one := int64(1)
	for i, c := range []struct {
		at   *int64
		want int64
	}{{&one, 72}, {nil, 75}} {
		r := request(byte(2 + i))
		r.RunName, r.ForkFromRun, r.ForkAtStep, r.WithStarts = fmt.Sprint("fork", i), "run", c.at, true
		result, err := n.Open(t.Context(), r)
		if err != nil || len(result.Starts) != 1 || result.Starts[0].Next != c.want {
			t.Errorf("fork %d starts at %+v, %v, want %d", i, result.Starts, err, c.want)
		}
		run, err := n.catalog.Lookup(t.Context(), result.Run)
		if want := map[bool]int64{true: 3, false: 1}[c.at == nil]; err != nil || run.ForkStep == nil || *run.ForkStep != want {
			t.Errorf("fork %d is at %v, %v, want %d", i, run.ForkStep, err, want)
		}
	}
}
