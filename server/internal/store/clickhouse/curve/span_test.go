package curve_test

import (
	"math"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse/curve"
)

// A run that changed hands all the time, with rows that do not count after each time, is read.
func TestManySpans(t *testing.T) {
	t.Parallel()
	tables := open(t)
	const spans = 10_000
	run := model.RunID{1}
	batch, err := tables.db.PrepareBatch(t.Context(), "INSERT INTO "+tables.name+" ("+strings.Join(curve.Columns(), ", ")+")")
	if err != nil {
		t.Fatal(err)
	}
	h := &history{facts: curve.Facts{Run: run, Attempts: []model.Attempt{{Number: 1}}}, points: map[store.SeriesID][]point{}}
	f := &fixture{tables: tables, batch: batch, run: h}
	key := model.NewSeriesKey("m", "", nil)
	h.series = []curve.Series{{ID: 1, Key: key, Text: key.String(), Kind: model.KindFloat}}
	for epoch := range uint64(spans) {
		lsn := (epoch+1)<<40 + 1
		for n := range uint64(2) { // the second is of a commit that failed
			p := point{axes: map[model.Axis]int64{model.AxisStep: int64(epoch)}, time: int64(epoch), writer: model.WriterID{1}, seq: epoch + 1, attempt: 1, arrival: epoch + n + 1, value: store.Number{Float: float64(epoch) + float64(n)*spans}}
			if f.insert(t, &h.series[0], &p, lsn+n); n == 0 {
				h.points[1] = append(h.points[1], p)
			}
		}
		h.facts.Spans = append(h.facts.Spans, curve.Span{First: lsn, Last: lsn})
	}
	h.facts.Spans[0].First = 0 // spans that were merged
	if err := batch.Send(); err != nil {
		t.Fatal(err)
	}
	for _, known := range []bool{false, true} {
		if h.series[0].Known = known; known {
			h.series[0].Streams = []curve.Stream{{Writer: model.WriterID{1}, Attempt: 1, Tally: curve.Tally{
				Count: spans, Rules: 1, Some: 1, Every: 1, High: spans - 1, MaxTime: spans - 1, End: curve.End{Step: spans - 1, Time: spans - 1, Value: math.Float64bits(spans - 1)},
			}}}
		}
		c := &comparison{ledger: ledger{run: h}, reader: curve.New(tables.db, tables.name, ledger{run: h}), limit: spans / 2}
		scan := store.ScanRequest{Run: run, Series: 1, Axis: model.AxisStep, From: math.MinInt64, To: math.MaxInt64, Limit: c.limit}
		if err := c.compareScan(t, scan, h.series[0], h.points[1]); err != nil {
			t.Fatal(err)
		}
		b := store.BucketsRequest{Run: run, Series: 1, Axis: model.AxisStep, From: math.MinInt64, To: math.MaxInt64, N: 100}
		if err := c.compareBuckets(t, b, model.KindFloat, h.points[1]); err != nil {
			t.Fatal(err)
		}
		list, _, err := c.reader.ListSeries(t.Context(), run, store.SeriesFilter{Limit: 1})
		if err != nil || list[0].Count != spans || *list[0].Last.Step != spans-1 || list[0].Last.Value.Float != spans-1 {
			t.Fatalf("%+v, %v", list, err)
		}
	}
}
