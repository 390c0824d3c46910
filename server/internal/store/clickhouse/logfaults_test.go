package clickhouse_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/testkit/fault"
	natskit "github.com/kymogram/kymogram/internal/testkit/nats"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse"
)

// drainerConfig is the variable by which this program is a server that only drains.
const drainerConfig = "KYMOGRAM_TEST_DRAINER"

// TestDrainer is no test, but the program of a drainer.
func TestDrainer(t *testing.T) {
	given := os.Getenv(drainerConfig)
	if given == "" {
		t.Skip("other tests start it")
	}
	var c clickhouse.Config
	if err := json.Unmarshal([]byte(given), &c); err != nil {
		t.Fatal(err)
	}
	for { // what it needs may be away
		e, err := clickhouse.Open(t.Context(), c)
		if err == nil {
			if err = e.OpenLog(t.Context()); err == nil {
				_ = e.Run(context.Background()) // until it is killed
			}
			_ = e.Close()
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// drainer is the process.
type drainer struct{ cmd *exec.Cmd }

func (d *drainer) start(t testing.TB, r *rig, node string) {
	t.Helper()
	c := r.config
	c.Node = node
	given, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	d.cmd = exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0], "-test.run=^TestDrainer$", "-test.timeout=0")
	d.cmd.Env = append(os.Environ(), drainerConfig+"="+string(given))
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
}

func (d *drainer) kill() {
	_ = d.cmd.Process.Kill()
	_ = d.cmd.Wait()
}

// leader is the server of NATS that has the stream, by what NATS says.
func leader(t testing.TB, servers []*natskit.Server) *natskit.Server {
	t.Helper()
	var found *natskit.Server
	eventually(t, "the stream has a leader", func() bool {
		conn, err := nats.Connect(natskit.URL(servers...))
		if err != nil {
			return false
		}
		defer conn.Close()
		js, err := jetstream.New(conn)
		if err != nil {
			return false
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		list := js.ListStreams(ctx)
		for info := range list.Info() {
			for _, s := range servers {
				if info.Cluster != nil && info.Cluster.Leader == s.Name {
					found = s
				}
			}
		}
		return found != nil
	})
	return found
}

// Two servers write, they and two processes drain, and one or two things at a time are killed or
// frozen: a drainer, the leader of the log, ClickHouse, PostgreSQL. Reads never see less than was
// acknowledged, and at the end each point is there once.
func TestLogFaults(t *testing.T) {
	if os.Getenv("CLUSTER") == "" {
		t.Skip("three servers of NATS: make test-cluster")
	}
	servers := natskit.Start(t, 3)
	r := newRig(t)
	if r.ledger.Port == 0 || len(r.points.Addrs) != 1 {
		t.Skip("servers of the user's own are not killed")
	}
	r.config.Log, r.config.Patience, r.config.Every = natskit.URL(servers...), 5*time.Second, 50*time.Millisecond
	engines := []*clickhouse.Engine{r.open(t, "a"), r.open(t, "b")}
	drainers := []*drainer{{}, {}}
	for i, d := range drainers {
		d.start(t, r, fmt.Sprintf("drainer %d", i))
		t.Cleanup(d.kill)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var writing sync.WaitGroup
	var reads atomic.Int64
	var loggers []*logger
	for i := range byte(6) {
		l := &logger{run: model.RunID{i + 1}, writer: model.WriterID{i + 1}}
		loggers = append(loggers, l)
		writing.Go(func() { l.work(ctx, t, engines) })
		writing.Go(func() { l.look(ctx, t, engines, &reads) })
	}
	var killed *natskit.Server
	faults := []fault.Fault{
		{Of: "the leader of the log", Name: "killed", Begin: func() { killed = leader(t, servers); killed.Kill() }, End: func() { killed.Serve(t) }},
		{Of: "the leader of the log", Name: "frozen", Begin: func() { killed = leader(t, servers); killed.Freeze(t) }, End: func() { killed.Thaw(t) }},
		{Of: "a drainer", Name: "killed", Begin: func() { drainers[0].kill() }, End: func() { drainers[0].start(t, r, "drainer 0") }},
		{Of: "ClickHouse", Name: "killed", Begin: r.points.Kill, End: func() { r.points.Serve(t) }},
		{Of: "PostgreSQL", Name: "killed", Begin: r.ledger.Kill, End: func() { r.ledger.Serve(t) }},
	}
	fault.Try(t, fault.Rounds(20), faults, func(when string) {
		for _, l := range loggers {
			before := l.acked.Load()
			eventually(t, fmt.Sprintf("%s is written %s", l.run, when), func() bool { return l.acked.Load() > before })
		}
	})
	cancel()
	writing.Wait()
	r.drained(t)
	sum := uint64(0)
	for _, l := range loggers {
		mark, err := engines[0].Mark(t.Context(), l.writer)
		if err != nil || mark < l.acked.Load() {
			t.Errorf("the mark of %s is %d, %d were acknowledged, %v", l.run, mark, l.acked.Load(), err)
		}
		for _, e := range engines {
			wantRead(t, e, l.run, mark)
		}
		sum += mark
	}
	all, visible, different := r.stored(t)
	if visible != fmt.Sprint(sum) || different != visible {
		t.Errorf("%s rows, %s count, %s different ones, want %d", all, visible, different, sum)
	}
	drains := strings.TrimSpace(r.ledger.Do(t, "SELECT count(*), sum(last) FROM "+r.schema+".ledger_drains"))
	t.Logf("%d points acknowledged, %d reads under way, %s rows in the table; drains and inserts that count: %s", sum, reads.Load(), all, drains)
}
