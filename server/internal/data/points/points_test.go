package points_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	chkit "github.com/kymogram/kymogram/internal/testkit/clickhouse"
	pgkit "github.com/kymogram/kymogram/internal/testkit/postgres"
	"github.com/kymogram/kymogram/internal/wal"
	"github.com/kymogram/kymogram/server/internal/data/points"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse"
	"github.com/kymogram/kymogram/server/internal/store/local"
	"github.com/kymogram/kymogram/server/internal/store/storetest"
)

// rig is a store, and folders.
type rig struct {
	testing.TB
	points *chkit.Server
	ledger *pgkit.Server
	config clickhouse.Config
	schema string
	tables string
	folder string
}

func newRig(t testing.TB) *rig {
	t.Helper()
	r := &rig{TB: t, points: chkit.Any(t), ledger: pgkit.Any(t)}
	database, url := r.points.Database(t), r.ledger.URL(t)
	_, r.schema, _ = strings.Cut(url, "search_path=")
	r.tables = database + ".points"
	r.config = clickhouse.Config{
		Points: "clickhouse://" + strings.Join(r.points.Addrs, ",") + "/" + database, Ledger: url, Node: "a",
		SeriesPerRunLimit: storetest.SeriesLimit, Every: time.Nanosecond, Hold: 20 * time.Millisecond,
	}
	return r
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// serve opens the engine of a server.
func (r *rig) serve() *clickhouse.Engine {
	r.Helper()
	e, err := clickhouse.Open(r.Context(), r.config)
	r.must(err)
	return e
}

func (r *rig) local() *local.Engine {
	r.Helper()
	e, err := local.Open(r.Context(), local.Config{Dir: filepath.Join(r.folder, "store"), Marks: filepath.Join(r.folder, "marks"), SeriesPerRunLimit: storetest.SeriesLimit, CompactFiles: 2})
	r.must(err)
	return e
}

// out copies the folder into the store, beside who writes to it where it is live.
func (r *rig) out(live bool) points.Copied {
	r.Helper()
	to, err := clickhouse.OpenMover(r.Context(), r.config, nil)
	r.must(err)
	defer to.Close()
	folder, err := local.OpenFolder(r.Context(), wal.Looking{}, filepath.Join(r.folder, "store"), filepath.Join(r.folder, "marks"))
	r.must(err)
	defer folder.Close()
	from, err := folder.Moment(r.Context(), live)
	r.must(err)
	copied, err := points.Out(r.Context(), from, to, func(int64) {})
	r.must(err)
	return copied
}

// back copies the store into a new folder, and compares.
func (r *rig) back() {
	r.Helper()
	from, err := clickhouse.OpenMover(r.Context(), r.config, nil)
	r.must(err)
	defer from.Close()
	r.folder = r.TempDir()
	to := r.local()
	_, err = points.Back(r.Context(), from, to, func(int64) {})
	r.must(err)
	r.must(to.Close())
	r.compare(from)
}

// compare adds up all points of the folder and of the store.
func (r *rig) compare(with *clickhouse.Engine) {
	r.Helper()
	folder, err := local.OpenFolder(r.Context(), wal.Looking{}, filepath.Join(r.folder, "store"), filepath.Join(r.folder, "marks"))
	r.must(err)
	defer folder.Close()
	filled, err := folder.Moment(r.Context(), false)
	r.must(err)
	r.must(points.Compare(r.Context(), filled, with, func(int64) {}))
}

// counted is how many rows count. It knows nothing of the engine but the two tables.
func (r *rig) counted() string {
	r.Helper()
	conditions := []string{"0"}
	for line := range strings.Lines(r.ledger.Do(r, "SELECT encode(s.run, 'hex'), s.epoch, s.last FROM "+r.schema+".ledger_spans s JOIN "+r.schema+".ledger_runs r ON r.id = s.run WHERE NOT r.deleted")) {
		var run string
		var epoch, last uint64
		_, err := fmt.Sscanf(strings.ReplaceAll(strings.TrimSpace(line), "|", " "), "%s %d %d", &run, &epoch, &last)
		r.must(err)
		conditions = append(conditions, fmt.Sprintf("(hex(run) = '%s' AND lsn > %d AND lsn <= %d)", strings.ToUpper(run), epoch<<40, epoch<<40+last))
	}
	return strings.TrimSpace(r.points.Do(r, "SELECT countIf("+strings.Join(conditions, " OR ")+") FROM "+r.tables))
}

func upkeep(ctx context.Context, e store.Engine, what int) error {
	engine, here := e.(*local.Engine)
	switch {
	case !here || what%4 == 3:
		return nil
	case what%4 == 2:
		return engine.Compact(ctx, false)
	}
	return engine.Flush(ctx)
}

// TestMovesOfAHistory: a random history begins in a folder, is copied while it goes on, goes on in
// the store, and then in a new folder. Each of them answers as the oracle; the store is asked with
// make test-cluster only.
func TestMovesOfAHistory(t *testing.T) {
	t.Parallel()
	seeds, steps, long := 1, 24, os.Getenv("CLUSTER") != ""
	if long {
		seeds, steps = 12, 150
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := newRig(t)
			r.folder = t.TempDir()
			script := storetest.NewScript(uint64(seed) + 7)
			h := &storetest.Harness{Engine: r.local(), Upkeep: func(e store.Engine, what int) error { return upkeep(t.Context(), e, what) }}
			run := func(n int, live bool) {
				t.Helper()
				for i := range n {
					r.must(script.Step(t.Context(), h))
					if live && i%(n/3) == 0 {
						r.out(true)
					}
				}
			}
			check := func(where string) {
				t.Helper()
				if err := script.Moment().Check(t.Context(), h); err != nil {
					t.Fatalf("%s: %v", where, err)
				}
			}
			run(steps, true)
			r.out(true)
			want := fmt.Sprint(h.Engine.Stats().Points)
			r.must(h.Engine.Close())
			r.out(false)
			if again := r.out(false); again.Changed != 0 || again.Points != 0 {
				t.Errorf("nothing is new, and %+v was copied", again)
			}
			if got := r.counted(); got != want {
				t.Errorf("%s rows count, and the folder had %s points", got, want)
			}
			h.Engine = r.serve()
			ask := func() { // thousands of times
				if long {
					check("in the store")
				}
			}
			ask()
			run(steps/3, false)
			r.must(h.Engine.Close())
			r.back()
			h.Engine = r.local()
			check("back in a folder")
			run(steps/3, true) // into the store that has the rest
			r.must(h.Engine.Close())
			r.out(false)
			e := r.serve()
			defer e.Close()
			r.compare(e)
			h.Engine = e
			ask()
		})
	}
}

