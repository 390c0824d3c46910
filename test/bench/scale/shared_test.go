package main

import (
	"context"
	"flag"
	"fmt"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"golang.org/x/sync/errgroup"

	"github.com/kymogram/kymogram/internal/testkit/clickhouse"
	"github.com/kymogram/kymogram/internal/testkit/postgres"
)

var figures = flag.Int("figures", 0, "measure servers that share engines, with so many points of each shape; 2000000 takes some minutes")

// shape is a way to send points. What it costs is what its parts cost, see [price].
type shape struct {
	name string
	work amount
	send func(ctx context.Context, servers []*server) error
}

// amount is how much of everything was sent. A stream update is a series in a batch. Inserts are
// counted by ClickHouse: servers join batches that come at once.
type amount struct{ points, inserts, updates, runs int }

// engines are what servers share, and those of [engines.start].
type engines struct {
	t       *testing.T
	points  *clickhouse.Server
	db      *postgres.Server
	args    []string
	table   string
	servers []*server
	idle    spent // in a second without work
}

func newEngines(t *testing.T) *engines {
	t.Helper()
	e := &engines{t: t, points: clickhouse.Start(t), db: postgres.Start(t, "fsync = on")}
	files := s3mem.New()
	if err := files.CreateBucket("files"); err != nil {
		t.Fatal(err)
	}
	bucket := httptest.NewServer(gofakes3.New(files).Server())
	t.Cleanup(bucket.Close)
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("KYMOGRAM_ADMIN_KEY", strings.Repeat("0f", 20))
	e.table = e.points.Database(t)
	e.args = []string{"--store", "clickhouse://default@" + e.points.Addrs[0] + "/" + e.table, "--catalog", e.db.URL(t), "--blob", "s3://files/all?endpoint=" + bucket.URL}
	return e
}

// start adds servers until there are n.
func (e *engines) start(n int) []*server {
	e.t.Helper()
	for len(e.servers) < n {
		s := booted(e.t, e.args...)
		e.servers = append(e.servers, s)
	}
	return e.servers
}

func booted(t *testing.T, args ...string) *server {
	t.Helper()
	binary, err := filepath.Abs("../../../bin/kymogram")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{binary: binary, folder: t.TempDir(), args: args}
	if _, err := s.boot(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.kill)
	return s
}

// spent is the processor time of the servers, of ClickHouse and of PostgreSQL.
type spent struct{ servers, points, database time.Duration }

func (a spent) less(b spent) spent {
	return spent{a.servers - b.servers, a.points - b.points, a.database - b.database}
}

func (a spent) times(n float64) spent {
	of := func(d time.Duration) time.Duration { return time.Duration(float64(d) * n) }
	return spent{of(a.servers), of(a.points), of(a.database)}
}

func (e *engines) spent() (all spent) {
	e.t.Helper()
	for _, s := range e.servers {
		all.servers += used(e.t, s.cmd.Process.Pid)
	}
	all.points, all.database = used(e.t, e.points.PID()), used(e.t, e.db.PID())
	return all
}

// quiet waits until ClickHouse merges nothing any more: what merges take is part of the price.
func (e *engines) quiet() {
	e.t.Helper()
	for still := 0; still < 5; time.Sleep(time.Second) {
		if still++; strings.TrimSpace(e.points.Do(e.t, "SELECT count() FROM system.merges")) != "0" {
			still = 0
		}
	}
}

