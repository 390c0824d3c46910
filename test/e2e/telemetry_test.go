//go:build e2e

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kymogram/kymogram"
	"github.com/kymogram/kymogram/telemetry"
	"github.com/kymogram/kymogram/test/rig"
)

// The same points through telemetry.Logger and through the Influx door are the same series.
func TestTelemetryAndTheInfluxDoorMakeTheSameSeries(t *testing.T) {
	r := rig.New(t)
	s := r.Serve(t)
	t.Setenv("KYMOGRAM_SERVER", s.Address)
	t.Setenv("KYMOGRAM_SPOOL_DIR", r.Spool)
	t.Setenv("XDG_CONFIG_HOME", r.Dir)
	at := time.Unix(1_700_000_000, 5)
	var lines []string
	for _, life := range []struct{ uid, id string }{{"1", "life"}, {"2", "life"}, {"1", "next"}} {
		l, err := telemetry.New(t.Context(), telemetry.Options{
			Prefix: "V", UID: life.uid, Role: telemetry.Validator, RuntimeID: life.id, Config: map[string]any{"lr": 0.5}, Token: s.Key(t),
		})
		if err != nil {
			t.Fatal(err)
		}
		l.Log("scores", telemetry.Tags{"window": 12, "eval_uid": 5}, telemetry.Fields{"weight": 0.5, "n": 3, "reason": "a b"}, telemetry.At(at))
		for i, loss := range []float64{10, 7, 4} {
			l.Log("step", telemetry.Tags{"epoch": 5}, telemetry.Fields{"loss": loss}, telemetry.At(at.Add(time.Duration(i))))
		}
		r.Closed(t, l.Close(t.Context()))
		process := fmt.Sprintf("prefix=V,role=validator,runtime_id=%s,uid=%s,config_lr=0.5", life.id, life.uid)
		lines = append(lines, fmt.Sprintf(`Vscores,eval_uid=5,window=12,%s weight=0.5,n=3i,reason="a b" %d`, process, at.UnixNano()))
		for i, loss := range []int{10, 7, 4} {
			lines = append(lines, fmt.Sprintf("Vstep,epoch=5,%s loss=%d %d", process, loss, at.UnixNano()+int64(i)))
		}
	}
	q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.Address+"/api/v2/write?org=tplr&bucket=door", strings.NewReader(strings.Join(lines, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Authorization", "Token "+s.Key(t))
	answer, err := http.DefaultClient.Do(q)
	if err != nil || answer.StatusCode != http.StatusNoContent {
		t.Fatal(answer, err)
	}
	_ = answer.Body.Close()
	c := s.Client(t)
	for _, run := range []string{"validator-1", "validator-2"} {
		ours, door := seriesOf(t, c, "tplr/tplr", run), seriesOf(t, c, "tplr/door", run)
		if diff := cmp.Diff(door, ours); diff != "" || len(ours) != 4 {
			t.Errorf("%s (-door +ours):\n%s", run, diff)
		}
		said, saidByDoor := attemptsOf(t, c, "tplr/tplr", run), attemptsOf(t, c, "tplr/door", run)
		if diff := cmp.Diff(saidByDoor, said); diff != "" || (run == "validator-1") != (len(said) == 2) {
			t.Errorf("attempts of %s (-door +ours):\n%s", run, diff)
		}
	}
}

// A machine is seen without any program that trains; the end of the agent is the end of its run.
func TestAgentCollects(t *testing.T) {
	r := rig.New(t)
	s := r.Serve(t)
	c := s.Client(t)
	t.Setenv("KYMOGRAM_SPOOL_DIR", r.Spool)
	t.Setenv("XDG_CONFIG_HOME", r.Dir)
	first, err := telemetry.New(t.Context(), telemetry.Options{Org: "team", Database: "machines", Token: s.Key(t), Run: kymogram.Options{Server: s.Address}})
	if err != nil {
		t.Fatal(err)
	}
	r.Closed(t, first.Close(t.Context())) // now there is the project
	cmd := r.Command(t, r.Binary(), "agent", "--spool", r.Spool, "--collect", "--collect-interval", "100ms",
		"--collect-into", "team/machines", "--collect-run", "node-7", "--collect-server", s.Address)
	cmd.Env = append(cmd.Env, "KYMOGRAM_API_KEY="+s.Key(t))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	running := func() *rig.Run {
		for _, run := range c.Runs(t, "team/machines") {
			if run.Name == "node-7" {
				return &run
			}
		}
		return nil
	}
	rig.Eventually(t, time.Minute, "the machine's memory is logged", func() bool {
		run := running()
		return run != nil && countOf(t, c, run.ID, "system/memory/used_bytes") > 1
	})
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if run := running(); run == nil || run.Status != "finished" {
		t.Errorf("the run is %+v", run)
	}
}

// countOf is how many points a run has of a metric.
func countOf(t *testing.T, c *rig.Client, run, metric string) (n int) {
	t.Helper()
	for _, s := range c.Series(t, run) {
		if s.Metric == metric {
			n += s.Count
		}
	}
	return n
}

// attemptsOf is what a run says of its attempts.
func attemptsOf(t *testing.T, c *rig.Client, project, name string) map[string]any {
	t.Helper()
	var run struct {
		Attributes []struct {
			Path  string
			Value any
		}
	}
	c.Get(t, "/api/v1/runs/"+c.Run(t, project, name).ID, nil, &run)
	out := map[string]any{}
	for _, a := range run.Attributes {
		if strings.HasPrefix(a.Path, "attempts/") {
			out[a.Path] = a.Value
		}
	}
	return out
}

// seriesOf is every series of a run with its points; a text has no axis but the step.
func seriesOf(t *testing.T, c *rig.Client, project, name string) map[string][]string {
	t.Helper()
	run := c.Run(t, project, name)
	out := map[string][]string{}
	for _, s := range c.Series(t, run.ID) {
		points := c.Points(t, run.ID, s.Metric, s.Scale, s.Labels)
		columns := []string{"step", "window", "epoch", "time_ns", "value"}
		if s.Kind == "text" {
			columns = []string{"step", "time_ns", "value"}
		}
		key := fmt.Sprint(s.Metric, s.Labels, s.Kind)
		for i := range points["value"] {
			out[key] = append(out[key], points.Row(i, columns...))
		}
	}
	return out
}
