package postgres_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	server "github.com/kymogram/kymogram/internal/testkit/postgres"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/catalog/postgres"
	"github.com/kymogram/kymogram/server/internal/catalog/sqlite"
	"github.com/kymogram/kymogram/server/internal/catalog/tables"
)

var (
	figures = flag.Int("figures", 0, "print figures of a catalog with so many runs, beside SQLite's in the same run")
	tells   = flag.Bool("tells", false, "the server of the figures tells others of each open")
)

// TestFigures compares PostgreSQL with SQLite: go test -run TestFigures -figures 100000 -v -timeout 1h. Both
// get the same calls one after the other, so that what else the machine does meets both.
func TestFigures(t *testing.T) {
	if *figures == 0 {
		t.Skip("-figures N")
	}
	s := server.Start(t, "fsync = on", "synchronous_commit = on")
	file, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "catalog.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	b := &besides{t: t, postmaster: postmaster(t, s), sqlite: file, postgres: openAt(t, s.URL(t))}
	t.Logf("%-34s %12s %12s %8s  %s", "", "SQLite", "PostgreSQL", "ratio", "CPU ms each: SQLite; PostgreSQL ours + its own")
	if *tells {
		listen(t, b.postgres)
	}
	for _, writers := range []int{1, 8, 64} {
		for _, attributes := range []int{0, 10} {
			b.each(fmt.Sprintf("opens/s, %d at once, %d attributes", writers, attributes), writers, 2*time.Second, func(c catalog.Catalog, n int) error {
				o, err := c.Open(t.Context(), figureRun(fmt.Sprintf("o%d-%d", writers, attributes), n, attributes), time.Now())
				if db, ok := c.(*postgres.DB); ok && err == nil && *tells {
					db.Publish(model.RunChange{Run: o.Run, Workspace: o.Workspace, Project: o.Project})
				}
				return err
			})
		}
	}
	b.postgres = openAt(t, s.URL(t))
	b.fill(*figures)
	list := catalog.RunFilter{Workspace: "w", Project: "f", Limit: 100}
	lists := func(what string, f catalog.RunFilter) {
		b.each(what, 1, 2*time.Second, func(c catalog.Catalog, _ int) error {
			_, _, err := c.ListRuns(t.Context(), f)
			return err
		})
	}
	lists("first page/s", list)
	configs := list
	configs.Configs = true
	lists("first page with configs/s", configs)
	filtered := list
	filtered.Query = "config/3<0.1"
	lists("filtered, newest first/s", filtered)
	filtered.Sort = "config/4"
	lists("filtered, by an attribute/s", filtered)
	best := list
	best.Query, best.Sort = "loss<500", "min(loss)"
	lists("filtered and sorted by a metric/s", best)
	word := list
	word.Query = "run99"
	lists("a word in the names/s", word)
	whole := configs
	whole.Limit = 1000
	b.each("all pages with configs/s", 1, time.Second, func(c catalog.Catalog, _ int) error {
		for f := whole; ; {
			_, next, err := c.ListRuns(t.Context(), f)
			if f.Cursor = next; err != nil || next == "" {
				return err
			}
		}
	})
	b.each("names found/s", 1, time.Second, func(c catalog.Catalog, n int) error {
		_, err := c.NamedRuns(t.Context(), catalog.NameFilter{Name: fmt.Sprint("shown ", n%*figures), Limit: 10})
		return err
	})
	b.each("near names/s", 1, time.Second, func(c catalog.Catalog, n int) error {
		_, err := c.RunsNear(t.Context(), catalog.NameFilter{Name: fmt.Sprint("shwn ", n), Limit: 20})
		return err
	})
}

