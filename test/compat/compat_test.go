//go:build e2e

// Package compat runs today's binary beside that of commit 97b6811, which knew
// protocol 1 only: one as the agent, the other as the server, both killed under
// way. What the server holds in the end is what the test logged.
package compat

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/spool"
	"github.com/kymogram/kymogram/internal/testkit/release"
	"github.com/kymogram/kymogram/test/rig"
)

// old is the last commit that knew protocol 1 only.
const old = "97b6811"

const points = 2_000

func TestOldAgentNewServer(t *testing.T) { meet(t, rig.New(t), rigOf(t, released(t))) }

func TestNewAgentOldServer(t *testing.T) { meet(t, rigOf(t, released(t)), rig.New(t)) }

func rigOf(t *testing.T, program string) *rig.Rig {
	t.Helper()
	r := rig.New(t)
	r.Program = program
	return r
}

// released is the binary of the old commit.
func released(t *testing.T) string {
	t.Helper()
	return release.Binary(t, old, "./cmd/kymogram", "GOWORK=off")
}

// meet logs a run that agents of one rig deliver to the server of another. Both
// are killed three times while points come in.
func meet(t *testing.T, servers, agents *rig.Rig) {
	server := servers.Serve(t)
	agents.Setenv("KYMOGRAM_API_KEY=" + server.Key(t))
	l := open(t, agents, server)
	stop := func() {}
	for i := range points {
		if i%(points/4) == 0 {
			stop()
			if i > 0 {
				server.Kill(t)
				server.Restart(t)
			}
			stop = deliver(t, agents)
		}
		l.log(i)
		time.Sleep(time.Millisecond)
	}
	l.end()
	stop()
	agents.Sync(t)
	l.check(server.Client(t))
}

// deliver starts an agent; stop kills it.
func deliver(t *testing.T, r *rig.Rig) (stop func()) {
	t.Helper()
	cmd := r.Command(t, r.Binary(), "agent", "--spool", r.Spool)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed: there is no other news
	}
}

// logger writes a spool as a program would and remembers what it said.
type logger struct {
	*testing.T
	w      *spool.Writer
	series *spool.Series
	tags   []string
	values map[string]any // by path, as the HTTP API writes them
}

func open(t *testing.T, r *rig.Rig, server *rig.Server) *logger {
	t.Helper()
	l := &logger{T: t, values: map[string]any{"config/lr": json.Number("0.1"), "config/big": "9223372036854775807", "config/nan": "NaN"}}
	folder, err := spool.OpenFolder(r.Spool)
	l.ok(err)
	l.w, err = spool.Create(folder, server.Address, model.OpenRequest{
		Writer: model.WriterID{1, 2, 3}, LocalRun: model.RunID{1}, Workspace: "default", Project: "compat", RunName: "run",
		OrchestrationID: "job", ResumeStrategy: model.ResumeNever, OpenedNs: time.Now().UnixNano(), SDK: "go/0.1.0", Offline: true,
		Initial: []model.Update{
			{Op: model.OpSetAttribute, Path: "config/lr", Value: model.FloatValue(0.1)},
			{Op: model.OpSetAttribute, Path: "config/big", Value: model.IntValue(math.MaxInt64)},
			{Op: model.OpSetAttribute, Path: "config/nan", Value: model.FloatValue(math.NaN())},
		},
	}, spool.WriterOptions{Cap: 1 << 30})
	l.ok(err)
	t.Cleanup(func() { l.w.Close() })
	l.series, err = l.w.Series(model.KindFloat, model.NewSeriesKey("value", model.ScaleStep, nil))
	l.ok(err)
	return l
}

func (l *logger) ok(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

func (l *logger) updates(updates ...model.Update) {
	l.Helper()
	for i := range updates {
		updates[i].TimeNs = time.Now().UnixNano()
	}
	l.ok(l.w.Updates(updates))
}

// log logs the value i at the step i, and now and then more.
func (l *logger) log(i int) {
	l.Helper()
	l.ok(l.w.Point(l.series, spool.FlagStep, int64(i), time.Now().UnixNano(), math.Float64bits(float64(i))))
	if i%100 != 0 {
		return
	}
	path, tag := fmt.Sprint("late/", i), fmt.Sprint("t", i)
	l.values[path], l.tags = []any{"x", "y"}, append(l.tags, tag)
	l.updates(model.Update{Op: model.OpSetAttribute, Path: path, Value: model.SetValue([]string{"y", "x"})}, model.Update{Op: model.OpAddTags, Tags: []string{tag}})
}

// end logs what the server refuses, what the client dropped, and the close.
func (l *logger) end() {
	l.Helper()
	l.ok(l.w.Point(l.series, spool.FlagStep, -1, time.Now().UnixNano(), 0))
	l.updates(model.Update{Op: "future", Path: "late/future", Value: model.BoolValue(true)})
	l.updates(model.Update{Op: model.OpDropped, Count: 5, Text: "the spool was full"})
	l.updates(model.Update{Op: model.OpClose, Text: string(model.StatusFinished)})
	_, err := l.w.Close()
	l.ok(err)
}

func (l *logger) check(c *rig.Client) {
	l.Helper()
	run := c.Run(l.T, "default/compat", "run")
	slices.Sort(l.tags)
	if run.Status != "finished" || !slices.Equal(run.Tags, l.tags) {
		l.Errorf("the run is %s, its tags are %v, want %v", run.Status, run.Tags, l.tags)
	}
	got := c.Points(l.T, run.ID, "value", model.ScaleStep, nil)
	if len(got["value"]) != points {
		l.Errorf("%d points, %d were logged", len(got["value"]), points)
	}
	for i := range got["value"] {
		if want := fmt.Sprint(i); rig.Text(got["step"][i]) != want || rig.Text(got["value"][i]) != want {
			l.Fatalf("point %d has the step %v and the value %v", i, got["step"][i], got["value"][i])
		}
	}
	var doc struct {
		Attributes []struct {
			Path  string
			Value any
		}
		Ledger struct{ Logged, Stored, Superseded, Refused, Dropped int }
	}
	c.Get(l.T, "/api/v1/runs/"+run.ID, nil, &doc)
	values := map[string]any{}
	for _, a := range doc.Attributes {
		values[a.Path] = a.Value
	}
	if diff := cmp.Diff(l.values, values); diff != "" {
		l.Errorf("attributes (-logged +got):\n%s", diff)
	}
	if ledger := doc.Ledger; ledger.Logged != points+1+5 || ledger.Stored != points || ledger.Superseded != 0 || ledger.Refused != 1 || ledger.Dropped != 5 {
		l.Errorf("ledger %+v", ledger)
	}
}
