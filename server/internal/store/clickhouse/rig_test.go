package clickhouse_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	driver "github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/kymogram/kymogram/internal/model"
	chkit "github.com/kymogram/kymogram/internal/testkit/clickhouse"
	pgkit "github.com/kymogram/kymogram/internal/testkit/postgres"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse"
	"github.com/kymogram/kymogram/server/internal/store/storetest"
)

// rig is the two servers, with a database in each.
type rig struct {
	points *chkit.Server
	// cluster is not nil where points are on one; then points is one of its servers.
	cluster *chkit.Cluster
	ledger  *pgkit.Server
	config  clickhouse.Config
	schema  string
}

// quick is how long a server keeps a run for itself in tests.
const quick = 20 * time.Millisecond

func newRig(t testing.TB) *rig {
	t.Helper()
	points := chkit.Any(t)
	return rigOf(t, &rig{points: points}, points.Addrs, points.Database(t))
}

// newCluster is a rig with a cluster of its own.
func newCluster(t testing.TB) *rig {
	t.Helper()
	if os.Getenv("CLUSTER") == "" {
		t.Skip("four servers of ClickHouse and a ZooKeeper: make test-cluster")
	}
	c := chkit.StartCluster(t)
	return rigOf(t, &rig{points: c.Shards[0][0], cluster: c}, c.Addrs(), c.Database(t)+"?cluster="+chkit.ClusterName)
}

func rigOf(t testing.TB, r *rig, addrs []string, database string) *rig {
	t.Helper()
	r.ledger = pgkit.Any(t)
	url := r.ledger.URL(t)
	_, r.schema, _ = strings.Cut(url, "search_path=")
	r.config = clickhouse.Config{
		Points: "clickhouse://" + strings.Join(addrs, ",") + "/" + database, Ledger: url, Node: "a",
		SeriesPerRunLimit: storetest.SeriesLimit, Every: time.Nanosecond, Hold: quick,
	}
	return r
}

// database is that of the points.
func (r *rig) database() string {
	name, _, _ := strings.Cut(r.config.Points[strings.LastIndexByte(r.config.Points, '/')+1:], "?")
	return name
}

// table is where the rows of a server are.
func (r *rig) table() string {
	if r.cluster == nil {
		return r.database() + ".points"
	}
	return r.database() + ".points_local"
}

func (r *rig) open(t testing.TB, node string) *clickhouse.Engine {
	t.Helper()
	c := r.config
	c.Node = node
	e, err := clickhouse.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	if c.Log != "" {
		work(t, e)
	}
	return e
}