func figureRun(of string, n, attributes int) model.OpenRequest {
	r := model.OpenRequest{
		Writer: model.WriterID([]byte(fmt.Sprintf("%-8.8s%08d", of, n))), Workspace: "w", Project: of, RunName: fmt.Sprint("run", n), OrchestrationID: fmt.Sprint("job", n),
		LocalRun: model.RunID([]byte(fmt.Sprintf("%-8.8s%08d", of, n))), DisplayName: fmt.Sprint("shown ", n), Host: "host", PID: 1, SDK: "test/1",
	}
	for i := range attributes {
		r.Initial = append(r.Initial, model.Update{Op: model.OpSetAttribute, Path: fmt.Sprint("config/", i), Value: model.FloatValue(float64(n*(i+1)%1000) / 1000)})
	}
	return r
}

type besides struct {
	t          *testing.T
	postmaster int
	sqlite     *sqlite.DB
	postgres   *postgres.DB
}

// fill gives both the same runs: SQLite's are moved.
func (b *besides) fill(runs int) {
	var group sync.WaitGroup
	next := atomic.Int64{}
	for range 64 {
		group.Go(func() {
			for n := int(next.Add(1)); n <= runs; n = int(next.Add(1)) {
				o, err := b.sqlite.Open(b.t.Context(), figureRun("f", n, 10), time.Now())
				if err == nil {
					value := *model.FloatValue(float64(n%1000) + 0.5)
					err = b.sqlite.PutSummaries(b.t.Context(), o.Run, []catalog.Summary{{Metric: "loss", Points: 1, Last: value, Min: value, Max: value}}, time.Now())
				}
				if err != nil {
					b.t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	began := time.Now()
	rows := int64(0)
	err := b.sqlite.Hold(b.t.Context(), func(from tables.Source) error {
		return b.postgres.Arrive(b.t.Context(), "figures", "figures", func(to tables.Target, all []tables.Table) error {
			moved, err := tables.Move(b.t.Context(), from, to, all, func(int64) {})
			for _, m := range moved {
				rows += m.Rows
			}
			return err
		})
	})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Logf("moved %d rows in %.1f s", rows, time.Since(began).Seconds())
}

// each calls do for a while and prints how often a second it was, and what CPU each call took.
func (b *besides) each(what string, workers int, long time.Duration, do func(c catalog.Catalog, n int) error) {
	b.t.Helper()
	var rate [2]float64
	var cpu, its [2]float64
	for i, c := range []catalog.Catalog{b.sqlite, b.postgres} {
		if err := do(c, 99_999_999); err != nil { // statements are prepared
			b.t.Fatalf("%s: %v", what, err)
		}
		ours, others, began := ownCPU(), b.postgresCPU(), time.Now()
		var n atomic.Int64
		var group sync.WaitGroup
		for range workers {
			group.Go(func() {
				for time.Since(began) < long {
					if err := do(c, int(n.Add(1))); err != nil {
						b.t.Error(what, err)
						return
					}
				}
			})
		}
		group.Wait()
		count := float64(n.Load())
		rate[i] = count / time.Since(began).Seconds()
		cpu[i], its[i] = (ownCPU()-ours)*1000/count, (b.postgresCPU()-others)*1000/count
	}
	b.t.Logf("%-34s %12.1f %12.1f %7.2fx  %.2f; %.2f + %.2f", what, rate[0], rate[1], rate[1]/rate[0], cpu[0], cpu[1], its[1])
}

func ownCPU() float64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // it has no reason to fail
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

func postmaster(t *testing.T, s *server.Server) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.Data(), "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(first)
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// postgresCPU adds up the seconds of PostgreSQL's processes, those that ended too.
func (b *besides) postgresCPU() (seconds float64) {
	all, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is valid
	for _, name := range all {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(text), ") ")
		f := strings.Fields(rest)
		if len(f) < 15 || f[1] != strconv.Itoa(b.postmaster) && filepath.Base(filepath.Dir(name)) != strconv.Itoa(b.postmaster) {
			continue
		}
		fields := f[11:13] // utime, stime
		if f[1] != strconv.Itoa(b.postmaster) {
			fields = f[11:15] // and those of its children that ended
		}
		for _, text := range fields {
			ticks, _ := strconv.ParseFloat(text, 64)
			seconds += ticks / 100
		}
	}
	return seconds
}
