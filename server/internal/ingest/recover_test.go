package ingest_test

import (
	"context"
	"iter"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
)

// Recover tells the test when the background compared.
func (f *flaky) Recover(ctx context.Context, kept iter.Seq[model.KeptRun], now time.Time) ([]model.RunID, error) {
	back, err := f.DB.Recover(ctx, kept, now)
	if f.compared != nil {
		f.compared()
	}
	return back, err
}

// loseCatalog restarts with an empty catalog.
func (n *node) loseCatalog() {
	n.t.Helper()
	n.halt()
	files, err := filepath.Glob(filepath.Join(n.dir, "catalog.db*"))
	if err != nil || len(files) == 0 {
		n.t.Fatalf("the catalog's files: %v, %v", files, err)
	}
	for _, f := range files {
		if err := os.RemoveAll(f); err != nil {
			n.t.Fatal(err)
		}
	}
	n.boot()
}

// background lets Run work until it has compared.
func (n *node) background() {
	n.t.Helper()
	ctx, cancel := context.WithCancel(n.t.Context())
	n.catalog.compared = cancel
	if err := n.Run(ctx); err != nil {
		n.t.Fatal(err)
	}
	n.catalog.compared = nil
}

func TestARunThatTheCatalogLostComesBack(t *testing.T) {
	n := start(t)
	s := n.join(request(1))
	run := s.Opened.Run
	n.append(s, points(1, 0, 1))
	other := request(2)
	other.RunName = "gone"
	gone := n.join(other)
	n.append(gone, points(1, 0))
	if err := n.DeleteRun(t.Context(), gone.Opened.Run, true); err != nil {
		t.Fatal(err)
	}
	n.loseCatalog()
	n.background()
	d := n.detail(run)
	if d.Workspace != catalog.Recovered || d.Status != model.StatusLost || len(d.Writers) != 1 || len(d.Attempts) != 1 {
		t.Errorf("the run: %+v", d)
	}
	equal(t, "steps", []int64{0, 1}, n.steps(run, "loss"))
	if _, err := n.catalog.Lookup(t.Context(), gone.Opened.Run); model.CodeOf(err) != model.CodeNotFound {
		t.Errorf("a purged run: %v", err)
	}
	if c := n.news.changes[len(n.news.changes)-1]; c.Run != run || c.Project != catalog.Recovered {
		t.Errorf("readers heard of %+v", c)
	}
	n.restart()
	n.background()
	if c, err := n.catalog.Nameless(t.Context()); c != 1 || err != nil {
		t.Errorf("%d nameless runs after the next start, %v", c, err)
	}
}

// A client may come back before the background has compared.
func TestAWriterFindsItsRunAgain(t *testing.T) {
	n := start(t)
	first := n.join(request(1))
	n.append(first, points(1, 0, 1))
	second := n.join(request(2)) // of the same job: its local ULID is only an alias
	run := second.Opened.Run
	equal(t, "run", first.Opened.Run, run)
	n.loseCatalog()
	n.clock.advance(time.Minute)
	s := n.join(request(2))
	equal(t, "run", run, s.Opened.Run)
	n.append(s, points(1, 2))
	s = n.join(request(1))
	if o := s.Opened; o.Run != run || o.Mark != 2 || o.RunName != request(1).RunName || o.Project != request(1).Project {
		t.Errorf("opened: %+v", o)
	}
	n.append(s, points(3, 3))
	equal(t, "steps", []int64{0, 1, 2, 3}, n.steps(run, "loss"))
	if d := n.detail(run); d.Name != request(1).RunName || d.Status != model.StatusRunning {
		t.Errorf("the run: %+v", d.Run)
	}
}

func TestUpdatesOfALostRunAreKept(t *testing.T) {
	n := start(t)
	s := n.join(request(1))
	n.catalog.down.Store(true)
	batch := updates(1, model.Update{Op: model.OpAddTags, Tags: []string{"kept"}})
	if _, err := s.Append(t.Context(), batch); err == nil {
		t.Fatal("acked without the catalog")
	}
	n.loseCatalog()
	equal(t, "tags", []string{"kept"}, n.detail(s.Opened.Run).Tags)
}