// TestConformanceAcrossMoves is the suite of engines, with a move wherever an engine is opened
// anew.
func TestConformanceAcrossMoves(t *testing.T) {
	if os.Getenv("CLUSTER") == "" {
		t.Skip("it takes minutes: make test-cluster")
	}
	t.Parallel()
	storetest.Run(t, func(t testing.TB) *storetest.Harness {
		r := newRig(t)
		r.folder = t.TempDir()
		h := &storetest.Harness{Engine: r.local(), Cases: 6, Upkeep: func(e store.Engine, what int) error { return upkeep(t.Context(), e, what) }}
		h.Reopen = func() (store.Engine, error) {
			_, here := h.Engine.(*local.Engine)
			if here {
				r.out(true)
			}
			r.must(h.Engine.Close())
			if here {
				r.out(false)
				return r.serve(), nil
			}
			r.back()
			return r.local(), nil
		}
		return h
	})
}

// many fills the folder with runs of some points.
func (r *rig) many(runs, rows int) {
	r.Helper()
	e := r.local()
	for i := range runs {
		run, w := model.RunID{1, byte(i >> 8), byte(i)}, model.WriterID{1, byte(i >> 8), byte(i)}
		r.must(e.PutOpen(r.Context(), run, model.Attempt{Number: 1}, w, nil))
		g := model.RowGroup{Axes: []model.AxisColumn{{Axis: model.AxisStep}}, Columns: []model.Column{{Series: model.NewSeriesKey("x", "", nil), Kind: model.KindFloat}, {Series: model.NewSeriesKey("y", "", nil), Kind: model.KindInt}}}
		for n := range rows {
			g.Axes[0].Values, g.TimeNs, g.Seq = append(g.Axes[0].Values, int64(n)), append(g.TimeNs, int64(n)), append(g.Seq, uint64(n)+1)
			g.Columns[0].Floats, g.Columns[1].Ints = append(g.Columns[0].Floats, float64(n)/3), append(g.Columns[1].Ints, int64(n*i))
		}
		_, err := e.Append(r.Context(), &model.Batch{Run: run, Writer: w, Attempt: 1, First: 1, Last: uint64(rows), Groups: []model.RowGroup{g}})
		r.must(err)
	}
	r.must(e.Close())
}

// TestKilledMoves kills copies again and again. What counts in the end are the points of the
// folder, each once.
func TestKilledMoves(t *testing.T) {
	t.Parallel()
	runs, kills := 400, 3
	if os.Getenv("CLUSTER") != "" {
		runs, kills = 6000, 60
	}
	r := newRig(t)
	r.folder = t.TempDir()
	r.many(runs, 40)
	env := append(os.Environ(), "MOVE_CHILD="+r.folder, "MOVE_STORE="+r.config.Points, "MOVE_LEDGER="+r.config.Ledger)
	killed := 0
	for i := range kills {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestMoveChild$")
		child.Env = env
		r.must(child.Start())
		stop := time.AfterFunc(time.Duration(i+1)*1500*time.Millisecond/time.Duration(kills), func() { _ = child.Process.Kill() })
		if child.Wait() != nil {
			killed++
		}
		stop.Stop()
	}
	r.out(false)
	e := r.serve()
	defer e.Close()
	r.compare(e)
	if got, want := r.counted(), fmt.Sprint(runs*40*2); got != want || killed == 0 {
		t.Errorf("%s rows count, want %s; %d of %d were killed", got, want, killed, kills)
	}
	if all := r.points.Do(t, "SELECT count() FROM "+r.tables); all == r.counted() {
		t.Logf("no kill left rows that do not count")
	}
}

// TestMoveChild is the process that is killed.
func TestMoveChild(t *testing.T) {
	folder := os.Getenv("MOVE_CHILD")
	if folder == "" {
		t.Skip("it is a part of TestKilledMoves")
	}
	r := &rig{TB: t, folder: folder, config: clickhouse.Config{Points: os.Getenv("MOVE_STORE"), Ledger: os.Getenv("MOVE_LEDGER"), Node: "a", Hold: 20 * time.Millisecond}}
	r.out(false)
}
