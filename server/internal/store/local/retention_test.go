package local_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store/local"
)

// du is what the segments take on the disk.
func du(t *testing.T, dir string) (n int64) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, "segments"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Ext(e.Name()) == ".kgs" {
			n += info.Size()
		}
	}
	return n
}

// TestDeletionFreesBytes deletes two of three equal runs: their bytes are gone
// after the next compaction, and those of the third are as they were.
func TestDeletionFreesBytes(t *testing.T) {
	dir := t.TempDir()
	e, err := local.Open(t.Context(), local.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	const records = 1500
	for i := range byte(3) {
		run := model.RunID{i + 1}
		if err := e.PutAttempt(t.Context(), run, model.Attempt{Number: 1}); err != nil {
			t.Fatal(err)
		}
		b := oneRow(run, model.WriterID{i + 1}, 1)
		b.Last, b.Updates = records, nil
		g := &b.Groups[0]
		for seq := uint64(2); seq <= records; seq++ {
			g.Seq, g.TimeNs = append(g.Seq, seq), append(g.TimeNs, int64(seq))
			g.Axes[0].Values = append(g.Axes[0].Values, int64(seq)-1)
			g.Columns[0].Floats = append(g.Columns[0].Floats, 1/float64(seq))
		}
		if _, err := e.Append(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := du(t, dir)
	if live := e.LiveBytes(); live != before {
		t.Fatalf("%d bytes are live, %d on the disk", live, before)
	}
	for i := range byte(2) {
		if err := e.DeleteRun(t.Context(), model.RunID{i + 1}); err != nil {
			t.Fatal(err)
		}
	}
	if live, now := e.LiveBytes(), du(t, dir); now != before || live > before/2 {
		t.Fatalf("%d of %d bytes are live before the compaction", live, now)
	}
	if err := e.Compact(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	after := du(t, dir)
	t.Logf("du: %d bytes before the deletion of 2 of 3 runs, %d after the compaction", before, after)
	if after > before/2 || e.LiveBytes() > after {
		t.Fatalf("%d of %d bytes are left of one run in three", after, before)
	}
	for i := range byte(2) {
		if mark, err := e.Mark(t.Context(), model.WriterID{i + 1}); err != nil || mark != records {
			t.Fatalf("the mark of a deleted run's writer is %d: %v", mark, err)
		}
	}
	stats, err := e.RunStats(t.Context(), model.RunID{3})
	if err != nil || stats.Stored != records {
		t.Fatalf("%+v, %v", stats, err)
	}
}