// work opens the log of an engine, and lets it drain until end or the end of the test.
func work(t testing.TB, e *clickhouse.Engine) (end func()) {
	t.Helper()
	if err := e.OpenLog(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var working sync.WaitGroup
	working.Go(func() { _ = e.Run(ctx) })
	end = func() { cancel(); working.Wait() }
	t.Cleanup(end)
	return end
}

// clear empties all tables.
func (r *rig) clear(t testing.TB) {
	t.Helper()
	r.ledger.Do(t, "TRUNCATE "+r.schema+".ledger_runs, "+r.schema+".ledger_spans, "+r.schema+".ledger_attempts, "+r.schema+".ledger_writers, "+r.schema+".ledger_marks, "+
		r.schema+".ledger_series, "+r.schema+".ledger_streams, "+r.schema+".ledger_starts, "+r.schema+".ledger_skipped, "+r.schema+".ledger_updates, "+r.schema+".ledger_nodes, "+
		r.schema+".ledger_blocks, "+r.schema+".ledger_drains")
	if r.cluster == nil {
		r.points.Do(t, "TRUNCATE TABLE "+r.table())
		return
	}
	for _, shard := range r.cluster.Shards {
		shard[0].Do(t, "TRUNCATE TABLE "+r.table())
		for _, s := range shard {
			s.Do(t, "SYSTEM SYNC REPLICA "+r.table())
		}
	}
}

// stored counts the rows of the table of points that are there, those that count, and the
// different values of those. It knows nothing of the engine but the two tables.
func (r *rig) stored(t testing.TB) (all, visible, different string) {
	t.Helper()
	return r.storedAt(t, r.points)
}

// storedAt asks one server for its rows.
func (r *rig) storedAt(t testing.TB, s *chkit.Server) (all, visible, different string) {
	t.Helper()
	conditions := []string{"0"}
	for line := range strings.Lines(r.ledger.Do(t, "SELECT encode(run, 'hex'), epoch, last FROM "+r.schema+".ledger_spans")) {
		var run string
		var epoch, last uint64
		if _, err := fmt.Sscanf(strings.ReplaceAll(strings.TrimSpace(line), "|", " "), "%s %d %d", &run, &epoch, &last); err != nil {
			t.Fatal(err)
		}
		conditions = append(conditions, fmt.Sprintf("(hex(run) = '%s' AND lsn > %d AND lsn <= %d)", strings.ToUpper(run), epoch<<40, epoch<<40+last))
	}
	for line := range strings.Lines(r.ledger.Do(t, "SELECT first, epoch, last FROM "+r.schema+".ledger_drains")) {
		var first, epoch, last uint64
		if _, err := fmt.Sscanf(strings.ReplaceAll(strings.TrimSpace(line), "|", " "), "%d %d %d", &first, &epoch, &last); err != nil {
			t.Fatal(err)
		}
		const above = 1 << 63
		conditions = append(conditions, fmt.Sprintf("(lsn > toUInt64('%d') AND lsn <= toUInt64('%d'))", above|first<<40, above|epoch<<40+last))
	}
	answer := strings.Fields(s.Do(t, "SELECT count(), sum("+strings.Join(conditions, " OR ")+"), uniqExactIf((run, writer, float), "+strings.Join(conditions, " OR ")+") FROM "+r.table()))
	return answer[0], answer[1], answer[2]
}

func open(t testing.TB, e *clickhouse.Engine, run model.RunID, w model.WriterID) {
	t.Helper()
	if err := e.PutOpen(t.Context(), run, model.Attempt{Number: 1}, w, nil); err != nil {
		t.Fatal(err)
	}
}

// numbers is a batch of points from first to last; foreign ones have no sequences.
func numbers(run model.RunID, w model.WriterID, first, last uint64, foreign bool) *model.Batch {
	g := model.RowGroup{Axes: []model.AxisColumn{{Axis: model.AxisStep}}, Columns: []model.Column{{Series: model.NewSeriesKey("x", "", nil), Kind: model.KindFloat}}}
	for n := first; n <= last; n++ {
		g.Axes[0].Values, g.TimeNs = append(g.Axes[0].Values, int64(n)), append(g.TimeNs, int64(n))
		g.Columns[0].Floats = append(g.Columns[0].Floats, float64(n))
		if !foreign {
			g.Seq = append(g.Seq, n)
		}
	}
	b := &model.Batch{Run: run, Writer: w, Attempt: 1, Groups: []model.RowGroup{g}}
	if !foreign {
		b.First, b.Last = first, last
	}
	return b
}

// between is a connection to ClickHouse whose inserts end with what after says.
type between struct {
	driver.Conn
	after func() error
}

func (b between) PrepareBatch(ctx context.Context, query string, o ...driver.PrepareBatchOption) (driver.Batch, error) {
	inner, err := b.Conn.PrepareBatch(ctx, query, o...)
	return sending{inner, b.after}, err
}

type sending struct {
	driver.Batch
	after func() error
}

func (s sending) Send() error {
	if err := s.Batch.Send(); err != nil {
		return err
	}
	return s.after()
}

// afterInsert does something between an insert and its commit.
func afterInsert(e *clickhouse.Engine, after func() error) {
	e.Wrap(func(c driver.Conn) driver.Conn { return between{c, after} })
}

// proxy is a way to PostgreSQL that loses the answer to a commit when it is armed.
type proxy struct {
	net.Listener
	armed atomic.Bool
	lost  atomic.Int32
}

// through makes the way, and the address that leads over it.
func through(t testing.TB, r *rig) (*proxy, string) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	p := &proxy{Listener: l}
	target := fmt.Sprintf("127.0.0.1:%d", r.ledger.Port)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go p.carry(c, target)
		}
	}()
	return p, strings.Replace(r.config.Ledger, target, l.Addr().String(), 1)
}

func (p *proxy) carry(client net.Conn, target string) {
	defer client.Close()
	server, err := net.Dial("tcp", target) //nolint:noctx // it lives as long as the other side
	if err != nil {
		return
	}
	defer server.Close()
	go func() { _, _ = io.Copy(server, client) }()
	buffer := make([]byte, 64<<10)
	for {
		n, err := server.Read(buffer)
		if err != nil {
			return
		}
		if strings.Contains(string(buffer[:n]), "COMMIT\x00") && p.armed.CompareAndSwap(true, false) {
			p.lost.Add(1)
			return
		}
		if _, err := client.Write(buffer[:n]); err != nil {
			return
		}
	}
}
