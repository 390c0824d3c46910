package main

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/kymogram/kymogram"
)

// TestSharedEnvironmentsInGo: two programs in Go with a spool each log one
// environment at the same time; both are told by their error strategies, once.
func TestSharedEnvironmentsInGo(t *testing.T) {
	k := serveKitchen(t)
	for _, v := range []string{"KYMOGRAM_ORCHESTRATION_ID", "KYMOGRAM_ATTEMPT", "KYMOGRAM_ATTEMPT_PID"} {
		t.Setenv(v, "")
	}
	ctx := context.Background()
	start := func(strategy kymogram.ErrorStrategy) *kymogram.Run {
		r, err := kymogram.Init(ctx, kymogram.Options{
			Server: "http://" + k.address, APIKey: k.key(), RunName: "rl", OrchestrationID: "job", ErrorStrategy: strategy,
			SpoolDir: t.TempDir(), NoEnvironment: true, NoSystemMetrics: true, Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	a, b := start(kymogram.ErrorsWarn), start(kymogram.ErrorsRaiseOnLog)
	raised := 0
	k.until("both are told", func() bool {
		for _, r := range []*kymogram.Run{a, b} {
			for _, env := range []string{"one", "two"} {
				if err := r.LogRLEnvironmentStep("reward", 0, 1, kymogram.EnvID(env)); err != nil {
					if !strings.Contains(err.Error(), "also logged by process") {
						t.Fatal(err)
					}
					raised++
				}
			}
		}
		time.Sleep(20 * time.Millisecond)
		return a.Metrics().SharedEnvironments == 2 && b.Metrics().SharedEnvironments == 2 && raised > 0
	})
	if raised != 1 {
		t.Errorf("raised %d times", raised)
	}
	for _, r := range []*kymogram.Run{a, b} {
		if errs := r.SenderErrors(); len(errs) != 1 || !strings.Contains(errs[0].Error(), `the environment "one"`) {
			t.Errorf("told %v", errs)
		}
		if err := r.Close(ctx); err != nil {
			t.Error(err)
		}
	}
	if out := k.ok("runs", "show", "default/default/rl"); strings.Count(out, "is logged by") != 2 {
		t.Error(out)
	}
}
