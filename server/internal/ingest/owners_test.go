package ingest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/ingest"
)

const second = int64(1e9)

// env is a batch of two rows of an RL series, at two times in seconds.
func env(seq uint64, name string, from, to int64) *model.Batch {
	return &model.Batch{First: seq, Last: seq, Groups: []model.RowGroup{{
		TimeNs: []int64{from * second, to * second}, Seq: []uint64{seq, seq},
		Axes:    []model.AxisColumn{{Axis: model.AxisStep, Values: []int64{from, to}}},
		Columns: []model.Column{{Series: model.NewSeriesKey("reward", model.ScaleEnvironment, map[string]string{model.LabelEnv: name}), Kind: model.KindFloat, Floats: []float64{1, 2}}},
	}}}
}

// crew opens writers of one job: 1, 2, … on host h unless changed.
func (n *node) crew(writer byte, change func(*model.OpenRequest)) model.OpenRequest {
	r := request(writer)
	rank := int64(writer)
	r.PID, r.Rank = 100*int64(writer), &rank
	if change != nil {
		change(&r)
	}
	return r
}

// Two processes that log one environment at the same time are named, both to
// both and in the run's record, once.
func TestAnEnvironmentOfTwoProcesses(t *testing.T) {
	n := start(t)
	a, b, c := n.join(n.crew(1, nil)), n.join(n.crew(2, nil)), n.join(n.crew(3, nil))
	if ack := n.append(a, env(1, "e", 10, 20)); ack.Shared != nil {
		t.Fatalf("alone: %+v", ack.Shared)
	}
	rank := func(n int64) *int64 { return &n }
	equal(t, "told at once", []model.SharedWith{{Env: "e", Writer: model.WriterID{1}, Host: "h", PID: 100, Rank: rank(1)}}, n.append(b, env(1, "e", 15, 30)).Shared)
	equal(t, "the other, at its next batch", []model.SharedWith{{Env: "e", Writer: model.WriterID{2}, Host: "h", PID: 200, Rank: rank(2)}}, n.append(a, env(2, "e", 40, 50)).Shared)
	n.append(c, env(1, "other", 0, 100))
	for seq := uint64(3); seq < 6; seq++ {
		if ack := n.append(a, env(seq, "e", 50, 60)); ack.Shared != nil {
			t.Errorf("told again: %+v", ack.Shared)
		}
	}
	want := []model.SharedEnvironment{{Env: "e", TimeNs: 15 * second, Writers: [2]model.WriterID{{1}, {2}}}}
	run := a.Opened.Run
	equal(t, "the record", want, n.detail(run).Shared)
	if got := n.Stats().Shared; got != 1 {
		t.Errorf("counted %d", got)
	}
	// A restart of the server forgets who logs what, and finds it again without
	// another line in the record.
	a.Close()
	b.Close()
	c.Close()
	n.restart()
	b, a = n.join(n.crew(2, nil)), n.join(n.crew(1, nil))
	n.append(b, env(2, "e", 60, 70))
	if ack := n.append(a, env(6, "e", 60, 70)); len(ack.Shared) != 1 {
		t.Errorf("after a restart: %+v", ack.Shared)
	}
	equal(t, "the record after a restart", want, n.detail(run).Shared)
}

