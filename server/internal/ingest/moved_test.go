package ingest_test

import (
	"testing"

	"github.com/kymogram/kymogram/internal/model"
)

// TestRunsThatAnotherServerMoved: a run that another server of the catalog deletes or restores
// is looked up when that is heard of: by its id, or with all others after a loss. So is one that
// is opened in between.
func TestRunsThatAnotherServerMoved(t *testing.T) {
	n := start(t)
	s := n.join(request(1))
	run := s.Opened.Run
	seq := uint64(0)
	refused := func() bool {
		seq++
		return len(n.append(s, points(seq, int64(seq))).Refused) > 0
	}
	elsewhere := func(deleted bool) {
		t.Helper()
		err := n.catalog.Restore(t.Context(), run)
		if deleted {
			err = n.catalog.Trash(t.Context(), run, n.clock.Now())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for i, heard := range [][]model.RunID{{{9}, run}, nil, {run}} {
		for _, deleted := range []bool{true, false} {
			elsewhere(deleted)
			if err := n.Moved(t.Context(), heard); err != nil {
				t.Fatal(err)
			}
			if refused() != deleted {
				t.Errorf("%d: deleted %v", i, deleted)
			}
		}
	}
	// Heard of between the catalog's answer to an open and the run's state.
	s.Close()
	n.catalog.opened = func() {
		elsewhere(true)
		if err := n.Moved(t.Context(), []model.RunID{run}); err != nil {
			t.Error(err)
		}
	}
	if s = n.join(request(1)); !refused() {
		t.Error("points of a run that was deleted during the open are taken")
	}
}
