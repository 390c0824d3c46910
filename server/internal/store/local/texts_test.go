package local_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/local"
)

// TestListsReadNoTexts lists series of long texts, in memory and in segments. A list
// may not read or keep them: the end of a curve alone has its last one.
func TestListsReadNoTexts(t *testing.T) {
	e := must(local.Open(t.Context(), local.Config{Dir: t.TempDir()}))
	defer e.Close()
	const series, points, size = 16, 3, 1 << 20
	run := model.RunID{1}
	if err := e.PutAttempt(t.Context(), run, model.Attempt{Number: 1}); err != nil {
		t.Fatal(err)
	}
	text := func(i, point int) string { return strings.Repeat(fmt.Sprint(i%10, point), size/2) }
	for point := range points {
		for i := range series {
			must(e.Append(t.Context(), &model.Batch{Run: run, Writer: model.WriterID(run), Attempt: 1, Groups: []model.RowGroup{{TimeNs: []int64{int64(point)}, Columns: []model.Column{
				{Series: model.NewSeriesKey(fmt.Sprintf("note/%02d", i), "", nil), Kind: model.KindText, Texts: []string{text(i, point)}},
			}}}}))
		}
	}
	check := func(where string) {
		t.Helper()
		list(t, e, run, series) // what is made once
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		list(t, e, run, series)
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got > size {
			t.Errorf("%s: a list of %d series allocates %d KiB", where, series, got>>10)
		}
		page, _, err := e.ListSeries(t.Context(), run, store.SeriesFilter{Limit: series})
		if err != nil {
			t.Fatal(err)
		}
		for i := range page {
			end := must(e.Curve(t.Context(), store.CurveRequest{Run: run, Series: page[i].ID}))
			if string(end.Last.Value.Doc) != text(i, points-1) {
				t.Errorf("%s: %s ends with a text of %d bytes", where, page[i].Key.Metric, len(end.Last.Value.Doc))
			}
		}
	}
	check("in memory")
	if err := e.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := heap()
	check("in segments")
	if got := int64(heap()) - int64(before); got > series*size/2 { // a pool may keep what one read needs
		t.Errorf("%d KiB are kept", got>>10)
	}
}
