package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/kymogram/kymogram"
	chkit "github.com/kymogram/kymogram/internal/testkit/clickhouse"
	"github.com/kymogram/kymogram/internal/testkit/fault"
	pgkit "github.com/kymogram/kymogram/internal/testkit/postgres"
	"github.com/kymogram/kymogram/internal/testkit/release"
)

// trainingSteady logs 0, 1, 2, … until SIGTERM, and prints how many calls returned and how many
// points a server acknowledged. TestMain makes it a program of this binary.
func trainingSteady() {
	if err := logSteadily(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func logSteadily() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	run, err := kymogram.Init(ctx, kymogram.Options{
		RunName: os.Getenv("STEADY_RUN"), Log: slog.New(slog.DiscardHandler), NoEnvironment: true, NoSystemMetrics: true, CloseTimeout: 2 * time.Minute,
	})
	if err != nil {
		return err
	}
	for i := 0; ctx.Err() == nil; i++ {
		if err := run.Log("loss", float64(i)); err != nil {
			return err
		}
		fmt.Println(i+1, run.Metrics().FloatPoints.Sent)
		time.Sleep(2 * time.Millisecond) // as a step of a training
	}
	err = run.Close(context.Background())
	if m := run.Metrics(); m.Refused+m.FloatPoints.Dropped > 0 {
		err = errors.Join(err, fmt.Errorf("refused %d, dropped %d", m.Refused, m.FloatPoints.Dropped))
	}
	return err
}

// training is such a process.
type training struct {
	cmd         *exec.Cmd
	run         string
	said        bytes.Buffer // its errors
	logged      atomic.Int64 // calls that returned
	acked       atomic.Int64 // points
	outputEnded chan struct{}
}

func (c *engines) train(run, server string) *training {
	c.t.Helper()
	home := c.t.TempDir()
	w := &training{run: run, outputEnded: make(chan struct{}), cmd: exec.CommandContext(context.Background(), "training-steady")}
	w.cmd.Env = []string{
		"STEADY_RUN=" + run, "HOME=" + home, "PATH=" + os.Getenv("PATH"), "XDG_CONFIG_HOME=" + home + "/config", "KYMOGRAM_SPOOL_DIR=" + home + "/spool",
		"KYMOGRAM_SERVER=" + server, "KYMOGRAM_API_KEY=" + c.key,
	}
	w.cmd.Stderr = &w.said
	out, err := w.cmd.StdoutPipe()
	if err == nil {
		err = w.cmd.Start()
	}
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		_ = w.cmd.Process.Kill() // it may have ended
		_ = w.cmd.Wait()
	})
	go func() {
		defer close(w.outputEnded)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var logged, acked int64
			if _, err := fmt.Sscan(lines.Text(), &logged, &acked); err == nil {
				w.logged.Store(logged)
				w.acked.Store(acked)
			}
		}
	}()
	return w
}

// end lets it deliver all that it logged.
func (w *training) end(t *testing.T) {
	t.Helper()
	if err := w.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-w.outputEnded
	if err := w.cmd.Wait(); err != nil {
		t.Errorf("the training of %s: %v\n%s", w.run, err, w.said.String())
	}
}

// nodes are servers of a store behind a balancer, and trainings that log to them.
type nodes struct {
	*engines
	balancer  *spread
	list      []*member
	trainings []*training
}

func (c *engines) nodes(servers, trainings int) *nodes {
	n := &nodes{engines: c, balancer: newSpread(c.t)}
	for range servers {
		n.list = append(n.list, c.start(c.t.TempDir()))
	}
	n.lead(-1)
	for i := range trainings {
		n.trainings = append(n.trainings, c.train(fmt.Sprint("steady", i), "http://"+n.balancer.address))
	}
	n.goesOn("at first")
	return n
}

// lead lets the balancer use all nodes but one.
func (n *nodes) lead(without int) {
	var to []string
	for i, m := range n.list {
		if i != without {
			to = append(to, m.address)
		}
	}
	n.balancer.lead(to...)
}