// used is the processor time of a process and of its children, in ticks of the kernel.
func used(t *testing.T, pid int) time.Duration {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	ticks := 0
	for _, name := range all {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it ended
		}
		of, rest, _ := strings.Cut(string(text), " ")
		fields := strings.Fields(rest[strings.LastIndex(rest, ")")+1:]) // state, parent, …
		for _, at := range []int{11, 12} {                              // its own time
			if n, _ := strconv.Atoi(fields[at]); of == strconv.Itoa(pid) || fields[1] == strconv.Itoa(pid) {
				ticks += n
			}
		}
		for _, at := range []int{13, 14} { // that of children that ended
			if n, _ := strconv.Atoi(fields[at]); of == strconv.Itoa(pid) {
				ticks += n
			}
		}
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// shapes send about n points each. Each part of the price is nearly all of one of them.
func shapes(n int) []shape {
	short := max(n/1_000, 10) // of 180 points
	return []shape{
		{"one series, batches of 10,000 points", amount{points: n, updates: n / 10_000, runs: 1}, func(ctx context.Context, s []*server) error {
			return loadLines(ctx, s, 1, 1, n, 10_000)
		}},
		{"10,000 series, a row a batch", amount{points: n, updates: n, runs: 1}, func(ctx context.Context, s []*server) error {
			return loadLines(ctx, s, 1, 10_000, n/10_000, 1)
		}},
		{"8 runs of one series, a point a batch", amount{points: 8 * (n / 8_000), updates: 8 * (n / 8_000), runs: 8}, func(ctx context.Context, s []*server) error {
			return loadLines(ctx, s, 8, 1, n/8_000, 1)
		}},
		{"short runs, one batch each", amount{points: 180 * short, updates: 9 * short, runs: short}, func(ctx context.Context, s []*server) error {
			return loadLines(ctx, s, short, 9, 20, 20)
		}},
	}
}

// training is what the price is checked with: runs of 50 series, 100 rows a batch.
func training(n int) shape {
	runs := max(n/100_000, 1)
	return shape{"runs of 50 series and 2,000 steps, 100 rows a batch", amount{points: runs * 100_000, updates: 1_000 * runs, runs: runs}, func(ctx context.Context, s []*server) error {
		return loadLines(ctx, s, runs, 50, 2_000, 100)
	}}
}

var project int

// loadLines sends runs to all servers, each run to one of them.
func loadLines(ctx context.Context, servers []*server, runs, series, steps, perBatch int) error {
	project++
	group, ctx := errgroup.WithContext(ctx)
	for i, s := range servers {
		if mine := (runs - i + len(servers) - 1) / len(servers); mine > 0 {
			group.Go(func() error {
				_, err := loadMany(ctx, s, fmt.Sprintf("p%d-%d", project, i), mine, series, steps, perBatch)
				return err
			})
		}
	}
	return group.Wait()
}

// TestShared prints what points cost at servers that share engines, next to a server with a data
// folder of its own. From four shapes it computes what a point, a batch, a stream update and a run
// cost, and checks the sum with another shape at three sizes.
func TestShared(t *testing.T) {
	if *figures == 0 {
		t.Skip("a measurement: -figures 2000000")
	}
	e, r := newEngines(t), &report{out: os.Stdout}
	alone := booted(t)
	e.start(1)
	if err := training(100_000).send(t.Context(), e.servers); err != nil { // warms
		t.Fatal(err)
	}
	e.quiet()
	before := e.spent()
	time.Sleep(20 * time.Second)
	e.idle = e.spent().less(before).times(1. / 20)
	r.line("a second without work", "", "%s", e.idle)
	var measured []price
	for _, s := range shapes(*figures) {
		measured = append(measured, e.measure(r, s, alone))
	}
	unit := solve(measured)
	r.line("a point costs", "servers, ClickHouse, PostgreSQL", "%s", unit.point)
	r.line("an insert costs", "", "%s", unit.insert)
	r.line("a stream update costs", "", "%s", unit.update)
	r.line("a run costs", "", "%s", unit.run)
	for _, n := range []int{*figures / 8, *figures, *figures * 8} {
		s := training(n)
		got := e.measure(r, s, alone)
		r.line("… by the formula", s.name, "%s; measured %s", unit.of(got.amount), got.spent)
	}
	e.growing(r)
	e.reads(r)
}

// price is what an amount took.
type price struct {
	amount
	spent
}

// measure sends a shape to the servers of the engines, then to one alone.
func (e *engines) measure(r *report, s shape, alone *server) price {
	e.t.Helper()
	e.quiet()
	before, bytes, inserts, begin := e.spent(), e.bytes(), e.inserts(), time.Now()
	if err := s.send(e.t.Context(), e.servers); err != nil {
		e.t.Fatal(err)
	}
	took := time.Since(begin)
	e.quiet()
	cost := price{s.work, e.spent().less(before).less(e.idle.times(time.Since(begin).Seconds()))}
	cost.inserts = e.inserts() - inserts
	per := func(d time.Duration) string {
		return fmt.Sprintf("%.2f", float64(d.Nanoseconds())/1e3/float64(s.work.points))
	}
	r.line(s.name, count(s.work.points)+" points", "µs a point: servers %s, ClickHouse %s, PostgreSQL %s; %.1f bytes a point in ClickHouse; %d inserts; %.0f points/s",
		per(cost.servers), per(cost.spent.points), per(cost.database), float64(e.bytes()-bytes)/float64(s.work.points), cost.inserts, float64(s.work.points)/took.Seconds())
	if alone != nil {
		own := used(e.t, alone.cmd.Process.Pid)
		if err := s.send(e.t.Context(), []*server{alone}); err != nil {
			e.t.Fatal(err)
		}
		r.line("… with a data folder", "", "µs a point: %s", per(used(e.t, alone.cmd.Process.Pid)-own))
	}
	return cost
}

// bytes are those of points on ClickHouse's disk.
func (e *engines) bytes() (n int) {
	n, _ = strconv.Atoi(strings.TrimSpace(e.points.Do(e.t, "SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND database = '"+e.table+"'")))
	return n
}

// inserts are those that ClickHouse counted since its start.
func (e *engines) inserts() (n int) {
	n, _ = strconv.Atoi(strings.TrimSpace(e.points.Do(e.t, "SELECT sum(value) FROM system.events WHERE event = 'InsertQuery'")))
	return n
}

// unit is the price of one of everything.
type unit struct{ point, insert, update, run spent }

// solve finds the price of each part in the order in which shapes are made of them. A part whose
// price is below what can be measured costs nothing.
func solve(p []price) (u unit) {
	for range 50 { // each shape has a little of the other parts
		u.point = rest(p[0], p[0].amount.points, unit{insert: u.insert, update: u.update, run: u.run})
		u.update = rest(p[1], p[1].updates, unit{point: u.point, insert: u.insert, run: u.run})
		u.insert = rest(p[2], p[2].inserts, unit{point: u.point, update: u.update, run: u.run})
		u.run = rest(p[3], p[3].runs, unit{point: u.point, insert: u.insert, update: u.update})
	}
	return u
}

func rest(p price, n int, others unit) spent {
	left := p.spent.less(others.of(p.amount))
	return spent{max(left.servers, 0) / time.Duration(n), max(left.points, 0) / time.Duration(n), max(left.database, 0) / time.Duration(n)}
}

// of is the formula.
func (u unit) of(a amount) (sum spent) {
	for _, part := range []struct {
		n    int
		cost spent
	}{{a.points, u.point}, {a.inserts, u.insert}, {a.updates, u.update}, {a.runs, u.run}} {
		all := part.cost.times(float64(part.n))
		sum = spent{sum.servers + all.servers, sum.points + all.points, sum.database + all.database}
	}
	return sum
}

func (a spent) String() string { return fmt.Sprintf("%s, %s, %s", a.servers, a.points, a.database) }

// growing sends the same to one, two and four servers.
func (e *engines) growing(r *report) {
	e.t.Helper()
	for _, n := range []int{1, 2, 4} {
		e.start(n)
		if err := training(100_000*n).send(e.t.Context(), e.servers); err != nil { // warms the new ones
			e.t.Fatal(err)
		}
		s := training(*figures)
		s.name = fmt.Sprintf("%d servers, %s", n, s.name)
		e.measure(r, s, nil)
	}
}

// reads asks for buckets of a long series and for last values of many series.
func (e *engines) reads(r *report) {
	e.t.Helper()
	s := e.servers[0]
	if err := loadLong(e.t.Context(), s, 5**figures); err != nil {
		e.t.Fatal(err)
	}
	if _, err := loadWide(e.t.Context(), s, "wide", 10_000); err != nil {
		e.t.Fatal(err)
	}
	for _, q := range []struct {
		project, run, what, path string
		query                    url.Values
		want                     string
	}{
		{"long", fmt.Sprintf("long-%d", 5**figures), "1,000 buckets of " + count(5**figures) + " points", "/buckets", url.Values{"metric": {"loss"}, "n": {"1000"}}, `"mean"`},
		{"wide", wideName(10_000), "last values of 10,000 series", "/series", url.Values{"limit": {"10000"}}, `"last":{"step":1`},
	} {
		found, err := s.runs(e.t.Context(), workspace, q.project, url.Values{"name": {q.run}})
		if err != nil || len(found) != 1 {
			e.t.Fatal(q.run, len(found), err)
		}
		e.quiet()
		const times = 5
		var least time.Duration
		before := e.spent()
		for range times {
			begin := time.Now()
			text, err := s.get(e.t.Context(), "/api/v1/runs/"+found[0].ID+q.path, q.query)
			if err != nil || !strings.Contains(string(text), q.want) {
				e.t.Fatalf("%s: %v, %.200s", q.what, err, text)
			}
			if took := time.Since(begin); least == 0 || took < least {
				least = took
			}
		}
		cost := e.spent().less(before)
		r.line(q.what, "", "servers %s, ClickHouse %s, PostgreSQL %s; by the clock %s at least", cost.servers/times, cost.points/times, cost.database/times, milli(least))
	}
}
