package ledger_test

import (
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	pgkit "github.com/kymogram/kymogram/internal/testkit/postgres"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse/ledger"
)

// change takes a run and gives a change of it with a block.
func change(t *testing.T, l *ledger.Ledger, run model.RunID, id ledger.BlockID) ([]*ledger.Change, []ledger.Block) {
	t.Helper()
	r, err := l.Take(t.Context(), run, true)
	if err != nil {
		t.Fatal(err)
	}
	c := &ledger.Change{
		Run: run, Epoch: r.Epoch, Last: 1, Points: 3, Batches: []ledger.Batch{{LSN: ledger.LSN(r.Epoch, 1)}},
		Attempts: []model.Attempt{{Number: 1}}, Marks: map[model.WriterID]uint64{{run[0]}: 3},
	}
	return []*ledger.Change{c}, []ledger.Block{{ID: id, Shard: 1, Runs: []model.RunID{run}}}
}

// A block that was given up never counts, and one that a commit has is not given up. A drain
// commits a block once.
func TestBlocks(t *testing.T) {
	t.Parallel()
	l, err := ledger.Open(t.Context(), pgkit.Any(t).URL(t), ledger.Options{Node: "a", Connections: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	late, timely := ledger.BlockID{1}, ledger.BlockID{2}
	changes, blocks := change(t, l, model.RunID{1}, late)
	gone, err := l.GiveUp(t.Context(), []ledger.BlockID{late})
	if err != nil || len(gone) != 1 {
		t.Fatalf("%v, %v", gone, err)
	}
	if _, err := l.Commit(t.Context(), changes, blocks); err == nil {
		t.Error("a block that was given up is committed")
	}
	if mark, _, err := l.Mark(t.Context(), model.WriterID{1}); mark != 0 || err != nil {
		t.Errorf("the mark is %d, %v", mark, err)
	}
	changes, blocks = change(t, l, model.RunID{2}, timely)
	if _, err := l.Commit(t.Context(), changes, blocks); err != nil {
		t.Fatal(err)
	}
	if gone, err = l.GiveUp(t.Context(), []ledger.BlockID{timely}); err != nil || len(gone) != 0 {
		t.Errorf("%v, %v", gone, err)
	}
	due, err := l.Blocks(t.Context(), 1, []ledger.BlockID{late, timely})
	if err != nil || len(due) != 1 || !due[timely].Turn || len(due[timely].Runs) != 1 {
		t.Errorf("%+v, %v", due, err)
	}
	points := func() uint64 {
		f, err := l.Facts(t.Context(), model.RunID{2})
		if err != nil {
			t.Fatal(err)
		}
		return f.Points
	}
	for i := range 2 {
		d, err := l.BeginDrain(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		err = l.CommitDrain(t.Context(), d, []ledger.BlockID{timely}, map[model.RunID]uint64{{2}: 3})
		if (err == nil) != (i == 0) || points() != 3 {
			t.Errorf("drain %d: %v, %d points", i+1, err, points())
		}
	}
	ended, err := l.BeginDrain(t.Context(), 1)
	if err == nil {
		err = l.EndDrain(t.Context(), ended)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := l.CommitDrain(t.Context(), ended, nil, nil); err == nil {
		t.Error("a drain that was ended commits")
	}
}