// replace puts a new server in the place of one that has ended.
func (n *nodes) replace(i int) {
	n.list[i] = n.start(n.t.TempDir())
	n.lead(-1)
}

// goesOn waits until each training is told that more of its points are stored.
func (n *nodes) goesOn(when string) {
	n.t.Helper()
	for _, w := range n.trainings {
		before, end := w.acked.Load(), time.Now().Add(2*time.Minute)
		for ; w.acked.Load() <= before+10; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				n.t.Fatalf("%s is not written %s: %d points acknowledged", w.run, when, before)
			}
		}
	}
}

// settled holds what each node reads against what trainings said that they had logged.
func (n *nodes) settled() {
	n.t.Helper()
	sum := int64(0)
	for _, w := range n.trainings {
		w.end(n.t)
		sum += w.logged.Load()
	}
	for _, m := range n.list {
		for _, w := range n.trainings {
			n.kitchen(m).once("default/default/"+w.run, "loss", 0, int(w.logged.Load()))
		}
	}
	if !n.t.Failed() {
		n.t.Logf("%d points of %d trainings: 0 lost, 0 doubled, at each of %d servers", sum, len(n.trainings), len(n.list))
	}
}

// faults are those of the servers of Kymogram.
func (n *nodes) faults() (out []fault.Fault) {
	for i := range n.list {
		kill := func() { n.list[i].kill() }
		out = append(out,
			fault.Fault{Of: fmt.Sprint("server ", i+1), Name: "killed, and replaced", Begin: kill, End: func() { n.replace(i) }},
			fault.Fault{Of: fmt.Sprint("server ", i+1), Name: "cut off and frozen", Begin: func() {
				n.signal(i, syscall.SIGSTOP)
				n.lead(i)
			}, End: func() {
				n.signal(i, syscall.SIGCONT)
				n.lead(-1)
			}})
	}
	return out
}

func (n *nodes) signal(i int, what syscall.Signal) {
	if err := n.list[i].cmd.Process.Signal(what); err != nil {
		n.t.Error(err)
	}
}

func needCluster(t *testing.T) {
	t.Helper()
	if os.Getenv("CLUSTER") == "" {
		t.Skip("servers of several kinds for minutes: make test-cluster")
	}
}

// Three servers as processes, and all that they share: each is killed, frozen or replaced at
// random while trainings log. What a call of the SDK returned for is there once, at each server.
func TestEverythingFails(t *testing.T) {
	needCluster(t)
	c := newCluster(t)
	cluster, pair := chkit.StartCluster(t), pgkit.StartPair(t)
	database := cluster.Database(t)
	c.points = "clickhouse://default@" + strings.Join(cluster.Addrs(), ",") + "/" + database + "?cluster=" + chkit.ClusterName
	c.catalog = pair.URL(t)
	n := c.nodes(3, 4)
	all := append(fault.Cluster(t, cluster, database+".points_local"), fault.Pair(t, pair)...)
	all = append(all, n.faults()...) // they start when the others are there again
	fault.Try(t, fault.Rounds(30), all, n.goesOn)
	n.settled()
}

// older is a commit whose servers are replaced by today's, one by one.
const older = "b23daed2"

// TestRollingUpgrade: servers of an older version are replaced by those of today, one by one,
// while trainings log. Every second one is killed.
func TestRollingUpgrade(t *testing.T) {
	needCluster(t)
	program := release.Binary(t, older, "./server/cmd/kymogram")
	c := newCluster(t)
	c.program = program
	n := c.nodes(3, 4)
	c.program = ""
	for i := range n.list {
		if i%2 == 0 {
			n.signal(i, syscall.SIGTERM)
			if err := n.list[i].cmd.Wait(); err != nil {
				t.Errorf("the older server after SIGTERM: %v", err)
			}
		} else {
			n.list[i].kill()
		}
		n.goesOn("without a server")
		n.replace(i)
		n.goesOn(fmt.Sprintf("with %d new servers", i+1))
	}
	n.settled()
}
