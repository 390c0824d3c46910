package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/testkit/prometheus"
	"github.com/kymogram/kymogram/server/internal/store"
)

const serversBoard = "../../../deploy/grafana/cluster.json"

// panel is one of a dashboard of Grafana.
type panel struct {
	Title, Type string
	Targets     []struct{ Expr string }
}

// board reads the dashboard: its sections, in their order, and the panels of each.
func board(t *testing.T) (sections []string, panels map[string][]panel) {
	t.Helper()
	text, err := os.ReadFile(serversBoard)
	if err != nil {
		t.Fatal(err)
	}
	var all struct{ Panels []panel }
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	panels = map[string][]panel{}
	for _, p := range all.Panels {
		if p.Type == "row" {
			sections = append(sections, p.Title)
			continue
		}
		at := sections[len(sections)-1]
		panels[at] = append(panels[at], p)
	}
	return sections, panels
}

// asked is what Grafana makes of a panel's.
func asked(expr string) string {
	return strings.NewReplacer("$__rate_interval", "1m", "$instance", ".*").Replace(expr)
}

// TestBoardIsPromQL: each query is one, also of the panels for exporters.
func TestBoardIsPromQL(t *testing.T) {
	sections, panels := board(t)
	if len(sections) != 6 {
		t.Errorf("sections %q", sections)
	}
	for _, list := range panels {
		for _, p := range list {
			if len(p.Targets) == 0 {
				t.Errorf("%s asks nothing", p.Title)
			}
			for _, target := range p.Targets {
				if _, err := parser.ParseExpr(asked(target.Expr)); err != nil {
					t.Errorf("%s: %v", p.Title, err)
				}
			}
		}
	}
}

// TestServersAreWatched: Prometheus scrapes two servers of a store. What they count is what the
// engines have, and no panel of theirs is empty.
func TestServersAreWatched(t *testing.T) {
	c := newCluster(t)
	first, second := c.start(t.TempDir()), c.start(t.TempDir())
	p := prometheus.Start(t, fmt.Sprintf(`
global: {scrape_interval: 500ms, scrape_timeout: 500ms}
scrape_configs:
  - job_name: kymogram
    authorization: {credentials: %s}
    static_configs: [{targets: [%q, %q]}]
`, c.key, first.address, second.address), nil)
	p.Await(`count(kymogram_servers)`, func(s []prometheus.Sample) bool { return len(s) == 1 && s[0].Value == 2 })
	for i := range int64(40) { // the second takes the run from the first
		if m := []*member{first, second}[i/20]; !c.line(m.address, "w", i+1) {
			t.Fatal("a line was refused")
		}
	}
	_, schema, _ := strings.Cut(c.catalog, "search_path=")
	rows := strings.TrimSpace(c.clickhouse.Do(t, "SELECT count() FROM "+c.points[strings.LastIndexByte(c.points, '/')+1:]+".points WHERE lsn > 0")) // one has the name of the store
	epochs := strings.TrimSpace(c.database.Do(t, "SELECT sum(epoch) FROM "+schema+".ledger_runs"))
	for expr, want := range map[string]string{
		`sum(kymogram_clickhouse_inserted_rows_total)`:   rows,
		`sum(kymogram_leases_taken_total)`:               epochs, // each lease has an epoch of its own
		`max(kymogram_clickhouse_servers)`:               "1",
		`max(kymogram_clickhouse_servers_unreachable)`:   "0",
		`sum(kymogram_commit_failures_total)`:            "0",
		`sum(kymogram_clickhouse_insert_failures_total)`: "0",
	} {
		p.Await(expr, func(s []prometheus.Sample) bool { return len(s) == 1 && fmt.Sprint(s[0].Value) == want })
	}
	sections, panels := board(t)
	for _, section := range sections[:4] {
		for _, one := range panels[section] {
			for _, target := range one.Targets {
				p.Await(asked(target.Expr), func(s []prometheus.Sample) bool { return len(s) > 0 })
			}
		}
	}
}

// TestScrapeDoesNotGrow: as many metrics with many runs as with none, and as cheap. Three servers
// write the runs.
func TestScrapeDoesNotGrow(t *testing.T) {
	runs := 300
	if os.Getenv("CLUSTER") != "" {
		runs = 10_000
	}
	c := newCluster(t)
	nodes := []*node{c.node(t.TempDir()), c.node(t.TempDir()), c.node(t.TempDir())}
	scrape := func() (metrics int, took time.Duration) {
		took = time.Hour
		for range 5 { // the machine may be busy
			metrics = 0
			began := time.Now()
			for _, n := range nodes {
				metrics += len(n.gauges())
			}
			took = min(took, time.Since(began))
		}
		return metrics, took
	}
	before, short := scrape()
	var writers sync.WaitGroup
	var next atomic.Int64
	for i := range 48 {
		writers.Go(func() {
			for n := next.Add(1); n <= int64(runs); n = next.Add(1) {
				run, w := model.RunID{1, byte(n >> 8), byte(n)}, model.WriterID{1, byte(n >> 8), byte(n)}
				if err := writeRun(t.Context(), nodes[i%3].engine, run, w); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	writers.Wait()
	after, long := scrape()
	var taken uint64
	for _, n := range nodes {
		taken += n.member.Work().Ledger.Taken
	}
	if before != after || taken != uint64(runs) || before < 100 {
		t.Errorf("%d metrics of three servers without runs, %d with %d leases of %d runs", before, after, taken, runs)
	}
	if long > time.Second {
		t.Errorf("with %d runs three scrapes take %s", runs, long)
	}
	t.Logf("three scrapes without runs took %s, with %d runs %s", short, runs, long)
}

// writeRun opens a run and writes a point.
func writeRun(ctx context.Context, e store.Engine, run model.RunID, w model.WriterID) error {
	if err := e.PutOpen(ctx, run, model.Attempt{Number: 1}, w, nil); err != nil {
		return err
	}
	_, err := e.Append(ctx, &model.Batch{Run: run, Writer: w, Attempt: 1, First: 1, Last: 1, Groups: []model.RowGroup{{
		Axes: []model.AxisColumn{{Axis: model.AxisStep, Values: []int64{1}}}, TimeNs: []int64{1}, Seq: []uint64{1},
		Columns: []model.Column{{Series: model.NewSeriesKey("x", "", nil), Kind: model.KindFloat, Floats: []float64{1}}},
	}}})
	return err
}
