package httpapi_test

import (
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/httpapi"
)

// discard is a client that takes everything at once.
type discard struct {
	header http.Header
	bytes  int64
}

func (d *discard) Header() http.Header { return d.header }
func (d *discard) WriteHeader(int)     {}
func (d *discard) Write(p []byte) (int, error) {
	d.bytes += int64(len(p))
	return len(p), nil
}

// logMany logs n points of one series in batches of 10,000 rows.
func (w *writer) logMany(key model.SeriesKey, n int) {
	const rows = 10_000
	for from := 0; from < n; from += rows {
		g := model.RowGroup{Axes: []model.AxisColumn{{Axis: model.AxisStep}}, Columns: []model.Column{{Series: key, Kind: model.KindFloat}}}
		first := w.seq + 1
		for i := from; i < min(from+rows, n); i++ {
			w.seq++
			g.Seq, g.TimeNs = append(g.Seq, w.seq), append(g.TimeNs, 1_700_000_000_000_000_000+int64(i)*1e6)
			g.Axes[0].Values = append(g.Axes[0].Values, int64(i))
			g.Columns[0].Floats = append(g.Columns[0].Floats, math.Sin(float64(i)))
		}
		if _, err := w.session.Append(w.l.t.Context(), &model.Batch{First: first, Last: w.seq, Groups: []model.RowGroup{g}}); err != nil {
			w.l.t.Fatal(err)
		}
	}
}

// logWide logs two points of each of n series.
func (w *writer) logWide(n int) {
	g := model.RowGroup{Axes: []model.AxisColumn{{Axis: model.AxisStep, Values: []int64{0, 1}}}, TimeNs: []int64{1_700_000_000_000_000_000, 1_700_000_000_100_000_000}, Seq: []uint64{w.seq + 1, w.seq + 2}}
	for i := range n {
		key := model.NewSeriesKey(fmt.Sprintf("wide/layer_%05d/grad_norm", i), "", nil)
		g.Columns = append(g.Columns, model.Column{Series: key, Kind: model.KindFloat, Floats: []float64{1, 1 / float64(i+3)}})
	}
	w.seq += 2
	if _, err := w.session.Append(w.l.t.Context(), &model.Batch{First: w.seq - 1, Last: w.seq, Groups: []model.RowGroup{g}}); err != nil {
		w.l.t.Fatal(err)
	}
}

func BenchmarkReads(b *testing.B) {
	l := newLab(b, httpapi.Options{})
	w := l.writer("run", nil)
	w.logMany(model.NewSeriesKey("short", "", nil), 2_000)
	w.logMany(model.NewSeriesKey("long", "", nil), 200_000)
	w.logWide(10_000)
	handlers := http.NewServeMux()
	for _, r := range l.api.Routes() {
		handlers.Handle(r.Method+" "+r.Pattern, r.Handler)
	}
	for _, c := range []struct{ name, path string }{
		{"points=2000/format=json", "points?metric=short"},
		{"points=2000/columns=2", "points?metric=short&column=time_ns&column=value"},
		{"points=200000/format=json", "points?metric=long&limit=200000"},
		{"points=200000/format=csv", "points?metric=long&limit=200000&format=csv"},
		{"points=200000/format=arrow", "points?metric=long&limit=200000&format=arrow"},
		{"points=200000/format=parquet", "points?metric=long&limit=200000&format=parquet"},
		{"buckets=1000", "buckets?metric=long"},
		{"series=10000", "series?q=wide&limit=10000"},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				d := &discard{header: http.Header{}}
				handlers.ServeHTTP(d, httptest.NewRequest(http.MethodGet, w.path(c.path), nil))
				if d.bytes < 1000 {
					b.Fatal("only " + strconv.FormatInt(d.bytes, 10) + " bytes")
				}
			}
		})
	}
}
