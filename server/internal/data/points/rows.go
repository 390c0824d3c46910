package points

import (
	"encoding/binary"
	"slices"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse/curve"
	"github.com/kymogram/kymogram/server/internal/store/local/column"
	"github.com/kymogram/kymogram/server/internal/store/local/record"
)

// A record of the folder's log has so many points or bytes of documents, about.
const recordPoints, recordBytes = 50_000, 8 << 20

// rows makes batches of points that come by arrival and series. Points of different series that
// share all else are a row again. A batch ends between two arrival numbers, so whoever goes on
// after a cut knows where. Points of one arrival number are of one writer.
type rows struct {
	run  model.RunID
	take func(*record.Batch) error

	batch  *record.Batch
	groups map[string]int // of the batch, by shape
	size   int            // points, and documents by their share
	now    []*row         // of the arrival number that is read
	points uint64
}

// row is points that share a row.
type row struct {
	curve.Row // of the first
	series    []uint32
	values    []value
}

type value struct {
	kind  model.Kind
	float float64
	int   int64
	doc   []byte
}

func (w *rows) add(p *curve.Row) error {
	if len(w.now) > 0 && w.now[0].Arrival != p.Arrival {
		if err := w.close(); err != nil {
			return err
		}
	}
	at := slices.IndexFunc(w.now, func(r *row) bool { return sameRow(&r.Row, p) })
	if at < 0 {
		at = len(w.now)
		r := &row{Row: *p}
		r.Axes = slices.Clone(p.Axes)
		w.now = append(w.now, r)
	}
	r := w.now[at]
	r.series = append(r.series, uint32(p.Series))
	r.values = append(r.values, value{p.Kind, p.Float, p.Int, []byte(p.Doc)})
	w.points++
	return nil
}

func sameRow(a, b *curve.Row) bool {
	return a.Time == b.Time && a.Seq == b.Seq && a.Rule == b.Rule && a.Has == b.Has && a.Attempt == b.Attempt && a.Writer == b.Writer && slices.Equal(a.Axes, b.Axes)
}

// close puts the rows of an arrival number into the batch.
func (w *rows) close() error {
	first := w.now[0]
	if w.batch != nil && (w.batch.Writer != first.Writer || w.batch.Attempt != first.Attempt || w.size >= recordPoints) {
		if err := w.emit(); err != nil {
			return err
		}
	}
	if w.batch == nil {
		w.batch = &record.Batch{Run: w.run, Writer: first.Writer, Attempt: first.Attempt}
		w.groups, w.size = map[string]int{}, 0
	}
	for _, r := range w.now {
		w.put(r)
	}
	w.batch.NextOrd = int64(first.Arrival) + 1
	w.now = w.now[:0]
	return nil
}

// put appends a row to the group of its shape.
func (w *rows) put(r *row) {
	key := shape(r)
	at, known := w.groups[key]
	if !known {
		at = len(w.batch.Groups)
		w.groups[key] = at
		g := record.Group{Rows: column.Rows{Mask: column.AxisSet(r.Has), Mode: model.Uniqueness(r.Rule)}, Series: r.series}
		for _, v := range r.values {
			g.Columns = append(g.Columns, column.Values{Kind: v.kind})
		}
		w.batch.Groups = append(w.batch.Groups, g)
	}
	g := &w.batch.Groups[at]
	for a := range column.NumAxes {
		if g.Rows.Mask.Has(a) {
			g.Rows.Axes[a] = append(g.Rows.Axes[a], r.Axes[a])
		}
	}
	g.Rows.Time, g.Rows.Seq, g.Rows.Arrival = append(g.Rows.Time, r.Time), append(g.Rows.Seq, r.Seq), append(g.Rows.Arrival, int64(r.Arrival))
	for i, v := range r.values {
		w.size += 1 + len(v.doc)*recordPoints/recordBytes
		switch c := &g.Columns[i]; v.kind {
		case model.KindFloat:
			c.Floats = append(c.Floats, v.float)
		case model.KindInt:
			c.Ints = append(c.Ints, v.int)
		default:
			c.Docs = append(c.Docs, v.doc)
		}
	}
}

// shape is equal for rows of one group.
func shape(r *row) string {
	b := binary.LittleEndian.AppendUint16([]byte{r.Rule}, r.Has)
	for _, id := range r.series {
		b = binary.LittleEndian.AppendUint32(b, id)
	}
	return string(b)
}

// end writes what is left.
func (w *rows) end() error {
	if len(w.now) > 0 {
		if err := w.close(); err != nil {
			return err
		}
	}
	return w.emit()
}

func (w *rows) emit() error {
	if w.batch == nil {
		return nil
	}
	rec := w.batch
	w.batch = nil
	return w.take(rec)
}
