package kymogram

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
)

// Of a run that nobody else can have, everything is known, with the server and without.
func TestLastStepOfANewJob(t *testing.T) {
	r := offline(t, Options{})
	must(t, r.Log("loss", 1), r.Log("loss", 1))
	for name, want := range map[string]int64{"loss": 1, "other": -1} {
		step, ok, err := r.FindLastStep(t.Context(), name)
		if known, has := r.LastStep(name); err != nil || ok != (want >= 0) || has != ok || (ok && (step != want || known != want)) {
			t.Errorf("%s: %d %v %v, want %d", name, step, ok, err, want)
		}
	}
}

// Nobody knows where a series of a resumed run stands without the server: there is no
// answer, and FindLastStep says why. A step that the program gave is known.
func TestLastStepIsNoGuess(t *testing.T) {
	r := offline(t, Options{ResumeStrategy: ResumeAllow})
	must(t, r.Log("loss", 1), r.Log("loss", 1))
	for _, name := range []string{"loss", "other"} {
		if step, ok := r.LastStep(name); ok {
			t.Errorf("%s: %d is a guess", name, step)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		if _, _, err := r.FindLastStep(ctx, name); err == nil || !strings.Contains(err.Error(), "not known") {
			t.Errorf("%s: %v", name, err)
		}
	}
	must(t, r.Log("loss", 1, Step(70)))
	if step, ok := r.LastStep("loss"); !ok || step != 70 {
		t.Errorf("the step that was given: %d %v", step, ok)
	}
}

// A run has more series than the open's answer lists: the one that is asked for is
// asked by name, and of an older server the error says so.
func TestFindLastStepAmongManySeries(t *testing.T) {
	f, old := startFake(t), false
	f.open = func(r model.OpenRequest) (model.OpenResult, *model.Error) {
		result := model.OpenResult{Run: model.RunID{1}, RunName: r.RunName, Starts: []model.Start{{Metric: "listed", Scale: ScaleStep, Next: 5}}}
		if len(r.StartsOf) > 0 && !old {
			result.StartsComplete, result.Starts = true, nil
			if r.StartsOf[0].Metric == "unlisted" {
				result.Starts = []model.Start{{Metric: "unlisted", Scale: ScaleStep, Next: 500}}
			}
		}
		return result, nil
	}
	r, err := f.init(t, Options{RunName: "name"})
	must(t, err)
	t.Cleanup(func() { _ = r.Close(context.Background()) })
	for name, want := range map[string]int64{"listed": 4, "unlisted": 499, "none": -1} {
		step, ok, err := r.FindLastStep(t.Context(), name)
		if err != nil || step != want || ok != (want >= 0) {
			t.Errorf("%s: %d %v %v, want %d", name, step, ok, err, want)
		}
	}
	if step, ok := r.LastStep("unlisted"); ok {
		t.Errorf("LastStep of a series that is not listed: %d", step)
	}
	old = true
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, _, err := r.FindLastStep(ctx, "unlisted"); err == nil || !strings.Contains(err.Error(), "older") {
		t.Errorf("an older server: %v", err)
	}
}
