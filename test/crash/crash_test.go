//go:build e2e

// Package crash kills the training loop, the agent and the server with SIGKILL
// at random instants, under load, and then counts: every point whose log() had
// returned is in the server, none twice. `make test` kills each 20 times,
// `make proof` the loop and the agent 200 and the server 1,000 times.
package crash

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/kymogram/kymogram/test/rig"
)

var (
	kills       = flag.Int("kills", 20, "how often to kill the loop, and the agent")
	serverKills = flag.Int("server-kills", 0, "how often to kill the server (default: kills)")
	writers     = flag.Int("writers", 8, "how many processes log while the server is killed")
	readyLimit  = flag.Duration("ready", 0, "fail when a start after a kill takes longer (default: only say how long)")
)

const project = "default/crash"

// between is a random duration.
func between(low, high time.Duration) time.Duration { return low + rand.N(high-low) }

// mustHold reads a run's points: value and step are 0, 1, 2, …, each once, and
// there are at least as many as calls returned.
func mustHold(t *testing.T, c *rig.Client, run string, returned, atMost int) {
	t.Helper()
	points := c.Points(t, c.Run(t, project, run).ID, "value", "ML_STEP", nil)
	seen := map[int]bool{}
	for i, v := range points["value"] {
		n, err := strconv.Atoi(rig.Text(v))
		if err != nil || rig.Text(points["step"][i]) != rig.Text(v) {
			t.Fatalf("%s: row %d has step %v and value %v", run, i, points["step"][i], v)
		}
		if seen[n] {
			t.Errorf("%s: point %d is there twice", run, n)
		}
		seen[n] = true
	}
	for n := range len(seen) {
		if !seen[n] {
			t.Errorf("%s: point %d is missing", run, n)
			break
		}
	}
	if len(seen) < returned || len(seen) > atMost {
		t.Errorf("%s: %d points stored, %d calls had returned", run, len(seen), returned)
	}
}

// A loop that is killed has lost nothing that log() returned for.
func TestLoopKilled(t *testing.T) {
	r := rig.New(t)
	server := r.Serve(t)
	returned := make([]int, *kills)
	for i := range returned {
		loop := r.StartLoop(t, server.Address, "loop-"+strconv.Itoa(i))
		loop.WaitOpen(t)
		time.Sleep(between(0, 400*time.Millisecond))
		loop.Kill()
		returned[i] = loop.Returned()
	}
	r.Sync(t)
	c := server.Client(t)
	total := 0
	for i, n := range returned {
		total += n
		if n == 0 {
			continue // killed before its first call returned: the run may have no point at all
		}
		// The call that was under way may have written its point.
		mustHold(t, c, "loop-"+strconv.Itoa(i), n, n+1)
	}
	t.Logf("%d loops killed, %d points", *kills, total)
}

// An agent that is killed is replaced; what it sent and had not heard of is not doubled.
func TestAgentKilled(t *testing.T) {
	r := rig.New(t)
	server := r.Serve(t)
	stop := filepath.Join(r.Dir, "stop")
	loop := r.StartLoop(t, server.Address, "agent", "--pause", "0.0005", "--until", stop)
	loop.WaitOpen(t)
	for range *kills {
		rig.Eventually(t, 15*time.Second, "an agent delivers", func() bool { _, ok := r.Agent(); return ok })
		time.Sleep(between(0, 600*time.Millisecond))
		if !r.KillAgent(t) {
			t.Error("the agent was gone before it was killed")
		}
	}
	end(t, stop)
	loop.Wait(t)
	r.Sync(t)
	mustHold(t, server.Client(t), "agent", loop.Returned(), loop.Returned())
	t.Logf("agent killed %d times under %d points", *kills, loop.Returned())
}

// A server that is killed keeps what it acknowledged and takes the rest again,
// once. It is killed while batches come in.
func TestServerKilled(t *testing.T) {
	rounds := *serverKills
	if rounds == 0 {
		rounds = *kills
	}
	r := rig.New(t)
	server := r.Serve(t)
	stop := filepath.Join(r.Dir, "stop")
	loops := make([]*rig.Loop, *writers)
	for i := range loops {
		loops[i] = r.StartLoop(t, server.Address, fmt.Sprintf("server-%d", i), "--pause", "0.003", "--until", stop)
	}
	for _, loop := range loops {
		loop.WaitOpen(t)
	}
	var starts []time.Duration
	began := time.Now()
	for range rounds {
		c := server.Client(t)
		rig.Eventually(t, 30*time.Second, "batches come in", func() bool { return c.Metric(t, "kymogram_ingest_batches_total") > 0 })
		time.Sleep(between(0, 200*time.Millisecond))
		server.Kill(t)
		server.Restart(t)
		starts = append(starts, server.Start)
	}
	took := time.Since(began)
	end(t, stop)
	for _, loop := range loops {
		loop.Wait(t)
	}
	r.Sync(t)
	c, total := server.Client(t), 0
	for i, loop := range loops {
		mustHold(t, c, fmt.Sprintf("server-%d", i), loop.Returned(), loop.Returned())
		total += loop.Returned()
	}
	if t.Failed() {
		return
	}
	slices.Sort(starts)
	worst := starts[len(starts)-1]
	t.Logf("server killed %d times in %v under %d points of %d writers: 0 lost, 0 doubled; ready again after %v (median), %v (99 of 100), %v (worst)",
		rounds, took.Round(time.Second), total, len(loops), starts[len(starts)/2].Round(time.Millisecond), starts[len(starts)*99/100].Round(time.Millisecond), worst.Round(time.Millisecond))
	if *readyLimit > 0 && worst > *readyLimit {
		t.Errorf("a start took %v, the limit is %v", worst, *readyLimit)
	}
}

func end(t *testing.T, stop string) {
	t.Helper()
	if err := os.WriteFile(stop, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}
