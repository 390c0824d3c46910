package local_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wal"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/local"
)

// TestMergeOfTexts merges texts that lie in the file in a thousandth of their bytes. A merge
// may not read them all at once, so it allocates much less than they have; all are there.
func TestMergeOfTexts(t *testing.T) {
	alone(t)
	e := must(local.Open(t.Context(), local.Config{Dir: t.TempDir(), FS: hasty{wal.OS{}}, MemoryBytes: 64 << 20}))
	defer e.Close()
	run := model.RunID{1}
	if err := e.PutAttempt(t.Context(), run, model.Attempt{Number: 1}); err != nil {
		t.Fatal(err)
	}
	const segments, rows, size = 12, 12, 1 << 20
	key := model.NewSeriesKey("text", "", nil)
	for n := range segments {
		g := model.RowGroup{Unique: model.UniqueTime, Columns: []model.Column{{Series: key, Kind: model.KindText}}}
		for i := range rows {
			g.TimeNs = append(g.TimeNs, int64(n*rows+i))
			g.Columns[0].Texts = append(g.Columns[0].Texts, strings.Repeat(string(rune('a'+n)), size-i))
		}
		must(e.Append(t.Context(), &model.Batch{Run: run, Writer: model.WriterID(run), Attempt: 1, Groups: []model.RowGroup{g}}))
		if err := e.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := e.Compact(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > segments*rows*size/2 {
		t.Errorf("a merge of %d MiB of text allocates %d MiB", segments*rows*size>>20, got>>20)
	}
	found := readTexts(t, e, run)
	for i, text := range found {
		if want := size - i%rows; len(text) != want || strings.Trim(text, string(rune('a'+i/rows))) != "" {
			t.Fatalf("text %d has %d bytes", i, len(text))
		}
	}
	if len(found) != segments*rows {
		t.Errorf("%d texts of %d", len(found), segments*rows)
	}
}

// readTexts reads the first series of a run. No page may have much more than 8 MiB.
func readTexts(t *testing.T, e *local.Engine, run model.RunID) (out []string) {
	t.Helper()
	q := store.ScanRequest{Run: run, Axis: model.AxisTime, To: 1 << 40, Limit: 1000}
	for {
		page := must(e.Scan(t.Context(), q))
		size := 0
		for _, text := range page.Values.Texts {
			size += len(text)
		}
		if size > 8<<20 {
			t.Errorf("a page of %d MiB of text", size>>20)
		}
		out = append(out, page.Values.Texts...)
		if q.After = page.Next; q.After == nil {
			return out
		}
	}
}
