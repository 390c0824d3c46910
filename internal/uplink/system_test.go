package uplink

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/collect"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/spool"
)

// A run that asks for it has the machine's metrics from an observer of its own,
// which ends with the run; the run's own points are as they were.
func TestSystemMetricsComeFromAnObserver(t *testing.T) {
	s := startServer(t)
	folder, err := spool.OpenFolder(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{T: t, folder: folder, want: map[cell]int{}, series: map[string]*spool.Series{}}
	open := model.OpenRequest{Writer: model.WriterID{9}, RunName: "run", Workspace: "w", Project: "p", OrchestrationID: "job", Host: "box", PID: int64(os.Getpid())}
	f.w, err = spool.Create(folder, s.addr, open, spool.WriterOptions{Cap: 1 << 30, System: &spool.System{IntervalMs: 100}})
	f.ok(err)
	f.point("loss", 1, 0.5)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	d := New(folder, Options{Kind: spool.KindAgent, Idle: time.Millisecond, Env: func(string) string { return "" }})
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	want := []string{collect.MemoryUsed, collect.CPUUtilization, collect.DiskFree, collect.ProcessRSS, collect.ProcessCPU}
	for !has(s.stored(), want) { // utilization needs two samples
		if !sleep(ctx, 20*time.Millisecond) {
			t.Fatalf("the server has %v", s.stored())
		}
	}
	f.close()
	if err := <-ended; err != nil || ctx.Err() != nil {
		t.Fatalf("the agent ended with %v, %v", err, ctx.Err())
	}
	f.checkEmpty()
	own, observed := s.stored(), 0
	for c := range own {
		if strings.HasPrefix(c.metric, "system/") {
			if c.step != -1 {
				t.Errorf("%+v has a step", c)
			}
			delete(own, c)
			observed++
		}
	}
	if len(own) != 1 || observed < 2*len(want)-2 {
		t.Errorf("stored %d own and %d observed points", len(own), observed)
	}
	s.checkObserver(open)
}

// A machine with cards says how many, and how many the run may use; the program
// stands in for nvidia-smi, whose answers are those of a machine with H200s.
func TestSystemAttributes(t *testing.T) {
	program := func(script string) string {
		path := filepath.Join(t.TempDir(), "nvidia-smi")
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	environment := func(devices ...string) []model.Update {
		out := []model.Update{{Op: model.OpSetAttribute, Path: "host/name", Value: model.StringValue("box")}}
		for _, d := range devices {
			out = append(out, model.Update{Op: model.OpSetAttribute, Path: "env/CUDA_VISIBLE_DEVICES", Value: model.StringValue(d)})
		}
		return out
	}
	const four = "case $1 in *mig.mode.current) printf 'Disabled\\nEnabled\\nEnabled\\nDisabled\\n';; *) exit 1;; esac"
	const old = "case $1 in --query-gpu=index) printf '0\\n1\\n';; *) echo 'Field \"mig.mode.current\" is not a valid field to query.'; exit 2;; esac"
	for name, c := range map[string]struct {
		smi     string
		initial []model.Update
		want    map[string]int64
	}{
		"all are visible":         {program(four), environment(), map[string]int64{"host_device_count": 4, "mig_partitioned_count": 2, "visible_count": 4}},
		"two of four":             {program(four), environment("2, GPU-5fd4"), map[string]int64{"host_device_count": 4, "mig_partitioned_count": 2, "visible_count": 2}},
		"none is visible":         {program(four), environment(""), map[string]int64{"host_device_count": 4, "mig_partitioned_count": 2, "visible_count": 0}},
		"those behind -1 are not": {program(four), environment("0,-1,1"), map[string]int64{"host_device_count": 4, "mig_partitioned_count": 2, "visible_count": 1}},
		"no environment":          {program(four), nil, map[string]int64{"host_device_count": 4, "mig_partitioned_count": 2}},
		"a driver without MIG":    {program(old), environment(), map[string]int64{"host_device_count": 2, "mig_partitioned_count": 0, "visible_count": 2}},
		"no cards":                {program("echo 'No devices were found'; exit 6"), environment("0"), nil},
		"no driver":               {filepath.Join(t.TempDir(), "nvidia-smi"), environment(), nil},
	} {
		s := &systemLog{
			d: &Deliverer{opts: Options{Log: slog.New(slog.DiscardHandler)}}, host: collect.New(collect.Options{NvidiaSMI: c.smi, GPUTimeout: time.Minute}),
			first: spool.Open{Open: model.OpenRequest{Initial: c.initial}},
		}
		got := map[string]int64{}
		for _, u := range s.describe() {
			if u.Path == "system/platform" && u.Value.Str == runtime.GOOS {
				continue
			}
			got[strings.TrimPrefix(u.Path, "system/gpu/")] = u.Value.Int
		}
		if !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func has(cells map[cell]int, metrics []string) bool {
	seen := map[string]bool{}
	for c := range cells {
		seen[c.metric] = true
	}
	for _, m := range metrics {
		if !seen[m] {
			return false
		}
	}
	return true
}

func (s *server) checkObserver(of model.OpenRequest) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	observers := 0
	for _, open := range s.opens {
		if !model.IsObserver(open.SDK) {
			continue
		}
		observers++
		if open.ParentAttempt == nil || *open.ParentAttempt != of.Writer || open.RunName != of.RunName || open.OrchestrationID != of.OrchestrationID {
			s.t.Errorf("the observer opened %+v", open)
		}
	}
	closes := 0
	for _, u := range s.updates {
		if u.Op == model.OpClose {
			closes++
		}
	}
	platform := slices.ContainsFunc(s.updates, func(u model.Update) bool { return u.Path == "system/platform" && u.Value.Str == runtime.GOOS })
	if !platform {
		s.t.Error("the server has no system/platform")
	}
	if observers != 1 || closes != 2 || s.gone != 0 {
		s.t.Errorf("%d observers, %d closes, %d gone", observers, closes, s.gone)
	}
}

// A sync and a run that does not ask have no observer.
func TestNoObserverWhereNobodyAsks(t *testing.T) {
	s := startServer(t)
	f := newFixture(t, s)
	f.point("loss", 1, 0.5)
	f.close()
	f.sync(Options{})
	f.check(s)
	if len(s.opens) != 1 {
		t.Errorf("%d opens", len(s.opens))
	}
}