// What is no sharing: one after the other, in whatever order it arrives.
func TestEnvironmentsThatAreHandedOn(t *testing.T) {
	other := func(r *model.OpenRequest) { r.Host = "elsewhere" }
	restart := func(r *model.OpenRequest) {
		count := int64(1)
		r.RestartCount = &count
	}
	first := func(r *model.OpenRequest) {
		count := int64(0)
		r.RestartCount = &count
	}
	for name, c := range map[string]struct {
		a, b   func(*model.OpenRequest)
		aa, bb [2]int64
		shared bool
	}{
		"a worker that was started again":   {nil, nil, [2]int64{10, 20}, [2]int64{21, 30}, false},
		"its points come late":              {nil, nil, [2]int64{21, 30}, [2]int64{10, 20}, false},
		"another attempt":                   {first, restart, [2]int64{10, 20}, [2]int64{10, 20}, false},
		"clocks that differ by a second":    {nil, other, [2]int64{10, 20}, [2]int64{20, 30}, false},
		"two hosts at once":                 {nil, other, [2]int64{10, 20}, [2]int64{18, 30}, true},
		"one host, a moment":                {nil, nil, [2]int64{10, 20}, [2]int64{20, 30}, true},
		"rows that do not rise in time":     {nil, nil, [2]int64{20, 10}, [2]int64{30, 15}, true},
		"one inside the other's long pause": {nil, nil, [2]int64{10, 90}, [2]int64{40, 50}, true},
	} {
		n := start(t)
		a, b := n.join(n.crew(1, c.a)), n.join(n.crew(2, c.b))
		n.append(a, env(1, "e", c.aa[0], c.aa[1]))
		n.append(b, env(1, "e", c.bb[0], c.bb[1]))
		if got := len(n.detail(a.Opened.Run).Shared) > 0; got != c.shared {
			t.Errorf("%s: shared %v, want %v", name, got, c.shared)
		}
		if plain := n.append(a, points(2, 1, 2, 3)); (len(plain.Shared) > 0) != c.shared {
			t.Errorf("%s: told %v", name, plain.Shared)
		}
	}
}

// Many workers that replace one another are forgotten one by one, and the record
// of a crowd is bounded.
func TestManyOwners(t *testing.T) {
	n := start(t)
	var run model.RunID
	for w := range byte(30) {
		s := n.join(n.crew(w+1, nil))
		run = s.Opened.Run
		n.append(s, env(1, "in turn", 10*int64(w), 10*int64(w)+9))
		n.append(s, env(2, "at once", 0, 9))
	}
	for _, s := range n.detail(run).Shared {
		if s.Env != "at once" {
			t.Errorf("%+v", s)
		}
	}
	crowd := env(1, "0", 0, 9)
	for i := range 2_000 {
		column := crowd.Groups[0].Columns[0]
		column.Series = model.NewSeriesKey("reward", model.ScaleEnvironment, map[string]string{model.LabelEnv: fmt.Sprint(i)})
		crowd.Groups[0].Columns = append(crowd.Groups[0].Columns, column)
	}
	crowd.Groups[0].Columns = crowd.Groups[0].Columns[1:]
	for w := range byte(2) {
		n.append(n.join(n.crew(200+w, nil)), crowd)
	}
	if got := len(n.detail(run).Shared); got != 1_000 {
		t.Errorf("%d in the record, want 1,000", got)
	}
}

// A client cannot say it of another.
func TestClientsDoNotReportSharing(t *testing.T) {
	n := start(t)
	s := n.join(n.crew(1, nil))
	ack := n.append(s, updates(1, model.Update{Op: model.OpShared, Env: "e", Other: &model.WriterID{2}}))
	if len(ack.Refused) != 1 || len(n.detail(s.Opened.Run).Shared) != 0 {
		t.Errorf("%+v", ack)
	}
}

// BenchmarkOwners is a rollout of 64 environments × 128 steps.
func BenchmarkOwners(b *testing.B) {
	const envs, rows = 64, 128
	batch := &model.Batch{Groups: []model.RowGroup{{TimeNs: make([]int64, rows)}}}
	for e := range envs {
		batch.Groups[0].Columns = append(batch.Groups[0].Columns, model.Column{Series: model.NewSeriesKey("reward", model.ScaleEnvironment, map[string]string{model.LabelEnv: fmt.Sprint("env", e)}), Kind: model.KindFloat, Floats: make([]float64, rows)})
	}
	claim := ingest.Claims()
	for b.Loop() {
		claim(batch)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(envs*rows), "ns/point")
}

// A rank whose job made up an id of its own is told what ranks of one job need; another job is not.
func TestARankOfAnotherJobIsToldWhatItsJobNeeds(t *testing.T) {
	n := start(t)
	n.join(n.crew(1, nil))
	other := n.crew(2, func(r *model.OpenRequest) { r.OrchestrationID = "another" })
	for _, rank := range []*int64{other.Rank, nil} {
		other.Rank = rank
		_, err := n.Join(t.Context(), other)
		e := model.Shown(err)
		if e == nil || e.Code != model.CodeRunExists || strings.Contains(e.Hint, "KYMOGRAM_ORCHESTRATION_ID") != (rank != nil) || !strings.Contains(e.Hint, "run_name") {
			t.Errorf("with rank %v: %v", rank, err)
		}
	}
}
